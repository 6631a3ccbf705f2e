"""What a check found, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

State = Literal["fine", "note", "fix", "skipped"]
"""`note` is worth knowing and stops nothing; `fix` must be mended before a run; `skipped` was not looked at,
and the text says why.
"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of an examination."""

    name: str
    state: State
    text: str
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Figures for programs: seconds, tokens, versions. JSON values only."""
    area: str = ""
    """Which part of the examination it belongs to; filled in there."""


class DoctorCheck(NamedTuple):
    """A row of a table of checks."""

    title: str
    run: Callable[[], Awaitable[Sequence[CheckResult]]]
    area: str = ""
    trouble: str = ""
    """What it means when an error of ours or of the system ends the check; the error itself is the remedy."""
