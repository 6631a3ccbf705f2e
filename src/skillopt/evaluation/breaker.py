"""Decides when a stage is not being measured any more: an outage stops a run and is never a score."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from skillopt.errors import SYSTEMIC_KINDS, ProviderDown, Stopped
from skillopt.tasks.rollout import Invalid, Rollout

MOST_LOST = Fraction(1, 10)
"""The share of a stage, of val or of test that may be lost without the measurement being worthless."""


class Breaker:
    """Stops a stage that is not being measured.

    More than 10 % of its rows (at least two) lost to an outage, a broken request or a broken scorer, or all
    of them to whatever: such a stage does not close, so that the same command can measure it when the cause
    is gone.
    """

    def __init__(self, stage: str, total: int = 0) -> None:
        self._stage = stage
        self._total = total
        self._lost: list[Invalid] = []

    def expect(self, rows: int) -> None:
        """So many further rows belong to the stage."""
        self._total += rows

    def note(self, outcome: Rollout) -> None:
        """Count a row; raises `ProviderDown` with every cause as soon as the stage is lost."""
        if not isinstance(outcome, Invalid):
            return
        self._lost.append(outcome)
        systemic = sum(one.kind in SYSTEMIC_KINDS for one in self._lost)
        if systemic >= 2 and Fraction(systemic, self._total) > MOST_LOST:
            raise self._down()

    def close(self, *, may_stay_open: bool = False) -> None:
        """Nothing more will come: a stage without a single measurement is lost too.

        A gate may stay open where the target's replies were to blame: its verdict is then inconclusive.
        """
        lost = [one for one in self._lost if not may_stay_open or one.kind in SYSTEMIC_KINDS]
        if lost and len(lost) >= self._total:
            raise self._down()

    def _down(self) -> Stopped:
        counted = Counter(f"{one.kind}: {one.detail}" for one in self._lost)
        listed = "\n".join(f"  {count} x {cause}" for cause, count in sorted(counted.items()))
        return ProviderDown(
            f"Stage {self._stage!r} cannot be measured: {len(self._lost)} of {self._total} rows were"
            f" lost.\n{listed}\nNo score was made of it and everything paid is kept. Run the same command"
            " again when the cause is gone."
        )
