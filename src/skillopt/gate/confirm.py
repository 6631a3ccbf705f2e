"""`confirm`: strictly better, and still so when candidate and incumbent are drawn again."""

from __future__ import annotations

from fractions import Fraction

from skillopt.gate.decision import Case, Clause, Ruling
from skillopt.gate.strict import Strict


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
