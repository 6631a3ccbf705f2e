"""The port of every transcript source, where programs keep their files, and the walk over them that all
sources share.
"""

from __future__ import annotations

import sqlite3
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Protocol, TypeAlias

from skillopt.redact import redact_transcript
from skillopt.transcripts._draft import Draft
from skillopt.transcripts.session import Session

Redact: TypeAlias = Callable[[str], str]
_SLACK = timedelta(hours=1)
"""A file that was last written this long before `since` holds nothing younger: clocks of network drives
differ a little.
"""


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

    def config(self) -> Path:
        """Where programs keep their settings on this platform."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder("APPDATA", self.home / "AppData" / "Roaming")
        return self.folder("XDG_CONFIG_HOME", self.home / ".config")

    def data(self) -> Path:
        """Where programs keep their data on this platform."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder("LOCALAPPDATA", self.home / "AppData" / "Local")
        return self.folder("XDG_DATA_HOME", self.home / ".local" / "share")


class Tally:
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


class Source(Protocol):
    """One program's transcripts. Read-only: nothing is ever written to, locked or created where they lie."""

    @property
    def name(self) -> str: ...

    def found(self) -> list[Path]:
        """The transcript files there are, in a fixed order; empty where the program was never used."""
        ...

    def sessions(
        self, since: datetime | None = None, *, redact: Redact = redact_transcript, tally: Tally | None = None
    ) -> Iterator[Session]:
        """Every session that ended at `since` or later, redacted, one at a time in bounded memory.

        A bad record or file is counted in the tally and skipped; nothing in a transcript raises. A session's
        prompts are each in it once.
        """
        ...


class Desk:
    """What a source works with while it reads: the tally, and fresh drafts of sessions."""

    def __init__(self, source: str, redact: Redact, tally: Tally) -> None:
        self.tally = tally
        self.seen: set[str] = set()
        """Ids of records that were read already: programs copy history into new files."""
        self._source = source
        self._redact = redact

    def draft(self, id: str, path: Path, *, project: str = "") -> Draft:
        """An empty session."""
        return Draft(source=self._source, id=id, path=str(path), project=project, redact=self._redact)

    def first_time(self, record: str) -> bool:
        """Whether a record with this id has not been read before; an empty id is always new."""
        if not record:
            return True
        if record in self.seen:
            return False
        self.seen.add(record)
        return True


class FileSource(ABC):
    """A source that reads file after file; a plug-in says where they are and what is in one."""

    name: str

    def __init__(self, homes: Homes) -> None:
        self.homes = homes

    @abstractmethod
    def found(self) -> list[Path]:
        """The transcript files, in a fixed order."""

    @abstractmethod
    def read(self, path: Path, desk: Desk) -> Iterator[Draft]:
        """The sessions of one file."""

    def written(self, path: Path) -> datetime:
        """When a file was last written."""
        return written_at(path)

    def sessions(
        self, since: datetime | None = None, *, redact: Redact = redact_transcript, tally: Tally | None = None
    ) -> Iterator[Session]:
        """Every session that ended at `since` or later, one at a time."""
        tally = Tally() if tally is None else tally
        desk = Desk(self.name, redact, tally)
        ids: set[str] = set()
        for path in self.found():
            try:
                last = self.written(path)
                if since is not None and last < since - _SLACK:
                    tally.skip("file older than asked for")
                    continue
                for draft in self.read(path, desk):
                    session = draft.finish(last)
                    if session is None:
                        tally.drop("no prompt of a person")
                    elif session.id in ids:
                        tally.drop("second copy of a session")
                    elif since is not None and session.ended < since:
                        tally.drop("older than asked for")
                    else:
                        ids.add(session.id)
                        tally.read += 1
                        yield session
            except (OSError, EOFError, sqlite3.Error):  # also what decompressing a broken file raises
                tally.skip("unreadable file")


def written_at(path: Path) -> datetime:
    """When a file was last written, in UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)


def listed(root: Path, pattern: str) -> list[Path]:
    """The regular files below a folder that fit the pattern, sorted; a folder that cannot be
    read holds none.
    """
    try:
        return sorted(path for path in root.glob(pattern) if path.is_file())
    except OSError:
        return []
