"""The cases of the rule world (simulated, see `models/world/`): the embedded default and a test-bed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Split, Task

_ROLLOUT = (
    "You work on cases of the simulated rule world.\n\n## Skill\n\n{skill}\n\nAnswer with the code of the"
    " case in <answer> tags."
)


class WorldSettings(BaseModel):
    """How many cases each split has, and where in the endless row of cases they start."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    train_cases: int = Field(80, ge=1)
    """Simulated training cases."""
    val_cases: int = Field(60, ge=1)
    """Simulated cases of the gate."""
    test_cases: int = Field(200, ge=0)
    """Simulated cases of the sealed test."""
    world_seed: int = Field(0, ge=0, le=99)
    """Which of a hundred disjoint sets of cases."""


class WorldBenchmark(Benchmark):
    """Cases with a code that only the right rules reveal."""

    name = "world"
    prompts: Mapping[str, str] = {"rollout": _ROLLOUT}
    seed_skill = SEED_SKILL
    scorer_version = "world-1"
    graded = False
    Settings = WorldSettings

    def __init__(self, settings: WorldSettings) -> None:
        self._counts = {"train": settings.train_cases, "val": settings.val_cases, "test": settings.test_cases}
        self._seed = settings.world_seed

    def tasks(self, split: Split) -> Sequence[Task]:
        first = {"train": 0, "val": 3000, "test": 6000}[split]
        cases = [f"W{self._seed:02d}{first + number:04d}" for number in range(self._counts[split])]
        return [
            Task(
                id=case,
                prompt=f"Case {case}, about {family_of(case)}. What is its code?",
                reference=code_of(case),
                kind=family_of(case),
            )
            for case in cases
        ]

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        right = task.reference in trajectory.answer
        return Score(hard=float(right), soft=float(right), feedback="" if right else "the code is wrong")


PLUGIN = WorldBenchmark
