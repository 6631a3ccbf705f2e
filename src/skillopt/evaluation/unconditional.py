"""Is a skill better on tasks that pass or fail? The exact unconditional paired test, its interval, its power.

Tasks are a sample, so the number of those that change is chance too. McNemar's exact test takes it as given
and asks for five fixed tasks where none is broken, however many tasks there are. Here p is the largest chance
of so high a z = (fixed - broken) / sqrt(fixed + broken) over all shares of tasks that may change (Suissa and
Shuster 1991): four of twenty are enough, and still at most one claim in twenty is made by chance.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

from skillopt.evaluation.significance import SMALL

_SHARES = 200
"""Shares of changing tasks that are tried; ten times as many move no p near `SMALL` by 0.0001."""


def improvement_p(fixed: int, broken: int, tasks: int) -> float:
    """p of no improvement, one-sided."""
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
        coins = [(one + other) / 2 for one, other in zip([0.0, *coins], [*coins, 0.0], strict=True)]
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
