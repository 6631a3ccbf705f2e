"""Scores the answers of this example: strictly the house's form, nothing before it and nothing after it."""

from __future__ import annotations

import json
from typing import Any


def score(task: Any, answer: str) -> bool:
    """A record is compared as JSON, so that spaces do not matter; everything else letter by letter."""
    if task.kind != "record":
        return answer.strip() == task.reference
    try:
        return bool(json.loads(answer) == json.loads(task.reference))
    except ValueError:
        return False
