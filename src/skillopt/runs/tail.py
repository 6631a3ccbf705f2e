"""Reads what a run's log and database gained since the last reading: no lock, nothing read twice."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.errors import RunConflict
from skillopt.events import Event
from skillopt.money import HEDGE_STAGE, Account, Entry, Total
from skillopt.runs.connection import ENTRIES, connect_reading, entry_of, opening
from skillopt.runs.database import SESSION, Database
from skillopt.runs.log import read_line
from skillopt.runs.notes import NOTE, LiveNote

_LONGEST = 1e10
"""Seconds that no run takes."""
_HEAD = 400
"""How far into a line its type is looked for: id and time stand before it."""


class EventTail:
    """The events of a log that were not read before. A torn line is left until the rest is there."""

    def __init__(self, path: Path, only: Collection[str] = ()) -> None:
        """`only` names the types of events that are wanted; others are passed over unread."""
        self._path = path
        self._only = [f'"type":"{name}"'.encode() for name in only]
        self.changed = 0.0
        """When the log last grew, seconds since 1970."""
        self._at = 0
        self._lines = 0

    def gained(self) -> int | None:
        """Bytes that were not read; None when the log got shorter, so that a reader has to begin anew."""
        size = 0
        try:
            found = self._path.stat()
            size, self.changed = found.st_size, found.st_mtime
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._trouble(error) from error
        return None if size < self._at else size - self._at

    def read(self) -> Iterator[Event]:
        """New events in order, one at a time: all those of a long log together take ten times its size."""
        try:
            with self._path.open("rb") as log:
                log.seek(self._at)
                for line in log:
                    if not line.endswith(b"\n"):
                        return
                    is_wanted = not self._only or any(name in line[:_HEAD] for name in self._only)
                    # What cannot be read is not passed over: the next look complains of it again.
                    is_read = is_wanted and line.strip()
                    event = read_line(self._path, self._lines + 1, line) if is_read else None
                    self._at += len(line)
                    self._lines += 1
                    if event is not None:
                        yield event
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._trouble(error) from error

    def _trouble(self, error: OSError) -> RunConflict:
        return RunConflict(
            f"{self._path} cannot be read: {error.strerror}. Look at whose it is and where it lies."
        )


@dataclass(frozen=True, slots=True)
class News:
    """What a database gained: entries of the ledger that are new or changed, and its notes."""

    entries: list[Entry]
    seconds: float
    """Wall time of the run over its sessions, as its process last noted it."""
    live: LiveNote
    planned: float | None = None
    """Calls that the run will have made at its end, as its process noted it."""
    session: int = 0
    """The last attempt that a process which died has left open: nobody waits for what is open up to it."""


class DatabaseTail:
    """The rows of a run's database that were not read before, and those that were open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = 0

    def read(self, still_open: Collection[int] = ()) -> News | None:
        """What is new, with attempts that were open. None where the file cannot be read just now. Raises
        `RunConflict` for what no run writes.
        """
        if not self._path.is_file():
            return None
        log = self._path.with_name(f"{self._path.name}-wal")
        was_still = not log.exists()
        try:
            with closing(connect_reading(self._path)) as database:
                return self._news(database, still_open)
        except sqlite3.Error:
            return None  # its run is just making it, or closing it: the next look finds it
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            if was_still and log.exists():  # a run began to write while it was read as if nobody did
                return None
            raise RunConflict(f"{self._path} is damaged: {error}. Put the right file back.") from error

    def _news(self, database: sqlite3.Connection, still_open: Collection[int]) -> News:
        database.execute("BEGIN")  # one moment for all of it
        newer = database.execute(f"{ENTRIES} WHERE id > ? ORDER BY id", (self._last,))
        entries = list(map(entry_of, newer))
        known = json.dumps([one for one in still_open if one <= self._last])
        among = "id IN (SELECT value FROM json_each(?))"
        ended = database.execute(f"{ENTRIES} WHERE {among} AND state != 'open' ORDER BY id", (known,))
        entries += map(entry_of, ended)
        wanted = "SELECT name, value FROM meta WHERE name IN ('seconds', 'projection', ?, ?)"
        notes = dict(database.execute(wanted, (SESSION, NOTE)).fetchall())
        self._last = max([self._last, *(one.id for one in entries)])
        seconds = float(notes.get("seconds", 0.0))
        if not 0 <= seconds < _LONGEST:
            raise ValueError(f"it took {seconds} seconds")
        return News(
            entries=entries,
            live=LiveNote.model_validate_json(notes[NOTE]) if NOTE in notes else LiveNote(),
            seconds=seconds,
            planned=float(json.loads(notes["projection"])[0]) if "projection" in notes else None,
            session=int(notes.get(SESSION, 0)),
        )


