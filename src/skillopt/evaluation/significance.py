"""Says what a measured change proves: every face takes its word and its colour from here."""

from __future__ import annotations

from collections.abc import Mapping
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
