"""The port of transcript sources: where programs keep their sessions, and how one is read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

from skillopt.redact import redact_transcript
from skillopt.transcripts.session import RecordedSession

Redact: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Homes:
    """Where to look. Nothing here is read from this process's own environment: the caller passes it in."""

    home: Path
    env: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    """A source's name to the folder or file the user named for it; it wins over environment and home."""
    platform: str = sys.platform

    def folder(self, variable: str, default: Path) -> Path:
        """The folder an environment variable names, or the default."""
        named = self.env.get(variable, "").strip()
        return Path(named) if named else default

    def place(self, source: str, variable: str, default: str) -> Path:
        """Where a source's sessions are: as the user says, the program's variable, or below home."""
        return self.places.get(source) or self.folder(variable, self.home / default)

    def config(self) -> Path:
        """Where programs keep their settings on this platform."""
        return self._usual(("APPDATA", "AppData/Roaming"), ("XDG_CONFIG_HOME", ".config"))

    def data(self) -> Path:
        """Where programs keep their data on this platform."""
        return self._usual(("LOCALAPPDATA", "AppData/Local"), ("XDG_DATA_HOME", ".local/share"))

    def _usual(self, windows: tuple[str, str], unix: tuple[str, str]) -> Path:
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        variable, below = windows if self.platform == "win32" else unix
        return self.folder(variable, self.home / below)


class HarvestTally:
    """Counts what a source leaves out while it reads."""

    def __init__(self) -> None:
        self.read = 0
        self.dropped: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.notes: dict[str, None] = {}

    def drop(self, reason: str) -> None:
        """A session that was read and is not used."""
        self.read += 1
        self.dropped[reason] += 1

    def skip(self, reason: str) -> None:
        """A record or file that could not be used."""
        self.skipped[reason] += 1

    def note(self, text: str) -> None:
        """Something a person should know, once."""
        self.notes[text] = None


class TranscriptSource(Protocol):
    """One program's transcripts. Read-only: nothing is ever written to, locked or created where they lie."""

    @property
    def name(self) -> str: ...

    def found(self) -> list[Path]:
        """The transcript files there are, in a fixed order; empty where the program was never used."""
        ...

    def sessions(
        self,
        since: datetime | None = None,
        *,
        redact: Redact = redact_transcript,
        tally: HarvestTally | None = None,
    ) -> Iterator[RecordedSession]:
        """Every session that ended at `since` or later, redacted, one at a time in bounded memory.

        A bad record or file is counted and skipped, and never raises. Prompts are each in it once.
        """
        ...
