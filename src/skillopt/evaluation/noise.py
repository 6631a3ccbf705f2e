"""Says how much of a difference is luck: what the same skill scores when it is measured again."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import variance

RESAMPLES = 2_000
_FOUR_IN_FIVE = 0.8416
"""Standard deviations above zero that leave a fifth below zero."""
_ONE_IN_TWENTY = 1.6449


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """An A/A measurement: one skill, several draws of the same tasks."""

    n: int
    draws: int
    mean: float
    moved: tuple[str, ...]
    """Tasks whose draws did not all score alike."""
    sd: float
    """Standard deviation of the mean of one pass over the tasks, from the spread within each of them."""
    lucky: float
    """How often an unchanged skill would beat itself: that one pass scores strictly more than another."""
    seen: float
    """True gain that one pass against one pass shows as a gain four times in five."""
    sure: float
    """True gain that is seen four times in five by a test which luck passes once in twenty."""

    def repeats_for(self, gain: float) -> int:
        """Draws per task with which a true gain of this size is `sure`."""
        return max(1, math.ceil((self.sure / gain) ** 2 - 1e-9))


def noise(scores: Mapping[str, Sequence[float]]) -> Noise:
    """From the draws of every task; each must have at least two, and all the same number."""
    counts = {len(draws) for draws in scores.values()}
    if len(counts) != 1 or min(counts) < 2:
        raise ValueError("a noise figure needs the same number of draws for every task, two at least")
    n, draws = len(scores), counts.pop()
    sd = math.sqrt(sum(variance(one) for one in scores.values())) / n
    apart = math.sqrt(2) * sd  # of the difference of two passes
    return Noise(
        n=n,
        draws=draws,
        mean=sum(sum(one) for one in scores.values()) / (n * draws),
        moved=tuple(task for task, one in scores.items() if len(set(one)) > 1),
        sd=sd,
        lucky=_lucky([one for one in scores.values() if len(set(one)) > 1], random.Random(0)),
        seen=_FOUR_IN_FIVE * apart,
        sure=(_ONE_IN_TWENTY + _FOUR_IN_FIVE) * apart,
    )


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
