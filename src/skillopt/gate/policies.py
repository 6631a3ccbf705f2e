"""Gate policies by name: ours, and those that packages add by an entry point of the group `skillopt.gate`.

A policy is a callable that takes a `Case` and gives a `PolicyReader`; subclassing `Strict` is the short way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice

from skillopt.gate.decision import Case, Clause, PolicyReader, RowId, Ruling
from skillopt.registry import Registry

POLICIES = Registry(
    "gate policy",
    group="skillopt.gate",
    own={
        "strict": "skillopt.gate.policies:Strict",
        "confirm": "skillopt.gate.policies:Confirm",
        "no_regression": "skillopt.gate.policies:NoRegression",
        "paired": "skillopt.gate.policies:Paired",
        "size_capped": "skillopt.gate.policies:SizeCapped",
    },
)


def decide(
    name: str, case: Case, candidate: Iterable[Fraction | None]
) -> tuple[PolicyReader, list[Fraction]]:
    """Read a candidate's rows until the ruling is fixed or they end; the reader, and U after each."""
    reader: PolicyReader = POLICIES.get(name)(case)
    uppers: list[Fraction] = []
    for row in islice(candidate, len(case.rows)):
        if reader.ruling is not None:
            break
        reader.read(case.counted(case.rows[len(uppers)], row))
        uppers.append(reader.upper)
    return reader, uppers


