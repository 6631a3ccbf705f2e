"""What a check found, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["fine", "note", "fix", "skipped"]
"""`note` is worth knowing and stops nothing; `fix` must be mended before a run; `skipped` was not looked at,
and the text says why.
"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of an examination."""

    area: str
    name: str
    state: State
    text: str
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Figures for programs: seconds, tokens, versions. JSON values only."""
