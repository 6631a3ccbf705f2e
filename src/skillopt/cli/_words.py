"""Decides how figures read: scores, money, durations and counts, with unknown shown as unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "unknown"
NOT_MEASURED = "not measured"
_GROUPS = {
    "accept": "accepted",
    "accept_new_best": "accepted",
    "force_accept": "taken without a gate",
    "reject": "rejected",
    "unchanged": "unchanged",
    "skip_no_patches": "unchanged",
    "inconclusive": "inconclusive",
}


def score(value: float | None) -> str:
    """A score with three decimals; one that was not measured says so."""
    return NOT_MEASURED if value is None else f"{value:.3f}"


def change(before: float | None, after: float | None) -> str:
    """The difference of two scores, signed; blank where one of them is missing."""
    return "" if before is None or after is None else f"{after - before:+.3f}"


def money(usd: float | None) -> str:
    """Dollars, or unknown: a price nobody knows is not zero."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.2f}" if usd == 0 or usd >= 1 else f"${usd:.4f}"


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


def outcome(action: str) -> str:
    """The word for what became of a step."""
    return _GROUPS.get(action, action)


def outcomes(actions: Iterable[str]) -> str:
    """How many steps ended how: accepted, rejected, unchanged, inconclusive."""
    counted: dict[str, int] = {"accepted": 0, "rejected": 0, "unchanged": 0, "inconclusive": 0}
    for action in actions:
        counted[outcome(action)] = counted.get(outcome(action), 0) + 1
    if counted.get("taken without a gate") and not counted["accepted"]:
        del counted["accepted"]
    return ", ".join(f"{number} {word}" for word, number in counted.items())


def edit(data: Mapping[str, Any]) -> str:
    """An edit in one line."""
    words = [str(data.get("op", "?"))]
    for key in ("target", "content"):
        if data.get(key):
            text = " ".join(str(data[key]).split())
            words.append(f"{text[:77]}..." if len(text) > 80 else text)
    return " | ".join(words)
