"""Finds the edits of a candidate that break rows which worked, by trying parts of it on just those rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillopt.aio import together
from skillopt.evaluation.runner import Row
from skillopt.gate.decision import RowId
from skillopt.skill.edits import Edit
from skillopt.train.strategies._cover import thirds
from skillopt.train.strategies._trials import EditTrial, Trials, Worths, broken_in, fixed_in

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
    trials: Trials, edits: Sequence[Edit], rows: Mapping[RowId, Row], before: Worths, *, noise: float = 0
) -> Blame:
    """Which of these edits break more of these rows alone than `noise` explains: by thirds of them, or one by
    one where so many rows are broken that several edits must be guilty.

    A row that every part breaks is broken whatever the edits say, and speaks against none of them.
    """
    found = Blame(rows=set(rows))
    parts = thirds(edits)
    if len(rows) > MANY:
        parts = [(edit,) for edit in edits]
    least = beyond(noise, len(rows))
    tried = await trials.each(parts, list(rows.values()))
    found.trials += tried
    broken_by = [broken_in(before, trials.worths(trial)) for trial in tried]
    flakes = set.intersection(*(set(broken) for broken in broken_by)) if len(parts) > 1 else set[RowId]()
    suspects = [
        (part, [row for row in broken if row not in flakes])
        for part, broken in zip(parts, broken_by, strict=True)
    ]
    deeper = await together(
        *(
            blame(trials, part, {row: rows[row] for row in broken}, before, noise=noise)
            for part, broken in suspects
            if len(part) > 1 and len(broken) >= least
        )
    )
    for part, broken in suspects:
        if len(part) == 1 and len(broken) >= least:
            found.guilty[part[0].id] = broken
    for one in deeper:
        found.trials += one.trials
        found.guilty |= one.guilty
    return found


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


async def freed(
    trials: Trials,
    edits: Sequence[Edit],
    weak: Sequence[Edit],
    rows: Mapping[RowId, Row],
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
        half = (len(part) + 1) // 2
        halves = (part[:half], part[half:])
        tried = await trials.each([_without(edits, one) for one in halves], [rows[row] for row in right])
        found.trials += tried
        rights = [fixed_in(now, trials.worths(trial)) for trial in tried]
        flakes = set(rights[0]) & set(rights[1])
        for one, each in zip(halves, rights, strict=True):
            open_parts.append((one, [row for row in each if row not in flakes], len(right)))
    return found


def _without(edits: Sequence[Edit], out: Sequence[Edit]) -> list[Edit]:
    gone = {edit.id for edit in out}
    return [edit for edit in edits if edit.id not in gone]
