"""ALFWorld as a benchmark: a fresh game for every rollout, and a score that is read off what
the game said.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skillopt.benchmarks.alfworld._environment import NOTHING, WON, Room
from skillopt.executors import Executor
from skillopt.executors.in_process import InProcess
from skillopt.messages import Message
from skillopt.tasks.benchmark import Environment
from skillopt.tasks.data import SplitBenchmark
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Task


class ALFWorld(SplitBenchmark):
    """Games that are won or not."""

    name = "alfworld"
    graded: bool | None = False
    scoring_rule = "The game is won before the last step that is allowed; nothing else counts."

    def __init__(self, *, root: Path, max_steps: int, **texts: Any) -> None:
        """`texts` and splits are those of `SplitBenchmark`."""
        super().__init__(**texts)
        self.scorer_version = f"alfworld-1 textworld-{version('textworld')}"
        self._root = root
        self._max_steps = max_steps

    def open(self, task: Task) -> Environment:
        """A fresh episode whose game runs in this process."""
        return self.open_in(InProcess(), task)

    def open_in(self, executor: Executor, task: Task) -> Environment:
        """A fresh episode; its game is started with the first action."""
        return Room(executor, self._root / task.data["gamefile"], self._max_steps)

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """1 for a game that was won. Only the game writes what is read here: the target's own words do not
        count.
        """
        shown = [message.content for message in trajectory.messages if message.role in ("tool", "user")]
        if any(text.endswith(WON) for text in shown):
            return Score(hard=1.0, soft=1.0, feedback=f"Won after {_times(trajectory.messages)}.")
        idle = sum(text.startswith(NOTHING) for text in shown)
        said = f"; {idle} did nothing" if idle else ""
        return Score(
            hard=0.0, soft=0.0, feedback=f"The task was not done after {_times(trajectory.messages)}{said}."
        )


def _times(messages: Sequence[Message]) -> str:
    count = sum(message.role == "assistant" for message in messages)
    return f"{count} {'turn' if count == 1 else 'turns'}"
