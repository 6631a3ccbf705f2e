"""`strict`, the paper's rule: strictly better or not at all."""

from __future__ import annotations

from fractions import Fraction

from skillopt.gate.decision import Case, Clause, Ruling


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
