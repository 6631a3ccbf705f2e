"""What a measured change proves: the words of a verdict, the exact unconditional test with its interval and
power, and how much of a score is luck.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, variance
from typing import Literal, TypeAlias

Significance: TypeAlias = Literal["real", "could be chance", "no better", "not proven yet"]
SMALL = 0.05
"""p below which a difference is more than chance."""
TONES: Mapping[str, Literal["good", "warn", "bad", "plain"]] = {
    "real": "good",
    "could be chance": "warn",
    "no better": "bad",
    "not proven yet": "plain",
}


def significance(
    gain: float | None, p: float | None, *, is_changed: bool = True, is_over: bool = True
) -> Significance:
    """What a gain and its p, of one paired test on tasks that decided nothing before, prove of a skill.

    None is what was not measured, or not tested. A skill that is its own seed (not `is_changed`) is no better
    once the search `is_over`.
    """
    if not is_changed:
        return "no better" if is_over else "not proven yet"
    if gain is not None and gain <= 0:
        return "no better"
    if gain is None or p is None:
        return "not proven yet"
    return "real" if p < SMALL else "could be chance"


_SHARES = 200
"""Shares of changing tasks that are tried; ten times as many move no p near `SMALL` by 0.0001."""


def improvement_p(fixed: int, broken: int, tasks: int) -> float:
    """p of no improvement on tasks that pass or fail, one-sided: the exact unconditional paired test.

    Tasks are a sample, so the number of those that change is chance too. McNemar's exact test takes it as
    given and asks for five fixed tasks where none is broken, however many tasks there are. Here p is the
    largest chance of so high a z = (fixed - broken) / sqrt(fixed + broken) over all shares of tasks that may
    change (Suissa and Shuster 1991): four of twenty are enough, and still at most one claim in twenty is made
    by chance.
    """
    return _chance(_z(fixed, broken), tasks) if fixed > broken else 1.0


def improvement_interval(fixed: int, broken: int, tasks: int) -> tuple[float, float]:
    """The gains that the test does not refuse (Tango's score interval, 1998): above 0 iff p < `SMALL`."""
    z = _critical(tasks)
    return _gain_at(z, fixed, broken, tasks), _gain_at(-z, fixed, broken, tasks)


def smallest_gain(tasks: int, *, chance: float = 0.8) -> float | None:
    """The true gain that the test shows with this chance if nothing breaks; None where none could be."""
    wins = next((wins for wins in range(1, tasks + 1) if improvement_p(wins, 0, tasks) < SMALL), None)
    if wins is None:
        return None
    gains = (percent / 100 for percent in range(1, 100))
    return next((gain for gain in gains if sum(_binomial(tasks, gain)[wins:]) >= chance), None)


def _z(fixed: int, broken: int) -> float:
    return (fixed - broken) / math.sqrt(fixed + broken)


@lru_cache(maxsize=4096)
def _chance(z: float, tasks: int) -> float:
    """The largest chance of at least this z, above 0, where a changing task is fixed or broken by a coin."""
    coins, tails = [1.0], [0.0]
    for changed in range(1, tasks + 1):
        coins = [(heads + other) / 2 for heads, other in zip([0.0, *coins], [*coins, 0.0], strict=True)]
        least = math.ceil((changed + z * math.sqrt(changed)) / 2 - 1e-9)
        tails.append(sum(coins[least:]))
    shares = (share / _SHARES for share in range(1, _SHARES))
    return max(tails[-1], *(sum(map(float.__mul__, _binomial(tasks, share), tails)) for share in shares))


@lru_cache(maxsize=2 * _SHARES)
def _binomial(tasks: int, share: float) -> list[float]:
    """The chance of each number of tasks, where every one counts with this chance."""
    odds, whole = math.log(share / (1 - share)), math.lgamma(tasks + 1) + tasks * math.log(1 - share)
    return [
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(tasks - k + 1) + k * odds) for k in range(tasks + 1)
    ]


@lru_cache(maxsize=64)
def _critical(tasks: int) -> float:
    """Between the smallest z that is a claim and the next one below; infinite where none is."""
    reached = sorted({_z(f, b) for f in range(1, tasks + 1) for b in range(min(f, tasks - f + 1))})
    first = bisect_left(reached, True, key=lambda z: _chance(z, tasks) < SMALL)
    return math.inf if first == len(reached) else (reached[first - 1] + reached[first]) / 2


def _gain_at(z: float, fixed: int, broken: int, tasks: int) -> float:
    """The gain for which what was seen has this score, to a millionth; the score falls with the gain."""
    low, high = -1.0, 1.0
    while high - low > 1e-6:
        gain = (low + high) / 2
        # The likeliest share of broken tasks, given the gain.
        linear = (2 * tasks - fixed + broken) * gain - fixed - broken
        root = math.sqrt(linear**2 + 8 * tasks * broken * gain * (1 - gain))
        variance = (root - linear) / 2 + tasks * gain * (1 - gain)
        score = (fixed - broken - tasks * gain) / math.sqrt(variance) if variance else 0.0
        low, high = (gain, high) if score > z else (low, gain)
    return (low + high) / 2


