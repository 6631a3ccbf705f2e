"""The learning rate: how many edits a step may apply."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

Schedule: TypeAlias = Callable[[int, int, int, int], int]
"""(step from 1, total steps, largest, smallest) to the limit of that step."""


def constant(step: int, total: int, largest: int, smallest: int) -> int:
    """Always the largest."""
    return largest


def linear(step: int, total: int, largest: int, smallest: int) -> int:
    """Straight down to the smallest."""
    if total <= 1:
        return largest
    share = min(step, total) / total
    return max(smallest, round(largest + (smallest - largest) * share))


def cosine(step: int, total: int, largest: int, smallest: int) -> int:
    """Half a cosine down to the smallest; the paper's default."""
    if total <= 1:
        return largest
    share = min(step, total) / total
    return max(smallest, round(smallest + 0.5 * (largest - smallest) * (1 + math.cos(math.pi * share))))


SCHEDULES: Mapping[str, Schedule] = {"constant": constant, "linear": linear, "cosine": cosine}
