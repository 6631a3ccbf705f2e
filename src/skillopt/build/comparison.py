"""What the rows of an evaluation say: a skill's means, and how two skills compare in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.evaluation.compare import Comparison, by_task, compare_rows
from skillopt.events import RowFact
from skillopt.tasks.task import Split

Compared: TypeAlias = Literal["hard", "soft"]
_WORTH: Mapping[Compared, Callable[[RowFact], float | None]] = {
    "hard": lambda row: row.hard,
    "soft": lambda row: row.soft,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One skill with one target on one split. The task is the unit: of several draws its mean counts."""

    target: str
    target_digest: str
    """Of all that can change what the target does."""
    skill: str
    digest: str
    """Of what the target gets, the text and an agent's files: the same under every name."""
    split: Split
    repeats: int
    rows: tuple[RowFact, ...] = field(repr=False)

    @property
    def hard(self) -> float | None:
        """The mean over the tasks; None where nothing was measured."""
        return _mean(list(by_task(self.rows, _WORTH["hard"]).values()))

    @property
    def soft(self) -> float | None:
        return _mean(list(by_task(self.rows, _WORTH["soft"]).values()))

    @property
    def n(self) -> int:
        """Tasks with a measurement."""
        return len(by_task(self.rows, _WORTH["hard"]))

    @property
    def invalid(self) -> int:
        """Rows without one."""
        return sum(row.invalid is not None for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """One skill against another with the same target, on the tasks of a split that both were measured on."""

    target: str
    skill: str
    against: str
    split: Split
    repeats: int
    metric: Compared
    comparison: Comparison | None
    """From `against` to `skill`; None where too much was lost."""
    why: str = ""
    """Why there is no comparison."""
    left_out: tuple[str, ...] = ()
    """Tasks without a measurement on either side."""


def comparisons(results: Sequence[Evaluated], against: str, *, graded: bool | None) -> list[Versus]:
    """Every other skill against that one, target by target and split by split: on hard, and on soft too where
    the scorer gives partial credit.

    `graded` None means that the scores themselves tell. A task with an invalid row on either side is left out
    by name; with more than 10 % of them there is no comparison. Where `against` itself is missing there is
    nothing to compare with.
    """
    rivals = {(one.target_digest, one.split): one for one in results if one.skill == against}
    if graded is None:
        graded = any(row.soft is not None and 0 < row.soft < 1 for one in results for row in one.rows)
    metrics: tuple[Compared, ...] = ("hard", "soft") if graded else ("hard",)
    return [
        _versus(one, rivals[one.target_digest, one.split], metric)
        for one in results
        if one.skill != against and (one.target_digest, one.split) in rivals
        for metric in metrics
    ]


def _versus(one: Evaluated, rival: Evaluated, metric: Compared) -> Versus:
    found = compare_rows(rival.rows, one.rows, _WORTH[metric], split=one.split)
    return Versus(
        target=one.target,
        skill=one.skill,
        against=rival.skill,
        split=one.split,
        repeats=one.repeats,
        metric=metric,
        comparison=found.comparison,
        why=found.why,
        left_out=found.left_out,
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
