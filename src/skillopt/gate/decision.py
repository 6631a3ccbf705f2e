"""The gate's arithmetic, exact and pure: what a row is worth, in which order rows are read, and when the verdict is fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

from skillopt.tasks.rollout import Score

Metric = Literal["hard", "soft", "mixed"]
RowId: TypeAlias = tuple[str, int]
"""Task id and draw."""
Ruling = Literal["accept", "reject", "inconclusive"]


def value(score: Score, metric: Metric, weight: float) -> Fraction:
    """What a score is worth to the gate, exactly; `mixed` is (1 - w) * hard + w * soft."""
    hard, soft = Fraction(score.hard), Fraction(score.soft)
    if metric == "hard":
        return hard
    if metric == "soft":
        return soft
    share = Fraction(str(weight))
    return (1 - share) * hard + share * soft


def reading_order(incumbent: Mapping[RowId, Fraction]) -> list[RowId]:
    """The incumbent's worst rows first: where a candidate must win, and where a hopeless one shows soonest."""
    return sorted(incumbent, key=lambda row: (incumbent[row], row))


class Reader(Protocol):
    """A policy at work: told the candidate's rows in reading order, None for one that stays missing, until the ruling is fixed."""

    ruling: Ruling | None

    def read(self, row: Fraction | None) -> Ruling | None:
        """Take in the next row; the ruling, or None while it is open."""
        ...


class Strict:
    """The paper's rule: strictly better or not at all.

    With I the incumbent's sum and U the candidate's sum with every missing and unread row counted in full: reject iff U <= I, accept iff
    every row is there and the sum > I, else inconclusive. A reject is fixed on the shortest prefix on which U <= I.
    """

    def __init__(self, incumbent: Sequence[Fraction]) -> None:
        self.bar = sum(incumbent, Fraction(0))
        self.upper = Fraction(len(incumbent))
        self.ruling: Ruling | None = "reject" if self.upper <= self.bar else None  # nothing can beat a perfect incumbent
        self._left = len(incumbent)
        self._missing = False

    def read(self, row: Fraction | None) -> Ruling | None:
        self._left -= 1
        self._missing = self._missing or row is None
        self.upper -= 0 if row is None else 1 - row
        if self.ruling is None and self.upper <= self.bar:
            self.ruling = "reject"
        if self.ruling is None and self._left == 0:
            self.ruling = "inconclusive" if self._missing else "accept"
        return self.ruling


POLICIES: Mapping[str, Callable[[Sequence[Fraction]], Reader]] = {"strict": Strict}


def decide(policy: str, incumbent: Sequence[Fraction], candidate: Sequence[Fraction | None]) -> tuple[Ruling | None, int]:
    """The ruling on a prefix of rows in reading order, or None while it is open, and how many of them fixed it."""
    reader = POLICIES[policy](incumbent)
    for read, row in enumerate(candidate):
        if reader.ruling is not None:
            return reader.ruling, read
        reader.read(row)
    return reader.ruling, len(candidate)
