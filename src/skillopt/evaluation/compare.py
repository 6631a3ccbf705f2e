"""Compares two skills on the same tasks: means, interval, an exact paired test, tasks fixed and broken."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from skillopt.evaluation.significance import (
    SMALL,
    Significance,
    improvement_interval,
    improvement_p,
    significance,
)
from skillopt.evaluation.stage import too_many_lost
from skillopt.events import Row
from skillopt.tasks.rollout import Means

RESAMPLES = 10_000
EXACT_UP_TO = 18
"""Number of non-zero differences up to which the sign-flip test enumerates all 2^n signs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Paired figures of before and after. `p` is that of no difference, or of none for the better where
    `level` is 90 %: the interval of the mean difference and `p` never contradict each other.
    """

    n: int
    before: float
    after: float
    delta: float
    interval: tuple[float, float]
    p: float
    test: str
    significance: Significance
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    level: int = 95
    """Percent of the interval: 95, or 90 where only an improvement is asked for."""

    @property
    def direction(self) -> Literal["better", "worse", "cannot tell"]:
        """What the comparison shows: a difference that can be chance shows nothing."""
        if self.significance == "real":
            return "better"
        return "worse" if significance(-self.delta, self.p) == "real" else "cannot tell"

    @property
    def sentence(self) -> str:
        """The figures in a sentence."""
        low, high = self.interval
        figures = f"{self.level} % interval {low:+.3f} to {high:+.3f}, p = {self.p:.2g}, {self.test}"
        return f"{self.before:.3f} to {self.after:.3f}, {self.delta:+.3f} ({figures})."

    @property
    def reach(self) -> tuple[float, float]:
        """The interval of the change, drawn at `after`: from `before` on, within what a score can be."""
        low, high = (min(1.0, max(0.0, self.before + end)) for end in self.interval)
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRows:
    """Two skills on the rows of one split: compared, or why they cannot be."""

    comparison: Comparison | None
    why: str = ""
    left_out: tuple[str, ...] = ()
    """Tasks with a row that could not be measured, on either side."""


def compare_rows(
    before: Sequence[Row],
    after: Sequence[Row],
    worth: Callable[[Row], float | None],
    *,
    split: str,
    one_sided: bool = False,
) -> PairedRows:
    """Compare by task, of several draws the mean. Tasks that were lost on either side are left out by name;
    where they are too many there is no comparison. `one_sided` asks for an improvement only.
    """
    lost = lost_tasks(before, after)
    tasks = {row.task for row in before}
    if too_many_lost(lost, tasks):
        names = f": {', '.join(lost)}" if lost else ""
        why = f"{len(lost)} of {len(tasks)} {split} tasks could not be measured{names}"
        return PairedRows(comparison=None, why=why, left_out=lost)
    kept = (
        {task: value for task, value in by_task(arm, worth).items() if task not in lost}
        for arm in (before, after)
    )
    return PairedRows(comparison=compare(*kept, one_sided=one_sided), left_out=lost)


def lost_tasks(*arms: Iterable[Row]) -> tuple[str, ...]:
    """The tasks of which a row could not be measured in any of the arms."""
    return tuple(sorted({row.task for rows in arms for row in rows if row.invalid is not None}))


def row_means(rows: Iterable[Row]) -> Means:
    """Mean scores of the rows that were measured."""
    scored = [(row.hard, row.soft) for row in rows if row.hard is not None and row.soft is not None]
    n = len(scored)
    hard, soft = (sum(figures) / n for figures in zip(*scored, strict=True)) if n else (None, None)
    return Means(hard=hard, soft=soft, n=n)


def by_task(rows: Iterable[Row], worth: Callable[[Row], float | None]) -> dict[str, float]:
    """Each task's mean over the draws that were measured."""
    draws: dict[str, list[float]] = {}
    for row in rows:
        value = worth(row)
        if value is not None:
            draws.setdefault(row.task, []).append(value)
    return {task: _mean(values) for task, values in draws.items()}


