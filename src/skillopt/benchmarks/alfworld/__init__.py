"""ALFWorld: household tasks in text games, played action by action and won or not.

A row: `{"id": "train:0000", "gamefile": "json_2.1.1/train/pick_.../trial_.../game.tw-pddl", "task_type":
"pick_and_place_simple"}`, the game file below `env.data_root` (unset: the folder that `ALFWORLD_DATA` names).
TextWorld runs what stands in a game file, so play only games that you trust.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from skillopt.benchmarks.alfworld._benchmark import ALFWorld
from skillopt.benchmarks.alfworld._load import to_task
from skillopt.errors import ConfigError
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin
from skillopt.tasks.data import CommonSettings, TaskLoader, load_splits, package_text, published_defaults

_text = partial(package_text, folder="alfworld")


class ALFWorldSettings(CommonSettings):
    """The `env.*` keys of ALFWorld."""

    data_root: Path | None = None
    """Folder that game files are named from; unset is the one that ALFWORLD_DATA names."""
    max_steps: int = Field(default=50, ge=1)
    """Actions of one episode; a target that needs more has failed."""


class _Plugin:
    Settings: type[BaseModel] = ALFWorldSettings
    defaults: Mapping[str, Any] = published_defaults(workers=8)

    def __call__(self, settings: ALFWorldSettings) -> Benchmark:
        if find_spec("textworld") is None or find_spec("fast_downward") is None:
            raise ConfigError("'alfworld' needs textworld: pip install 'skillopt-trainer[alfworld]'")
        named = settings.data_root or os.environ.get("ALFWORLD_DATA")
        if not named:
            raise ConfigError(
                "env.data_root: ALFWorld needs the folder of its games (alfworld-download fetches them). Set"
                " env.data_root, or the variable ALFWORLD_DATA."
            )
        root = Path(named)
        return ALFWorld(
            splits=load_splits(settings, TaskLoader(partial(to_task, root=root, template=_text("task.md")))),
            root=root,
            max_steps=settings.max_steps,
            system=_text("system.md"),
            seed_skill=_text("skill.md"),
        )

    def harness(self, settings: ALFWorldSettings) -> str:
        """Actions are tool calls; under `chat` they stand in tags."""
        return "tool_loop"


PLUGIN: BenchmarkPlugin = _Plugin()
