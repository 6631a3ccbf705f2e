"""Finds the edits of a candidate that break rows which worked, by trying parts of it on just those rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillopt.aio import together
from skillopt.evaluation.runner import Row
from skillopt.gate.decision import RowId
from skillopt.skill.edits import Edit
from skillopt.train.strategies._cover import thirds
from skillopt.train.strategies._trials import EditTrial, Trials, Worths, broken_in


@dataclass(slots=True, kw_only=True)
class Blame:
    """The trials in planned order, and the rows that each guilty edit breaks by itself."""

    trials: list[EditTrial] = field(default_factory=list)
    guilty: dict[str, list[RowId]] = field(default_factory=dict)


async def blame(
    trials: Trials, edits: Sequence[Edit], rows: Mapping[RowId, Row], before: Worths, *, least: int = 1
) -> Blame:
    """Which of these edits break at least `least` of these rows alone, by thirds of them.

    A row that every part breaks is broken whatever the edits say, and speaks against none of them.
    """
    found = Blame()
    if len(edits) == 1:
        trial = await trials.run(edits, list(rows.values()))
        found.trials.append(trial)
        broken = broken_in(before, trials.worths(trial))
        if len(broken) >= least:
            found.guilty[edits[0].id] = broken
        return found
    parts = thirds(edits)
    tried = await trials.each(parts, list(rows.values()))
    found.trials += tried
    broken_by = [broken_in(before, trials.worths(trial)) for trial in tried]
    flakes = set.intersection(*(set(broken) for broken in broken_by))
    suspects = [
        (part, [row for row in broken if row not in flakes])
        for part, broken in zip(parts, broken_by, strict=True)
    ]
    deeper = await together(
        *(
            blame(trials, part, {row: rows[row] for row in broken}, before, least=least)
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