def compare(
    before: Mapping[str, float], after: Mapping[str, float], *, seed: int = 0, one_sided: bool = False
) -> Comparison:
    """Compare by task id; both sides must hold the same tasks."""
    ids = sorted(before)
    if ids != sorted(after):
        raise ValueError("a paired comparison needs the same tasks on both sides")
    differences = [after[task] - before[task] for task in ids]
    n = len(ids)
    delta, level = _mean(differences), 90 if one_sided else 95
    if one_sided and set(differences) <= {-1.0, 0.0, 1.0}:
        counts = differences.count(1.0), differences.count(-1.0), n
        p, test = improvement_p(*counts), "exact unconditional test, one-sided"
        low, high = improvement_interval(*counts)
    else:
        p, test = paired_p(differences, seed=seed, one_sided=one_sided)
        low, high = interval_of(differences, seed=seed, level=level)
    if p >= SMALL:  # it can be chance: no change at all is among what it may be
        low, high = min(low, 0.0), max(high, 0.0)
    else:
        low, high = (max(low, 0.0), high) if delta > 0 else (low, min(high, 0.0))
    return Comparison(
        n=n,
        before=_mean([before[task] for task in ids]),
        after=_mean([after[task] for task in ids]),
        delta=delta,
        interval=(low, high),
        level=level,
        p=p,
        test=test,
        significance=significance(delta, p),
        fixed=tuple(task for task, diff in zip(ids, differences, strict=True) if diff > 0),
        broken=tuple(task for task, diff in zip(ids, differences, strict=True) if diff < 0),
    )


def paired_p(differences: Sequence[float], *, seed: int = 0, one_sided: bool = False) -> tuple[float, str]:
    """p-value of a paired comparison, and its test: exact McNemar for equal changes, else sign flip."""
    side = ", one-sided" if one_sided else ""
    moved = [diff for diff in differences if diff != 0]
    if not moved:
        return 1.0, "no task changed"
    sizes = {abs(diff) for diff in moved}
    if len(sizes) == 1:
        wins = sum(diff > 0 for diff in moved)
        return _binomial(wins, len(moved), one_sided=one_sided), f"exact McNemar{side}"
    size: Callable[[float], float] = float if one_sided else abs
    observed = size(math.fsum(moved)) - 1e-12
    if len(moved) <= EXACT_UP_TO:
        sums = [0.0]
        for diff in moved:
            sums = [total + sign * diff for total in sums for sign in (1, -1)]
        return sum(size(total) >= observed for total in sums) / len(sums), f"exact sign flip{side}"
    rng = random.Random(seed)
    hits = sum(
        size(math.fsum(diff if rng.random() < 0.5 else -diff for diff in moved)) >= observed
        for _ in range(RESAMPLES)
    )
    return (hits + 1) / (RESAMPLES + 1), f"sign flip, {RESAMPLES} resamples{side}"


def interval_of(differences: Sequence[float], *, seed: int = 0, level: int = 95) -> tuple[float, float]:
    """An interval of the mean difference that keeps a width where all tasks moved alike.

    Where tasks only pass or fail: the adjusted Wald interval for matched pairs (Agresti and Min 2005). Else a
    bootstrap, seeded so that a report can be recomputed; with fewer than 30 tasks, or no spread, a normal
    interval with one more difference each way.
    """
    n = len(differences)
    if n == 0:
        return (0.0, 0.0)
    if set(differences) <= {-1.0, 0.0, 1.0}:
        fixed, broken, total = differences.count(1.0) + 0.5, differences.count(-1.0) + 0.5, n + 2
        error = math.sqrt(fixed + broken - (fixed - broken) ** 2 / total) / total
        return _around((fixed - broken) / total, error, level)
    if n < 30 or len(set(differences)) == 1:
        most = max(map(abs, differences))
        padded = [*differences, most, -most]
        mean = _mean(padded)
        error = math.sqrt(_mean([(diff - mean) ** 2 for diff in padded]) / len(padded))
        return _around(mean, error, level)
    rng = random.Random(seed)
    means = sorted(math.fsum(rng.choices(differences, k=n)) / n for _ in range(2_000))
    outside = (100 - level) / 200
    return means[int(outside * len(means))], means[int((1 - outside) * len(means)) - 1]


def _around(mean: float, error: float, level: int) -> tuple[float, float]:
    width = {95: 1.96, 90: 1.645}[level] * error
    return max(-1.0, mean - width), min(1.0, mean + width)


def _binomial(wins: int, n: int, *, one_sided: bool) -> float:
    """Chance of so many wins or more among n even ones; two-sided, of a result as far from even."""
    most = n - wins if one_sided else min(wins, n - wins)
    tail = sum(math.comb(n, k) for k in range(most + 1))
    return min(1.0, float(Fraction((1 if one_sided else 2) * tail, 1 << n)))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
