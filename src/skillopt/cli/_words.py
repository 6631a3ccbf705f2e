"""Decides how figures read on a terminal; scores, money and outcomes read as they do in a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.runs.side_by_side import signed as change
from skillopt.runs.wording import NOT_MEASURED, UNKNOWN, money, outcome, score
from skillopt.runs.words import count, duration, outcomes, spent

__all__ = [
    "NOT_MEASURED",
    "UNKNOWN",
    "change",
    "count",
    "duration",
    "edit",
    "money",
    "outcome",
    "outcomes",
    "score",
    "spent",
]


def edit(data: Mapping[str, Any]) -> str:
    """A proposal of any update mode in one line."""
    words = [str(data.get("op") or data.get("type") or ("whole skill" if "new_skill" in data else "?"))]
    for key in ("target", "content", "title", "instruction"):
        if data.get(key):
            text = " ".join(str(data[key]).split())
            words.append(f"{text[:77]}..." if len(text) > 80 else text)
    return " | ".join(words)