class Strict:
    """The paper's rule: strictly better or not at all.

    With I the incumbent's sum and U the candidate's sum with every missing and unread row counted in full:
    reject iff U <= I, accept iff every row is there and the sum > I, else inconclusive. A reject is fixed on
    the shortest prefix on which U <= I.

    Other policies ask for more: they override `objection`, which must never fall silent again as further rows
    come in, and `praise`.
    """

    clause: Clause = "score"
    """What an accept of this policy rests on."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.total = case.first
        self.bar = sum(case.bar[: case.first], Fraction(0))
        self.upper = Fraction(case.first)
        self.seen = 0
        self.lost = 0
        self.ruling: Ruling | None = None
        self.decided_by: Clause | None = None
        self.why = ""
        self._rule()  # nothing can beat a perfect incumbent

    def read(self, row: Fraction | None) -> Ruling | None:
        """Take in the next row; the ruling, or None while it is open. Later rows change nothing."""
        if self.ruling is not None:
            return self.ruling
        self.seen += 1
        self.lost += row is None
        self.upper -= 0 if row is None else 1 - row
        self._rule()
        return self.ruling

    def objection(self) -> tuple[Clause, str] | None:
        """Why the candidate cannot be accepted any more, whatever the rest brings."""
        if self.upper > self.bar:
            return None
        return (
            "score",
            f"not better than {self._mean(self.bar)}: at most {self._mean(self.upper)} after {self._where()}",
        )

    def praise(self) -> str:
        """What an accepted candidate has shown."""
        return f"{self._mean(self.upper)} > {self._mean(self.bar)} on all {self.total} rows"

    def _rule(self) -> None:
        if self.ruling is not None:
            return
        if objection := self.objection():
            self.ruling, (self.decided_by, self.why) = "reject", objection
        elif self.seen == self.total:
            self._end()

    def _end(self) -> None:
        """Every row of the reading was read, and nothing speaks against the candidate."""
        if self.lost:
            self.ruling, self.decided_by = "inconclusive", "lost rows"
            self.why = f"{self.lost} rows could not be measured and could decide"
        else:
            self.ruling, self.decided_by, self.why = "accept", self.clause, self.praise()

    def _mean(self, total: Fraction) -> str:
        return f"{float(total / self.total) if self.total else 0.0:.4f}"

    def _where(self) -> str:
        return f"{self.seen} of {self.total} rows"


class SizeCapped(Strict):
    """Strictly better, and no longer than the cap.

    Too long is rejected before the first rollout. One shorter than the incumbent passes: it is nearer.
    """

    clause: Clause = "length"

    def objection(self) -> tuple[Clause, str] | None:
        """Too long, or not better."""
        chars, cap = self.case.chars, self.case.cap
        if chars <= cap or chars < self.case.incumbent_chars:
            return super().objection()
        return (
            "length",
            (
                f"too long: {chars:,} characters, at most {cap:,} are allowed (gate.max_chars); nothing was"
                " measured"
            ),
        )

    def praise(self) -> str:
        """Better, and how long it is."""
        return f"{super().praise()}, with {self.case.chars:,} characters (at most {self.case.cap:,})"


class NoRegression(Strict):
    """Strictly better, and no row worse than the incumbent's.

    A row that could not be measured counts as no worse until the end, which it leaves open.
    """

    clause: Clause = "regression"

    def __init__(self, case: Case) -> None:
        self._worse: tuple[RowId, Fraction, Fraction] | None = None
        super().__init__(case)

    def read(self, row: Fraction | None) -> Ruling | None:
        """Take in the next row; the first one that got worse ends the reading."""
        if self.ruling is None and row is not None and row < (bar := self.case.bar[self.seen]):
            self._worse = (self.case.rows[self.seen], bar, row)
        return super().read(row)

    def objection(self) -> tuple[Clause, str] | None:
        """Not better, or a row got worse."""
        if self._worse is None:
            return super().objection()
        (task, draw), bar, row = self._worse
        drawn = f" (draw {draw})" if draw else ""
        return (
            "regression",
            f"{task}{drawn} got worse, from {float(bar):g} to {float(row):g}, seen after {self._where()}",
        )

    def praise(self) -> str:
        """Better, and nowhere worse."""
        return f"{super().praise()}, and none of them worse"


class Confirm(Strict):
    """Strictly better, and still so when candidate and incumbent are drawn again.

    Two readings: the first draws decide as `strict` does; where they would accept, the further draws are
    read as well and the mean of all draws decides. Both readings end on the shortest prefix on which even a
    perfect rest could not win.
    """

    clause: Clause = "confirmation"

    def __init__(self, case: Case) -> None:
        self._first_mean = ""
        super().__init__(case)

    @property
    def is_second(self) -> bool:
        """Whether the further draws are being read."""
        return self.total > self.case.first

    def read(self, row: Fraction | None) -> Ruling | None:
        """Take in the next row; the first one after the first reading opens the second."""
        if self.ruling is None and self.seen == self.case.first:
            self._first_mean = self._mean(self.upper)
            self.upper += len(self.case.rows) - self.total
            self.total = len(self.case.rows)
            self.bar = sum(self.case.bar, Fraction(0))
        return super().read(row)

    def objection(self) -> tuple[Clause, str] | None:
        """Not better, at first or on all draws."""
        simple = super().objection()
        if simple is None or not self.is_second:
            return simple
        return "confirmation", f"{self._first_mean} at first, and {simple[1]} when drawn again"

    def praise(self) -> str:
        """Better on all draws."""
        return (
            f"{super().praise()}, {self.total - self.case.first} of them drawn again ({self._first_mean} at"
            " first)"
        )

    def _end(self) -> None:
        if self.is_second or self.lost:
            super()._end()
        if self.is_second and self.ruling == "inconclusive":
            self.decided_by = "indecisive"
            self.why = f"indecisive: {self._first_mean} at first asks for further draws, but {self.why}"


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
        p = sign_flip_p_value(differences)
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
        p = float(sign_flip_p_value(differences))
        kind = "exact McNemar" if len({abs(move) for move in differences if move}) == 1 else "exact sign flip"
        return f"{super().praise()}, p = {p:.4f} <= {self.case.settings.alpha:g} ({kind}, one-sided)"

    def _differences(self) -> list[int]:
        return [round(self._unit * ahead) for ahead in self._ahead.values()]


def sign_flip_p_value(differences: Sequence[int]) -> Fraction:
    """How often a sum of at least this size comes out when every difference gets its sign by a fair coin;
    exact.

    Putting the signs anew gives at least the observed sum iff the differences that are made negative add up
    to no more than those that are negative now, so it is enough to count the subsets of sizes with a sum of
    at most `lost`. The counts by sum are the digits of one large number, in which adding a size is a shift
    and an addition. For a given choice of signs, raising one difference never turns "less than observed" into
    "at least as much", so p never grows.
    """
    sizes = [abs(difference) for difference in differences if difference]
    if not sizes:
        return Fraction(1)
    unit = math.gcd(*sizes)
    lost = sum(-difference for difference in differences if difference < 0) // unit
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
    ahead, squares = sum(differences), sum(difference * difference for difference in differences)
    # a little more, so that rounding cannot matter
    return ahead > 0 and ahead * ahead > 2.000001 * squares * math.log(1 / alpha)
