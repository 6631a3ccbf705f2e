"""Tries edits on rows, and finds the edits of a candidate that break rows which worked.

A trial is a set of ordinary rollouts of a changed skill.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

from skillopt.evaluation.runner import PlannedRow
from skillopt.evaluation.stage import Breaker, Evaluation, logged_row
from skillopt.events import Blamed, TrialFact
from skillopt.events.place import Place
from skillopt.events.step import Step
from skillopt.gate.decision import RowId
from skillopt.gate.gate import Gate
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit, apply
from skillopt.tasks.rollout import Rollout, Scored

REDRAWN = 2
"""Rows that must come out differently when drawn again for a target to be noisy; one says nothing."""
SHARED = 2
"""Tasks of another edit on which one must show that it can stand for it."""
ROUNDS = 3
"""How often a choice is controlled and mended before it goes to the gate as it is."""
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
        return TrialFact(edits=[edit.id for edit in self.edits], rows=[logged_row(row) for row in self.rows])


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


T = TypeVar("T")
ACCIDENT = 0.05
MANY = 6
"""Broken rows beyond which every edit is tried alone: thirds would cost more."""


@dataclass(slots=True, kw_only=True)
class Blame:
    """The trials in planned order, and the rows that each guilty edit breaks by itself."""

    trials: list[EditTrial] = field(default_factory=list)
    guilty: dict[str, list[RowId]] = field(default_factory=dict)
    rows: set[RowId] = field(default_factory=set)
    """The rows that parts were tried on."""


async def blame(
    trials: Trials,
    edits: Sequence[Edit],
    rows: Mapping[RowId, PlannedRow],
    before: Worths,
    *,
    noise: float = 0,
) -> Blame:
    """Find the edits that break more of `rows` than `noise` explains: try thirds of the edits, or each edit
    alone where so many rows are broken that several edits must be guilty.

    A row that every part of the edits breaks counts against none of them.
    """
    parts = parts_of(edits, len(rows))
    tried = await trials.each(parts, list(rows.values()))
    suspected = suspects(
        parts, [broken_in(before, trials.worths(trial)) for trial in tried], len(rows), noise
    )
    deeper = await together(
        *(
            blame(trials, part, {row: rows[row] for row in broken}, before, noise=noise)
            for part, broken in suspected
            if len(part) > 1
        )
    )
    guilty = {part[0].id: broken for part, broken in suspected if len(part) == 1}
    result = Blame(trials=tried, guilty=guilty, rows=set(rows))
    for one in deeper:
        result.trials += one.trials
        result.guilty |= one.guilty
    return result


def parts_of(edits: Sequence[T], rows: int) -> list[tuple[T, ...]]:
    """What is tried by itself to find the edits that break so many rows: each one, or thirds in order."""
    n = len(edits)
    count = n if rows > MANY else min(n, 3)
    return [tuple(edits[at * n // count : (at + 1) * n // count]) for at in range(count)]


def suspects(
    parts: Sequence[tuple[T, ...]], broken_by: Sequence[Sequence[RowId]], rows: int, noise: float
) -> list[tuple[tuple[T, ...], list[RowId]]]:
    """The parts that break more of so many rows than `noise` explains, with these rows."""
    pairs = zip(parts, without_flakes(broken_by), strict=True)
    return [(part, broken) for part, broken in pairs if len(broken) >= fewest_beyond_chance(noise, rows)]


def without_flakes(changed_by: Sequence[Sequence[RowId]]) -> list[list[RowId]]:
    """The rows that each part changes, without those that every part does: these change by themselves."""
    flakes = set.intersection(*map(set, changed_by)) if len(changed_by) > 1 else set[RowId]()
    return [[row for row in changed if row not in flakes] for changed in changed_by]


def halves_of(part: tuple[T, ...]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """A part in two, the first the larger."""
    half = (len(part) + 1) // 2
    return part[:half], part[half:]


def fewest_beyond_chance(noise: float, rows: int) -> int:
    """The smallest number of changed rows that comes about by accident in at most one of twenty cases, where
    each of so many rows changes by itself with that chance.
    """
    tail = 0.0
    for changed in range(rows, 0, -1):
        tail += math.comb(rows, changed) * noise**changed * (1 - noise) ** (rows - changed)
        if tail > ACCIDENT:
            return changed + 1
    return 1


def edits_to_drop(
    blame: Blame, fixes: Mapping[str, float], broken: Sequence[RowId], scale: float = 1
) -> list[str]:
    """The guilty edits that break at least as much as they fix. `fixes` is what each should fix among as many
    rows; what it breaks of the rows that were tried stands for all `broken` ones, times `scale`.
    """
    share = scale * len(broken) / max(1, len(blame.rows))
    return sorted(id for id, rows in blame.guilty.items() if fixes[id] <= share * len(rows))


def blamed_event(
    place: Place,
    stage: Literal["control", "blame", "prune"],
    trials: Sequence[EditTrial],
    guilty: Sequence[str],
    *,
    number: int = 0,
    fixes: Mapping[str, int] = MappingProxyType({}),
) -> Blamed:
    """What was found guilty, as the log tells it."""
    return Blamed(
        id=str(place.at(stage, str(number))),
        place=place,
        stage=stage,
        trials=[trial.fact for trial in trials],
        guilty=list(guilty),
        fixes=dict(fixes),
    )


async def rows_fixed_without(
    trials: Trials,
    edits: Sequence[Edit],
    weak: Sequence[Edit],
    rows: Mapping[RowId, PlannedRow],
    now: Worths,
    *,
    noise: float = 0,
) -> Blame:
    """Which of the weak edits keep more of these wrong rows from coming right than `noise` explains: all of
    them are left out, then halves. A row that comes right without either half comes right by itself.
    """
    result = Blame()
    first = await trials.run(_without(edits, weak), list(rows.values()))
    result.trials.append(first)
    open_parts = [(tuple(weak), fixed_in(now, trials.worths(first)), len(rows))]
    while open_parts:
        part, right, tried_on = open_parts.pop(0)
        if len(right) < fewest_beyond_chance(noise, tried_on):
            continue
        if len(part) == 1:
            result.guilty[part[0].id] = right
            continue
        halves = halves_of(part)
        tried = await trials.each([_without(edits, one) for one in halves], [rows[row] for row in right])
        result.trials += tried
        rights = without_flakes([fixed_in(now, trials.worths(trial)) for trial in tried])
        open_parts += [(one, each, len(right)) for one, each in zip(halves, rights, strict=True)]
    return result


def _without(edits: Sequence[Edit], out: Sequence[Edit]) -> list[Edit]:
    gone = {edit.id for edit in out}
    return [edit for edit in edits if edit.id not in gone]
