"""ALFWorld: household tasks in text games, played action by action and won or not.

A row: `{"id": "train:0000", "gamefile": "json_2.1.1/train/pick_.../trial_.../game.tw-pddl", "task_type":
"pick_and_place_simple"}`, the game file below `env.data_root` (unset: the folder that `ALFWORLD_DATA` names).
TextWorld runs what stands in a game file, so play only games that you trust.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from skillopt.benchmarks._data import CommonSettings, load_splits
from skillopt.benchmarks.alfworld._benchmark import ALFWorld
from skillopt.benchmarks.alfworld._load import ALFWorldLoader
from skillopt.errors import ConfigError
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin


class ALFWorldSettings(CommonSettings):
    """The `env.*` keys of ALFWorld."""

    data_root: Path | None = Field(
        default=None,
        description=(
            "Folder that the rows' game files are named from; unset is the one that ALFWORLD_DATA names."
        ),
    )
    max_steps: int = Field(
        default=50, ge=1, description="Actions of one episode; a target that needs more has failed."
    )


class _Plugin:
    Settings: type[BaseModel] = ALFWorldSettings
    defaults: Mapping[str, Any] = {
        "evaluation.repeats": 1,
        "env.workers": 8,
        "train.train_size": 0,
        "env.max_completion_tokens": 16384,
    }

    def __call__(self, settings: ALFWorldSettings) -> Benchmark:
        if find_spec("textworld") is None or find_spec("fast_downward") is None:
            raise ConfigError("'alfworld' needs textworld: pip install 'skillopt[alfworld]'")
        root = settings.data_root or _folder_of_games()
        return ALFWorld(
            splits=load_splits(settings, ALFWorldLoader(root, _text("task.md")).tasks),
            root=root,
            max_steps=settings.max_steps,
            system=_text("system.md"),
            seed_skill=_text("skill.md"),
        )

    def harness(self, settings: ALFWorldSettings) -> str:
        """Actions are tool calls; under `chat` they stand in tags."""
        return "tool_loop"


PLUGIN: BenchmarkPlugin = _Plugin()


def _folder_of_games() -> Path:
    named = os.environ.get("ALFWORLD_DATA")
    if not named:
        raise ConfigError(
            "env.data_root: ALFWorld needs the folder of its games (alfworld-download fetches them). Set"
            " env.data_root, or the variable ALFWORLD_DATA."
        )
    return Path(named)


def _text(name: str) -> str:
    return (files("skillopt.benchmarks.alfworld") / "texts" / name).read_text(encoding="utf-8")