RESAMPLES = 2_000
_FOUR_IN_FIVE = 0.8416
"""Standard deviations above zero that leave a fifth below zero."""
_SURE = 1.6449 + _FOUR_IN_FIVE
"""Likewise above what luck passes once in twenty."""
_MANY = 60
"""Tasks from which on the normal approximation is close to the exact test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """An A/A measurement: one skill, several draws of the same tasks. Gains are true ones, over all tasks
    like these, of a skill that breaks nothing that works; each task is drawn once with either skill.
    """

    n: int
    draws: int
    mean: float
    moved: tuple[str, ...]
    """Tasks whose draws did not all score alike."""
    step: float
    """The smallest change of the score that one draw of every task can show."""
    sd: float
    """Standard deviation of the score of one pass by its draws, from the spread within each task."""
    sd_tasks: float
    """The same by which tasks they are, from the spread between them."""
    lucky: float
    """How often an unchanged skill would beat itself: that one pass scores strictly more than another."""
    seen: float | None
    """Gain that shows as a higher score four times in five, never below `step`; None where the score has less
    room to rise.
    """
    sure: float | None
    """Gain that a test which luck passes once in twenty finds four times in five; None where these tasks are
    too few for any that there is room for.
    """

    def repeats_for(self, gain: float) -> int | None:
        """Draws of each task with which this gain is `sure`; None where only more tasks would do."""
        z = _sure(self.n)
        left = self.n * gain**2 / z**2 - gain * (1 - gain)
        if math.isinf(z) or left < -1e-9:
            return None
        within = 2 * self.n * self.sd**2
        return max(1, math.ceil(within / left - 1e-9)) if left > 1e-9 else None if within else 1

    def tasks_for(self, gain: float) -> int:
        """Tasks like these, each drawn once, with which this gain is `sure`."""
        within = 2 * self.n * self.sd**2
        tasks = math.ceil(_SURE**2 * (gain * (1 - gain) + within) / gain**2 - 1e-9)
        while _gain(tasks, within, _sure(tasks)) > gain + 1e-9:
            tasks += 1
        return tasks


def noise(scores: Mapping[str, Sequence[float]]) -> Noise:
    """From the draws of every task; each must have at least two, and all the same number."""
    counts = {len(draws) for draws in scores.values()}
    if len(counts) != 1 or min(counts) < 2:
        raise ValueError("a noise figure needs the same number of draws for every task, two at least")
    n, draws = len(scores), counts.pop()
    within = fmean(variance(score) for score in scores.values())
    means = [fmean(score) for score in scores.values()]
    between = max(0.0, variance(means) - within / draws) if n > 1 else 0.0
    values = sorted({value for score in scores.values() for value in score})
    step = min((high - low for low, high in pairwise(values)), default=1.0) / n
    one_fixed = 1 - 0.2 ** (1 / n)  # below it no task at all is fixed more than once in five
    seen = max(step, one_fixed, _gain(n, 2 * within, _FOUR_IN_FIVE) + step / 2)
    sure, room = _gain(n, 2 * within, _sure(n)), 1 - fmean(means) + 1e-9
    return Noise(
        n=n,
        draws=draws,
        mean=fmean(means),
        moved=tuple(task for task, one in scores.items() if len(set(one)) > 1),
        step=step,
        sd=math.sqrt(within / n),
        sd_tasks=math.sqrt(between / n),
        lucky=_lucky([score for score in scores.values() if len(set(score)) > 1], random.Random(0)),
        seen=seen if seen <= room else None,
        sure=sure if sure <= room else None,
    )


def _sure(tasks: int) -> float:
    """Standard deviations above zero at which a gain is `sure`: few tasks need more, by the exact test."""
    exact = smallest_gain(tasks) if tasks < _MANY else 0.0
    return math.inf if exact is None else max(_SURE, math.sqrt(tasks * exact / (1 - exact)))


def _gain(tasks: int, within: float, z: float) -> float:
    """The gain that lies `z` standard deviations above zero. A task is fixed or is not, which varies by
    gain * (1 - gain); the draws of both skills add `within`.
    """
    if math.isinf(z):
        return math.inf
    return z * (z + math.sqrt(z * z + 4 * within * (tasks + z * z))) / (2 * (tasks + z * z))


def _lucky(moving: Sequence[Sequence[float]], chance: random.Random) -> float:
    """Tasks that never move cancel out; of the others two different draws are compared at random."""
    if not moving:
        return 0.0
    wins = 0
    for _ in range(RESAMPLES):
        difference = 0.0
        for draws in moving:
            first, second = chance.sample(range(len(draws)), 2)
            difference += draws[second] - draws[first]
        wins += difference > 1e-9
    return wins / RESAMPLES
