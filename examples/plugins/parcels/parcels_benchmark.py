"""Parcels: cases of the simulated world, packed as a benchmark."""

from pydantic import BaseModel, Field

from skillopt import Benchmark, Score, Task
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of


class Parcels(Benchmark):
    class Settings(BaseModel, extra="forbid"):
        parcels: int = Field(20, ge=1, description="Parcels in each split.")

    defaults = {"evaluation.repeats": 1}
    name, scorer_version, graded, seed_skill = "parcels", "1", False, SEED_SKILL
    prompts = {"rollout": "You sort parcels.\n\n{skill}"}

    def __init__(self, settings):
        self._count = settings.parcels

    def tasks(self, split):
        cases = [f"W55{'rae'.index(split[1])}{n:03d}" for n in range(self._count)]
        return [Task(id=c, prompt=f"{c}, {family_of(c)}. Its code?", reference=code_of(c)) for c in cases]

    async def score(self, task, trajectory):
        right = float(task.reference in trajectory.answer)
        return Score(hard=right, soft=right)
