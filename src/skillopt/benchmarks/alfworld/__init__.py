"""ALFWorld: household tasks in text games, played action by action and won or not.

A row: `{"id": "train:0000", "gamefile": "json_2.1.1/train/pick_.../trial_.../game.tw-pddl", "task_type":
"pick_and_place_simple"}`, the game file below `env.data_root` (unset: the folder that `ALFWORLD_DATA` names).
TextWorld runs what stands in a game file, so play only games that you trust.
"""

from __future__ import annotations

import os
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field

from skillopt.benchmarks.alfworld._game import NOTHING, WON, Room
from skillopt.benchmarks.alfworld._load import to_task
from skillopt.errors import ConfigError
from skillopt.executors import Executor
from skillopt.executors.in_process import InProcess
from skillopt.tasks.benchmark import Environment
from skillopt.tasks.data import (
    CommonSettings,
    SplitBenchmark,
    TaskLoader,
    load_splits,
    package_text,
    published_defaults,
)
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Task

_text = partial(package_text, folder="alfworld")


class ALFWorldSettings(CommonSettings):
    """The `env.*` keys of ALFWorld."""

    data_root: Path | None = None
    """Folder that game files are named from; unset is the one that ALFWORLD_DATA names."""
    max_steps: int = Field(default=50, ge=1)
    """Actions of one episode; a target that needs more has failed."""


class ALFWorld(SplitBenchmark):
    """Games that are won or not."""

    name = "alfworld"
    Settings = ALFWorldSettings
    defaults = published_defaults(workers=8)
    has_environment = True
    graded = False
    uses_executor = True
    scoring_rule = "The game is won before the last step that is allowed; nothing else counts."

    def __init__(self, settings: ALFWorldSettings) -> None:
        if find_spec("textworld") is None or find_spec("fast_downward") is None:
            raise ConfigError("'alfworld' needs textworld: pip install 'skillopt-trainer[alfworld]'")
        named = settings.data_root or os.environ.get("ALFWORLD_DATA")
        if not named:
            raise ConfigError(
                "env.data_root: ALFWorld needs the folder of its games (alfworld-download fetches them). Set"
                " env.data_root, or the variable ALFWORLD_DATA."
            )
        self._root = Path(named)
        self._max_steps = settings.max_steps
        self.scorer_version = f"alfworld-1 textworld-{version('textworld')}"
        read = partial(to_task, root=self._root, template=_text("task.md"))
        super().__init__(
            splits=load_splits(settings, TaskLoader(read)),
            system=_text("system.md"),
            seed_skill=_text("skill.md"),
        )

    @classmethod
    def harness(cls, settings: ALFWorldSettings) -> str:
        """The tool loop: actions are tool calls. Only a target that names `chat` writes actions in tags."""
        return "tool_loop"

    def open(self, task: Task) -> Environment:
        """A fresh episode whose game runs in this process."""
        return self.open_in(InProcess(), task)

    def open_in(self, executor: Executor, task: Task) -> Environment:
        """A fresh episode; its game is started with the first action."""
        return Room(executor, self._root / task.data["gamefile"], self._max_steps)

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """1 for a game that was won, as the game says: the target's own words do not count."""
        shown = [message.content for message in trajectory.messages if message.role in ("tool", "user")]
        turns = sum(message.role == "assistant" for message in trajectory.messages)
        after = f"after {turns} {'turn' if turns == 1 else 'turns'}"
        if any(text.endswith(WON) for text in shown):
            return Score(hard=1.0, soft=1.0, feedback=f"Won {after}.")
        idle = sum(text.startswith(NOTHING) for text in shown)
        said = f"; {idle} did nothing" if idle else ""
        return Score(hard=0.0, soft=0.0, feedback=f"The task was not done {after}{said}.")


PLUGIN = ALFWorld
