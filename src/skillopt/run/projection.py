"""Projects how much a run will take from what it has shown itself: the plan, with measured shares."""

from __future__ import annotations

import json
from collections.abc import Callable

from skillopt.events.state import State
from skillopt.messages import Role
from skillopt.money import GATE_STAGE
from skillopt.run.calls import BASELINE, Figure, Progress, RolloutShape, planned_calls
from skillopt.run.job import Job
from skillopt.runs.database import Database

NOTED = "projection"
"""The name of what a run notes in its database."""


class Projection:
    """How many calls a run will have made at its end, from the baseline on: those so far, and the plan with
    what the run itself has shown. `spent` tells calls by stage and role.
    """

    def __init__(self, job: Job, spent: Callable[[str | None, Role | None], int], database: Database) -> None:
        self._job, self._spent, self._database = job, spent, database
        self._noted: list[float] = database.noted_as(json.loads, NOTED) or []

    @property
    def calls(self) -> float | None:
        """None before the baseline."""
        return self._noted[0] if self._noted else None

    def take(self, state: State) -> None:
        """A checkpoint. Of a cross-fitted run the first one of a part says how much fails."""
        job, progress = self._job, Progress.of(state, self._job.plan)
        if job.division.folds and self._noted:
            return
        calls = 0 if job.division.folds else self._spent(None, None)
        turns, questions = self._noted[1:] or self._asked()
        shape = RolloutShape(turns=Figure(typical=turns, at_most=None), questions=questions)
        left = planned_calls(job, shape, progress)
        self._noted = [calls + sum(figure.typical for figure in left.values()), turns, questions]
        self._database.note(NOTED, json.dumps(self._noted))

    def _asked(self) -> tuple[float, float]:
        """Calls to target and judge for a row of the first stage; what was found stored was asked before."""
        job, stage = self._job, GATE_STAGE
        rows = len(job.splits.val) * job.repeats * len(job.specs)
        if job.division.folds:
            stage, rows = BASELINE, len(job.splits.all)
        asked, judged = self._spent(stage, "target"), self._spent(stage, "judge")
        return max(1.0, asked / rows), judged / rows
