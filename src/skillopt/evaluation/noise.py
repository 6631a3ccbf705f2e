"""Says how much of a score is luck, of draws and of tasks, and which gain a set of tasks can show at all."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, variance

from skillopt.evaluation.unconditional import smallest_gain

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
    within = fmean(variance(one) for one in scores.values())
    means = [fmean(one) for one in scores.values()]
    between = max(0.0, variance(means) - within / draws) if n > 1 else 0.0
    values = sorted({value for one in scores.values() for value in one})
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
        lucky=_lucky([one for one in scores.values() if len(set(one)) > 1], random.Random(0)),
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
        for one in moving:
            first, second = chance.sample(range(len(one)), 2)
            difference += one[second] - one[first]
        wins += difference > 1e-9
    return wins / RESAMPLES
