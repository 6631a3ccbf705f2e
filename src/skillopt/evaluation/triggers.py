"""How well a description triggers: the share of wanted loads that happened, and of loads that were wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillopt.events import RowFact
from skillopt.tasks.triggers import LEAVE, LOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggering:
    """Figures of one description on queries; None where there is nothing to divide by."""

    recall: float | None
    """Of the queries that should load the skill: the share that did."""
    precision: float | None
    """Of the loads: the share that should have been."""


def triggering(rows: Iterable[RowFact]) -> Triggering | None:
    """The figures of measured rows; None where the tasks are no such queries.

    A reply that shows no choice is a miss among the wanted loads, and no load among the unwanted.
    """
    measured = [row for row in rows if row.hard is not None]
    wanted = [row for row in measured if row.task.startswith(f"{LOAD}-")]
    unwanted = [row for row in measured if row.task.startswith(f"{LEAVE}-")]
    if not measured or len(wanted) + len(unwanted) < len(measured):
        return None
    hits = sum(row.hard == 1.0 for row in wanted)
    strays = sum(row.hard == 0.0 and row.failure is None for row in unwanted)
    return Triggering(
        recall=hits / len(wanted) if wanted else None,
        precision=hits / (hits + strays) if hits + strays else None,
    )
