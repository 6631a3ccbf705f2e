"""The gate's arithmetic, exact and pure: what a row is worth, in which order rows are read, and when the verdict is fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

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


def strict(incumbent: Sequence[Fraction], candidate: Sequence[Fraction | None]) -> tuple[Ruling | None, int]:
    """The paper's rule on rows in reading order: strictly better or not at all.

    `candidate` is the prefix that is in, `None` for a row that stays missing. With I the incumbent's sum and U the candidate's sum with
    every missing and unread row counted in full: reject iff U <= I, accept iff every row is there and the sum > I, else inconclusive.
    Returns the ruling, or None while it is open, and how many rows decided it: the shortest prefix on which U <= I, or all.
    """
    # Whole numbers over one common denominator: as exact as the fractions and many times faster, and this runs once per row read.
    scale = math.lcm(*(row.denominator for row in (*incumbent, *candidate) if row is not None))
    bar = sum(row.numerator * (scale // row.denominator) for row in incumbent)
    upper = scale * len(incumbent)
    if upper <= bar:
        return "reject", 0  # nothing can beat a perfect incumbent
    for read, row in enumerate(candidate, start=1):
        if row is not None:
            upper -= scale - row.numerator * (scale // row.denominator)
        if upper <= bar:
            return "reject", read
    if len(candidate) < len(incumbent):
        return None, len(candidate)
    return ("inconclusive" if None in candidate else "accept"), len(candidate)
