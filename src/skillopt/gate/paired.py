"""`paired`: strictly better, and by more than an accident would explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from skillopt.gate.decision import Case, Clause, Ruling
from skillopt.gate.strict import Strict

FINE, COARSE, MANY = 1_000, 100, 100
"""Differences of graded scores are read in thousandths, in hundredths where there are more than `MANY` tasks:
the time of counting all sign patterns grows with the resolution. Scores of 0 and 1 are exact in both.
"""


class Paired(Strict):
    """The one-sided exact paired test with the task as its unit: p <= alpha (McNemar's where all changes have
    one size, else sign flips).

    p never grows when a row of the candidate is better (see `accident`), so the smallest p still in reach is
    the one with every missing and unread row counted in full: once that is above alpha, the verdict is fixed.
    """

    clause: Clause = "chance"

    def __init__(self, case: Case) -> None:
        self._alpha = Fraction(str(case.settings.alpha))
        self._ahead: dict[str, Fraction] = {}
        for (task, _), bar in zip(case.rows, case.bar, strict=True):
            self._ahead[task] = self._ahead.get(task, Fraction(0)) + 1 - bar
        self._unit = FINE if len(self._ahead) <= MANY else COARSE
        self._told: tuple[Clause, str] | None = None
        self._is_stale = True
        super().__init__(case)

    def read(self, row: Fraction | None) -> Ruling | None:
        """Take in the next row; p is counted anew only where it can have changed."""
        if self.ruling is None and row is not None and row < 1:
            self._ahead[self.case.rows[self.seen][0]] -= 1 - row
            self._is_stale = True
        return super().read(row)

    def objection(self) -> tuple[Clause, str] | None:
        """Not better, or an accident would do as well too often even with a perfect rest."""
        if (simple := super().objection()) or not self._is_stale:
            return simple
        self._is_stale = False
        differences = self._differences()
        if _is_surely_below(differences, self.case.settings.alpha):
            return None
        p = accident(differences)
        if p <= self._alpha:
            return None
        known = "=" if self.seen == self.total and not self.lost else ">="
        return (
            "chance",
            (
                f"could be an accident: p {known} {float(p):.4f} > {self.case.settings.alpha:g} after"
                f" {self._where()}"
            ),
        )

    def praise(self) -> str:
        """Better, and how seldom an accident would be."""
        differences = self._differences()
        kind = "exact McNemar" if len({abs(one) for one in differences if one}) == 1 else "exact sign flip"
        return (
            f"{super().praise()}, p = {float(accident(differences)):.4f} <= {self.case.settings.alpha:g}"
            f" ({kind}, one-sided)"
        )

    def _differences(self) -> list[int]:
        return [round(self._unit * ahead) for ahead in self._ahead.values()]


def accident(differences: Sequence[int]) -> Fraction:
    """How often a sum of at least this size comes out when every difference gets its sign by a fair coin;
    exact.

    Putting the signs anew gives at least the observed sum iff the differences that are made negative add up
    to no more than those that are negative now, so it is enough to count the subsets of sizes with a sum of
    at most `lost`. The counts by sum are the digits of one large number, in which adding a size is a shift
    and an addition. For a given choice of signs, raising one difference never turns "less than observed" into
    "at least as much", so p never grows.
    """
    sizes = [abs(one) for one in differences if one]
    if not sizes:
        return Fraction(1)
    unit = math.gcd(*sizes)
    lost = sum(-one for one in differences if one < 0) // unit
    digit = len(sizes) + 1  # bits: a count is 2 ** len(sizes) at most, and so is the sum of all
    mask = (1 << digit * (lost + 1)) - 1
    ways = 1
    for size in sizes:
        if size // unit <= lost:
            ways = (ways + (ways << digit * (size // unit))) & mask
    count = ways % ((1 << digit) - 1)  # the sum of the digits, as casting out nines does it
    return Fraction(count, 1 << len(sizes))


def _is_surely_below(differences: Sequence[int], alpha: float) -> bool:
    """Hoeffding's bound, p <= exp(-T^2 / (2 * sum of squares)), saves counting far ahead."""
    ahead, squares = sum(differences), sum(one * one for one in differences)
    # a little more, so that rounding cannot matter
    return ahead > 0 and ahead * ahead > 2.000001 * squares * math.log(1 / alpha)
