"""Decides which curves a run draws: train, val and test over its steps, each point with the interval that its
rows allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt.runs.values import Change, Facts
from skillopt.runs.words import outcome

Z = 1.959963984540054
"""Of a 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured mean at a step, and its 95 % interval."""

    at: float
    score: float
    low: float
    high: float
    n: int
    """Rows, or tasks, behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A candidate at its step: its score, or the bound that was enough to reject it; both None where nothing
    was measured.
    """

    at: float
    name: str
    outcome: str
    score: float | None
    bound: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What is drawn of a run. `test` is empty until the seal was opened."""

    planned: int
    metric: str
    train: Sequence[Point] = ()
    val: Sequence[Point] = ()
    """The current skill's score after each change, the seed's at 0."""
    test: Mapping[str, Point] | None = None
    """Seed and best on the sealed test, the best at the step that it comes from."""
    limits: Sequence[tuple[float, int]] = ()
    """How many edits a step could make."""
    tried: Sequence[Tried] = ()


def curves(facts: Facts) -> Curves:
    """The curves of a run as far as it was decided."""
    tasks = len(facts.tasks)
    val: list[Point] = []
    if facts.baseline is not None:
        val.append(_point(0.0, facts.baseline, tasks))
    for change in facts.changes:
        if change.score is not None:
            val.append(_point(change.at, change.score, tasks))
    return Curves(
        planned=facts.planned,
        metric=facts.metric,
        train=[
            _point(change.at, change.train, change.train_rows)
            for change in facts.steps
            if change.train is not None
        ],
        val=val,
        test=_test(facts),
        limits=[(change.at, change.limit) for change in facts.steps if change.limit is not None],
        tried=[_tried(change) for change in facts.changes],
    )


def interval(mean: float, n: int) -> tuple[float, float]:
    """The Wilson score interval of a mean of scores in [0, 1]; for graded scores, which vary less, it is on
    the safe side.
    """
    if n <= 0:
        return 0.0, 1.0
    square = Z * Z
    centre = (mean + square / (2 * n)) / (1 + square / n)
    half = Z / (1 + square / n) * math.sqrt(max(0.0, mean * (1 - mean)) / n + square / (4 * n * n))
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def _point(at: float, mean: float, n: int) -> Point:
    low, high = interval(mean, n)
    return Point(at=at, score=mean, low=low, high=high, n=n)


def _tried(change: Change) -> Tried:
    return Tried(
        at=change.at,
        name=change.name,
        outcome=outcome(change.action),
        score=change.candidate,
        bound=change.bound,
        why=change.why,
    )


def _test(facts: Facts) -> Mapping[str, Point] | None:
    found = facts.test.comparison
    if found is None:
        return None
    # Of several changes with one score the first was the best.
    best = next(
        (
            change.at
            for change in facts.changes
            if change.score == facts.best and change.candidate == facts.best
        ),
        0.0,
    )
    return {"seed": _point(0.0, found.before, found.n), "best": _point(best, found.after, found.n)}