class StoredTexts:
    """The texts of a run's skills by digest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_thread = threading.local()  # a connection belongs to its thread

    def __call__(self, digest: str) -> str | None:
        with self.held() as database:
            row = database.execute("SELECT text FROM skills WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def held(self) -> Iterator[sqlite3.Connection]:
        """One connection for everything that is read inside: a long log names a skill a step."""
        held: sqlite3.Connection | None = getattr(self._of_thread, "held", None)
        if held is not None:
            yield held
            return
        with _looking(self._path) as database:
            self._of_thread.held = database
            try:
                yield database
            finally:
                self._of_thread.held = None


def asked_twice(path: Path) -> list[str]:
    """The places of calls that were hedged."""
    with _looking(path) as database:
        found = database.execute("SELECT place FROM spending WHERE stage = ?", (HEDGE_STAGE,))
        return [place for (place,) in found]


def noted_identity(path: Path) -> Mapping[str, Any]:
    """The identity of a run, as it was noted when its folder was opened first."""
    with Database.reading(path) as database:
        found: Mapping[str, Any] = database.noted_as(json.loads, "identity") or {}
    return found


def task_digests(path: Path) -> Mapping[str, str]:
    """Digests of a run's tasks by split, as its identity holds them."""
    found: Mapping[str, str] = noted_identity(path).get("tasks", {})
    return found


@contextmanager
def _looking(path: Path) -> Iterator[sqlite3.Connection]:
    with opening(path), closing(connect_reading(path)) as database:
        yield database


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """Unanswered calls of one role and stage. `oldest` counts from when this reader first saw one."""

    role: str
    stage: str
    calls: int
    oldest: float


class LedgerView:
    """The account of a run as another process writes it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.account = Account()
        self.is_at_work = False
        """Whether a process works on the run: without one nothing is in flight."""
        self.version = 0
        """Grows with every change."""
        self._now = now
        self._seen_at: dict[int, float] = {}

    def take(self, entries: Iterable[Entry], session: int = 0) -> None:
        """Read entries that are new or have changed. Those that are open up to `session` died with an earlier
        process: their reservation stays charged, but nothing flies.
        """
        for entry in [*entries, *(entry for id, entry in self.account.open.items() if id <= session)]:
            self.version += 1
            self.account.take(entry, is_dead=entry.id <= session)
            if entry.id in self.account.open:
                self._seen_at.setdefault(entry.id, self._now())
            else:
                self._seen_at.pop(entry.id, None)

    def settled(self) -> Total:
        """All that was spent, without what is only reserved for calls in flight."""
        return self.account.settled() if self.is_at_work else self.account.total()

    def flights(self) -> list[Flights]:
        """What is in flight, by role and stage."""
        groups: dict[tuple[str, str], list[int]] = {}
        for entry in list(self.account.open.values()) if self.is_at_work else ():
            groups.setdefault((entry.role, entry.stage), []).append(entry.id)
        now = self._now()
        return [
            Flights(
                role=role,
                stage=stage,
                calls=len(ids),
                oldest=now - min(self._seen_at.get(id, now) for id in ids),
            )
            for (role, stage), ids in sorted(groups.items())
        ]

    @property
    def in_flight(self) -> int:
        """Calls sent and not answered."""
        return len(self.account.open) if self.is_at_work else 0

    @property
    def tokens_reserved(self) -> int:
        """What is set aside for calls in flight."""
        return self.account.tokens_reserved if self.is_at_work else 0
