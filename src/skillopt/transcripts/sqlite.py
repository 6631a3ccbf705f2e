"""Opens other programs' databases so that nothing is touched, and reads only columns that are there."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from skillopt.files import temporary_folder
from skillopt.transcripts.records import MAX_RECORD
from skillopt.transcripts.source import written_at

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
