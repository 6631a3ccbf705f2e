"""The walk over the files of a program that all sources share."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from skillopt.files import temporary_folder
from skillopt.redact import redact_transcript
from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import MAX_RECORD
from skillopt.transcripts.session import Harvest, Homes, RecordedSession, Redact

_SLACK = timedelta(hours=1)
"""A file last written this long before `since` holds nothing younger: clocks differ a little."""


class SourceReader:
    """What a source works with while it reads: the tally, and fresh drafts of sessions."""

    def __init__(self, source: str, redact: Redact, tally: Harvest) -> None:
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
        tally: Harvest | None = None,
    ) -> Iterator[RecordedSession]:
        """Every session that ended at `since` or later, one at a time."""
        tally = Harvest() if tally is None else tally
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


_BUSY = 2.0
_MOST_COPIED = 1 << 30


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write. A database in use is read along with its log, others as they lie.

    Without a `-wal` file nothing can be newer than the database, so it is opened as immutable and SQLite
    makes no files beside it. A log without its index (a copy, a crash) would make SQLite create one there, so
    both are copied away first.
    """
    wal, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    with contextlib.ExitStack() as stack:
        if not wal.exists() or not wal.stat().st_size:
            target, mode = path, "mode=ro&immutable=1"
        elif index.exists():
            target, mode = path, "mode=ro"
        else:
            folder = stack.enter_context(temporary_folder("skillopt-read-"))
            target, mode = _copied(path, wal, folder), "mode=ro"
        database = sqlite3.connect(f"{target.resolve().as_uri()}?{mode}", uri=True, timeout=_BUSY)
        stack.callback(database.close)
        database.execute("PRAGMA query_only = ON")
        database.execute("PRAGMA trusted_schema = OFF")
        # A torn multibyte character must not lose the row.
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield database


def columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; none where there is no such table."""
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def bounded(column: str) -> str:
    """An SQL expression for a text column that is NULL where the text is too long to be held."""
    return f"CASE WHEN length({column}) <= {MAX_RECORD} THEN {column} END"


def or_null(wanted: Sequence[str], there: set[str]) -> str:
    """The wanted columns for a SELECT, with NULL for those that this version of the program does not have."""
    return ", ".join(name if name in there else "NULL" for name in wanted)


def written_with_log(path: Path) -> datetime:
    """When a database or the log beside it was last written."""
    wal = Path(f"{path}-wal")
    return max(written_at(path), written_at(wal)) if wal.exists() else written_at(path)


def _copied(path: Path, wal: Path, folder: Path) -> Path:
    if path.stat().st_size + wal.stat().st_size > _MOST_COPIED:
        raise OSError(f"{path} has a log without its index and is too large to copy")
    target = folder / "copy.db"
    shutil.copyfile(path, target)
    shutil.copyfile(wal, folder / "copy.db-wal")
    return target
