"""Decides how figures read on a terminal; scores, money and outcomes read as they do in a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skillopt.report.words import NOT_MEASURED, UNKNOWN, money, outcome, score

__all__ = ["NOT_MEASURED", "UNKNOWN", "change", "count", "duration", "edit", "money", "outcome", "outcomes", "score", "spent"]


def change(before: float | None, after: float | None) -> str:
    """The difference of two scores, signed; blank where one of them is missing."""
    return "" if before is None or after is None else f"{after - before:+.3f}"


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


def edit(data: Mapping[str, Any]) -> str:
    """A proposal of any update mode in one line."""
    words = [str(data.get("op") or data.get("type") or ("whole skill" if "new_skill" in data else "?"))]
    for key in ("target", "content", "title", "instruction"):
        if data.get(key):
            text = " ".join(str(data[key]).split())
            words.append(f"{text[:77]}..." if len(text) > 80 else text)
    return " | ".join(words)
