"""The walk over the files of a program that all sources share."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from skillopt.redact import redact_transcript
from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.port import HarvestTally, Homes, Redact
from skillopt.transcripts.session import RecordedSession

_SLACK = timedelta(hours=1)
"""A file last written this long before `since` holds nothing younger: clocks differ a little."""


class SourceReader:
    """What a source works with while it reads: the tally, and fresh drafts of sessions."""

    def __init__(self, source: str, redact: Redact, tally: HarvestTally) -> None:
        self.tally = tally
        self.seen: set[str] = set()
        """Ids of records that were read already: programs copy history into new files."""
        self._source = source
        self._redact = redact

    def draft(self, id: str, path: Path, *, project: str = "") -> SessionDraft:
        """An empty session."""
        return SessionDraft(source=self._source, id=id, path=str(path), project=project, redact=self._redact)

    def first_time(self, record: str) -> bool:
        """Whether a record with this id has not been read before; an empty id is always new."""
        is_new = not record or record not in self.seen
        self.seen.add(record)
        return is_new


class FileSource(ABC):
    """A source that reads file after file; a plug-in says where they are and what is in one."""

    name: str

    def __init__(self, homes: Homes) -> None:
        self.homes = homes

    @abstractmethod
    def found(self) -> list[Path]:
        """The transcript files, in a fixed order."""

    @abstractmethod
    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The sessions of one file."""

    def written(self, path: Path) -> datetime:
        """When a file was last written."""
        return written_at(path)

    def sessions(
        self,
        since: datetime | None = None,
        *,
        redact: Redact = redact_transcript,
        tally: HarvestTally | None = None,
    ) -> Iterator[RecordedSession]:
        """Every session that ended at `since` or later, one at a time."""
        tally = HarvestTally() if tally is None else tally
        reader = SourceReader(self.name, redact, tally)
        ids: set[str] = set()
        for path in self.found():
            try:
                last = self.written(path)
                if since is not None and last < since - _SLACK:
                    tally.skip("file older than asked for")
                    continue
                for draft in self.read(path, reader):
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
            # Also what decompressing a broken file raises, and what SQLite says in damaged words.
            except (OSError, EOFError, sqlite3.Error, UnicodeDecodeError):
                tally.skip("unreadable file")


def written_at(path: Path) -> datetime:
    """When a file was last written, in UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)


def listed(root: Path, pattern: str) -> list[Path]:
    """The regular files below a folder that fit the pattern, sorted; none of an unreadable folder."""
    try:
        return sorted(path for path in root.glob(pattern) if path.is_file())
    except OSError:
        return []
