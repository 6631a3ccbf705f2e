"""The curves that a run draws: train, val and test over its steps, and every candidate at its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skillopt.runs.values import Facts
from skillopt.runs.words import outcome

CurvePoint: TypeAlias = tuple[float, float]
"""A step, and a score there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCandidate:
    """A candidate at its step: its score, or the bound that rejected it; None where nothing was measured."""

    at: float
    outcome: str
    reached: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPoints:
    """Seed and best on the sealed test, the best at the step that it comes from, with its interval."""

    seed: CurvePoint
    best: CurvePoint
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What is drawn of a run. `test` is None until the seal was opened."""

    planned: int
    metric: str
    train: Sequence[CurvePoint] = ()
    val: Sequence[CurvePoint] = ()
    """The current skill's score after each change, the seed's at 0."""
    test: SealedPoints | None = None
    limits: Sequence[tuple[float, int]] = ()
    """How many edits a step could make."""
    tried: Sequence[TriedCandidate] = ()


def curves(facts: Facts) -> Curves:
    """The curves of a run as far as it was decided."""
    val = [(change.at, change.score) for change in facts.changes if change.score is not None]
    compared = facts.test.comparison
    # Of several changes with one score the first was the best.
    best_at = next(
        (one.at for one in facts.changes if one.score == facts.best and one.candidate == facts.best), 0.0
    )
    return Curves(
        planned=facts.planned,
        metric=facts.metric,
        train=[(change.at, change.train) for change in facts.steps if change.train is not None],
        val=[*([] if facts.baseline is None else [(0.0, facts.baseline)]), *val],
        test=None
        if compared is None
        else SealedPoints(
            seed=(0.0, compared.before), best=(best_at, compared.after), interval=compared.reach
        ),
        limits=[(change.at, change.limit) for change in facts.steps if change.limit is not None],
        tried=[
            TriedCandidate(
                at=one.at,
                outcome=outcome(one.action),
                reached=one.bound if one.candidate is None else one.candidate,
            )
            for one in facts.changes
        ],
    )
