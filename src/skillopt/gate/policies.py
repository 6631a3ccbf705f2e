"""Gate policies by name: ours, and those that packages add by an entry point of the group `skillopt.gate`.

A policy is a callable that takes a `Case` and gives a `PolicyReader`; subclassing `Strict` is the short way.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

from skillopt.gate.decision import Case, Clause, PolicyReader, RowId, Ruling
from skillopt.gate.paired import Paired
from skillopt.gate.strict import Strict
from skillopt.registry import Registry


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


POLICIES = Registry(
    "gate policy",
    group="skillopt.gate",
    own={
        "strict": Strict,
        "confirm": Confirm,
        "no_regression": NoRegression,
        "paired": Paired,
        "size_capped": SizeCapped,
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
