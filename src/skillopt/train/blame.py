"""Finds the edits of a candidate that break rows which worked, by trying parts of it on just those rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeVar

from skillopt.evaluation.runner import PlannedRow
from skillopt.events import Blamed
from skillopt.events.place import Place
from skillopt.gate.decision import RowId
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit
from skillopt.train.trials import EditTrial, Trials, Worths, broken_in, fixed_in

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
    """Which of these edits break more of these rows alone than `noise` explains: by thirds of them, or one by
    one where so many rows are broken that several edits must be guilty.

    A row that every part breaks is broken whatever the edits say, and speaks against none of them.
    """
    parts = parts_of(edits, len(rows))
    tried = await trials.each(parts, list(rows.values()))
    suspected = suspects(parts, [broken_in(before, trials.worths(one)) for one in tried], len(rows), noise)
    deeper = await together(
        *(
            blame(trials, part, {row: rows[row] for row in broken}, before, noise=noise)
            for part, broken in suspected
            if len(part) > 1
        )
    )
    guilty = {part[0].id: broken for part, broken in suspected if len(part) == 1}
    found = Blame(trials=tried, guilty=guilty, rows=set(rows))
    for one in deeper:
        found.trials += one.trials
        found.guilty |= one.guilty
    return found


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
    return [(part, broken) for part, broken in pairs if len(broken) >= beyond(noise, rows)]


def without_flakes(changed_by: Sequence[Sequence[RowId]]) -> list[list[RowId]]:
    """The rows that each part changes, without those that every part does: these change by themselves."""
    flakes = set.intersection(*map(set, changed_by)) if len(changed_by) > 1 else set[RowId]()
    return [[row for row in changed if row not in flakes] for changed in changed_by]


def halves_of(part: tuple[T, ...]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """A part in two, the first the larger."""
    half = (len(part) + 1) // 2
    return part[:half], part[half:]


def beyond(noise: float, rows: int) -> int:
    """The smallest number of changed rows that comes about by accident in at most one of twenty cases, where
    each of so many rows changes by itself with that chance.
    """
    tail = 0.0
    for changed in range(rows, 0, -1):
        tail += math.comb(rows, changed) * noise**changed * (1 - noise) ** (rows - changed)
        if tail > ACCIDENT:
            return changed + 1
    return 1


def not_worth_it(
    found: Blame, fixes: Mapping[str, float], broken: Sequence[RowId], scale: float = 1
) -> list[str]:
    """The guilty edits that break at least as much as they fix. `fixes` is what each should fix among as many
    rows; what it breaks of the rows that were tried stands for all `broken` ones, times `scale`.
    """
    share = scale * len(broken) / max(1, len(found.rows))
    return sorted(id for id, rows in found.guilty.items() if fixes[id] <= share * len(rows))


def blamed(
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


async def freed(
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
    found = Blame()
    first = await trials.run(_without(edits, weak), list(rows.values()))
    found.trials.append(first)
    open_parts = [(tuple(weak), fixed_in(now, trials.worths(first)), len(rows))]
    while open_parts:
        part, right, tried_on = open_parts.pop(0)
        if len(right) < beyond(noise, tried_on):
            continue
        if len(part) == 1:
            found.guilty[part[0].id] = right
            continue
        halves = halves_of(part)
        tried = await trials.each([_without(edits, one) for one in halves], [rows[row] for row in right])
        found.trials += tried
        rights = without_flakes([fixed_in(now, trials.worths(trial)) for trial in tried])
        open_parts += [(one, each, len(right)) for one, each in zip(halves, rights, strict=True)]
    return found


def _without(edits: Sequence[Edit], out: Sequence[Edit]) -> list[Edit]:
    gone = {edit.id for edit in out}
    return [edit for edit in edits if edit.id not in gone]
