"""Tries edits on rows: a trial is a set of ordinary rollouts of a changed skill."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from skillopt.evaluation.runner import PlannedRow
from skillopt.evaluation.stage import Breaker, Evaluation, fact
from skillopt.events import TrialFact
from skillopt.events.step import Step
from skillopt.gate.decision import RowId
from skillopt.gate.gate import Gate
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit, apply
from skillopt.tasks.rollout import Rollout, Scored

REDRAWN = 2
"""Rows that must come out differently when drawn again for a target to be noisy; one says nothing."""
Worths: TypeAlias = Mapping[RowId, Fraction]
"""What the gate's metric says of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditTrial:
    """Edits in the skill together, and the rollouts under them; no edit is the skill as it is."""

    edits: tuple[Edit, ...]
    rows: tuple[Rollout, ...]

    @property
    def fact(self) -> TrialFact:
        """The trial as the log tells it."""
        return TrialFact(edits=[edit.id for edit in self.edits], rows=[fact(row) for row in self.rows])


class Trials:
    """The trials of one stage of a step. Rows are measured once, whichever trials want them; more than a
    tenth of all of them lost to an outage stops the run.
    """

    def __init__(self, gate: Gate, step: Step, stage: str) -> None:
        self._gate = gate
        self._step = step
        self._stage = stage
        self._breaker = Breaker(stage, 0)
        self._known: dict[str, asyncio.Future[Rollout]] = {}

    async def run(self, edits: Sequence[Edit], rows: Sequence[PlannedRow]) -> EditTrial:
        """Put the edits into the skill of the step, and run these rows."""
        skill = apply(edits, self._step.skill).document.rendered
        evaluator = self._gate.evaluator
        keys = [evaluator.key(skill, row) for row in rows]
        fresh = [(key, row) for key, row in zip(keys, rows, strict=True) if key not in self._known]
        if fresh:
            stage = Evaluation(
                evaluator,
                self._step,
                skill,
                [row for _, row in fresh],
                stage=self._stage,
                tells_rows=False,
                breaker=self._breaker,
            )
            self._known |= {key: stage.arriving(at) for at, (key, _) in enumerate(fresh)}
            await stage.close()
        outcomes = await asyncio.gather(*(self._known[key] for key in keys))
        for row in outcomes:
            if isinstance(row, Scored):
                self._step.tokens.add(self._stage, row.trajectory.calls, row.trajectory.usage)
        return EditTrial(edits=tuple(edits), rows=tuple(outcomes))

    async def each(self, groups: Iterable[Sequence[Edit]], rows: Sequence[PlannedRow]) -> list[EditTrial]:
        """Several sets of edits on the same rows, side by side."""
        return await together(*(self.run(group, rows) for group in groups))

    def worth(self, rollout: Scored) -> Fraction:
        """What the gate's metric says of one rollout."""
        return next(iter(self._gate.worths([rollout]).values()))

    def worths(self, trial: EditTrial) -> dict[RowId, Fraction]:
        """What the gate's metric says of its rows; those that could not be measured are missing."""
        return self._gate.worths(trial.rows)

    def close(self) -> None:
        """Nothing more will be tried: a stage without a single measurement is lost."""
        self._breaker.close()


def is_fixed(before: Fraction, after: Fraction) -> bool:
    """Whether a row got better by at least half of what was missing: failed to passed, or near to it."""
    return after > before and 2 * after >= before + 1


def is_broken(before: Fraction, after: Fraction) -> bool:
    """Whether a row lost at least half of what it had."""
    return after < before and 2 * after <= before


def fixed_in(before: Worths, after: Worths) -> list[RowId]:
    """The rows that a trial fixed, in its order."""
    return [row for row, worth in after.items() if row in before and is_fixed(before[row], worth)]


def broken_in(before: Worths, after: Worths) -> list[RowId]:
    """The rows that a trial broke, in its order."""
    return [row for row, worth in after.items() if row in before and is_broken(before[row], worth)]


def noise_in(before: Worths, again: Worths) -> float:
    """The share of rows that came out differently when the skill as it is was drawn again."""
    differ = [row for row, worth in again.items() if worth != before.get((row[0], 0), worth)]
    return len(differ) / len(again) if len(differ) >= REDRAWN else 0.0
