"""Decides how the figures of a run that is watched read, on a terminal and in a browser alike."""

from __future__ import annotations

from collections.abc import Iterable

from skillopt.runs.wording import SIGNS, money, outcome

LONGEST_MARKS = 40
"""Marks of earlier steps are left out beyond this many."""


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def spent(calls: int, tokens: int, usd: float | None) -> str:
    """What was paid, in one line."""
    return f"{count(calls, 'call')}, {count(tokens, 'token')}, cost {money(usd)}"


def outcomes(actions: Iterable[str]) -> str:
    """How many steps ended how: accepted, rejected, unchanged, inconclusive."""
    counted: dict[str, int] = {"accepted": 0, "rejected": 0, "unchanged": 0, "inconclusive": 0}
    for action in actions:
        counted[outcome(action)] = counted.get(outcome(action), 0) + 1
    if counted.get("taken without a gate") and not counted["accepted"]:
        del counted["accepted"]
    return ", ".join(f"{number} {word}" for word, number in counted.items())


def marks(actions: Iterable[str]) -> str:
    """One sign a step, in order: accepted, rejected, unchanged, inconclusive, taken without a gate."""
    signs = [SIGNS.get(outcome(action), "·") for action in actions]
    left_out = len(signs) - LONGEST_MARKS
    return "".join(signs) if left_out <= 0 else f"…{''.join(signs[left_out:])}"
