"""`no_regression`: strictly better, and no row worse than the incumbent's."""

from __future__ import annotations

from fractions import Fraction

from skillopt.gate.decision import Case, Clause, RowId, Ruling
from skillopt.gate.strict import Strict


class NoRegression(Strict):
    """Strictly better, and no row worse than the incumbent's.

    A row that could not be measured counts as no worse until the end, where it leaves the
    decision open.
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
