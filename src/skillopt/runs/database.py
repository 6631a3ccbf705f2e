"""Keeps what was paid for in one SQLite file per run: replies, rollouts, scores, spending.

WAL with synchronous NORMAL survives `kill -9`; a power cut may lose the last moments.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from skillopt.errors import Kind, Stopped
from skillopt.events import SCHEMA
from skillopt.messages import Reply, Request, Role, Usage, as_plain
from skillopt.money import Amount, Entry, Settlement
from skillopt.runs.connection import ENTRIES, TABLES, connect_reading, connect_writing, entry_of, opening
from skillopt.tasks.rollout import Invalid, Score, Trajectory

_Read = TypeVar("_Read")
_UNREADABLE = (sqlite3.Error, ValueError, TypeError, ArithmeticError, RecursionError)
"""What reading a damaged file or record raises."""
_REPLY, _TRAJECTORY = TypeAdapter(Reply), TypeAdapter(Trajectory)
SESSION = "session"
"""The note of the last attempt that an earlier session left open."""


class AnswerRow(NamedTuple):
    """What a rollout ended with, and after how many calls."""

    text: str
    calls: int


@lru_cache(maxsize=4096)
def _known_score(text: str) -> Score:
    """A score with what is said of it; they repeat."""
    return Score(**json.loads(text))


class Database:
    """One file. Implements `Records`, `Journal` and the evaluator's `Rollouts`."""

    _kept: Mapping[str, set[str]] | None = None
    """The keys in each table; None where others write to it too."""

    earlier: Sequence[Database] = ()
    """Those of earlier runs, whose replies are not paid again."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        """`alone`: nobody else writes to the file, so what is not in it is known without looking."""
        self._path = path
        with opening(path):
            self._db = connect_writing(path)
            if not self._db.execute("PRAGMA user_version").fetchone()[0]:
                self._db.executescript(f"BEGIN; PRAGMA user_version={SCHEMA}; {TABLES} COMMIT;")
            if alone:
                keys = {"replies": "key", "trajectories": "rollout", "invalid": "rollout"}
                self._kept = {
                    table: {row[0] for row in self._db.execute(f"SELECT {key} FROM {table}")}
                    for table, key in keys.items()
                }

    @classmethod
    def reading(cls, path: Path) -> Database:
        """The file for looking only: no lock, no schema, nothing written, also while its run is at work."""
        database = cls.__new__(cls)
        database._path = path
        with opening(path):
            database._db = connect_reading(path)
        return database

    def _lacks(self, table: str, key: str) -> bool:
        return self._kept is not None and key not in self._kept[table]

    def _keeps(self, table: str, key: str) -> None:
        if self._kept is not None:
            self._kept[table].add(key)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shut()

    def shut(self) -> None:
        """Close the file."""
        self._db.close()

    def _do(self, query: str, values: Sequence[Any] = (), *, many: bool = False) -> sqlite3.Cursor:
        try:
            return (self._db.executemany if many else self._db.execute)(query, values)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _each(
        self, query: str, values: Sequence[Any] = (), read: Callable[[Any], _Read] = lambda row: row
    ) -> Iterator[_Read]:
        """The rows, read one by one; a row that cannot be read is a damaged file."""
        try:
            for row in self._db.execute(query, values):
                yield read(row)
        except _UNREADABLE as error:
            raise self._failed(error) from error

    def _first(
        self, query: str, values: Sequence[Any] = (), read: Callable[[Any], _Read] = lambda row: row
    ) -> _Read | None:
        return next(self._each(query, values, read), None)

    def _failed(self, error: Exception) -> Stopped:
        # The run stops now: what is still in flight must not wait for a lock as long as the first did.
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA busy_timeout=0")
        return Stopped(
            f"{self._path} cannot be used: {error}. Everything written before is kept. Free some space, mend"
            " the disk or put the right file back, then run the same command again."
        )

    # Records

    def get(self, key: str) -> Reply | None:
        query = "SELECT reply FROM replies WHERE key = ?"
        own = None
        if not self._lacks("replies", key):
            own = self._first(query, (key,), lambda row: _REPLY.validate_json(row[0]))
        return own or next((found for one in self.earlier if (found := one.get(key))), None)

    def put(self, key: str, request: Request, reply: Reply) -> None:
        row = (key, request.role, request.stage, request.place, request.draw, _dump(reply))
        self._do("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?)", row)
        self._keeps("replies", key)

    # Journal

    def open(self, role: Role, stage: str, place: str, reserved: Amount) -> int:
        amounts = (reserved.calls, reserved.tokens, reserved.tokens, _fraction(reserved.usd))
        row = (role, stage, place, "open", *amounts)
        columns = "role, stage, place, state, calls, tokens, reserved, usd"
        cursor = self._do(f"INSERT INTO spending ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return int(cursor.lastrowid or 0)

    def close(self, entry: int, state: Settlement, charged: Amount, usage: Usage | None) -> None:
        used = None if usage is None else _dump(usage)
        row = (state, charged.calls, charged.tokens, _fraction(charged.usd), used, entry)
        self._do("UPDATE spending SET state = ?, calls = ?, tokens = ?, usd = ?, usage = ? WHERE id = ?", row)

    def entries(self) -> Iterable[Entry]:
        return self._each(f"{ENTRIES} ORDER BY id", read=entry_of)

    def begin_session(self) -> None:
        """Note which attempts a dead process left open: nobody waits for them, though they stay charged."""
        last = self._do("SELECT MAX(id) FROM spending WHERE state = 'open'").fetchone()[0]
        # a run that is only opened again is not written to
        if last is not None and self.noted(SESSION) != str(last):
            self.note(SESSION, str(last))

    def keep_time(self, seconds: float) -> None:
        self.note("seconds", str(seconds))

    # Rollouts

    def finished(self, rollout: str) -> tuple[int, Trajectory] | None:
        """The first finished attempt of a rollout."""
        if self._lacks("trajectories", rollout):
            return None
        query = "SELECT attempt, trajectory FROM trajectories WHERE rollout = ? ORDER BY attempt LIMIT 1"
        return self._first(query, (rollout,), lambda row: (row[0], _TRAJECTORY.validate_json(row[1])))

    def next_attempt(self, rollout: str) -> int:
        """The first attempt number without a closed invalid outcome."""
        if self._lacks("invalid", rollout):
            return 0
        row = self._do("SELECT MAX(attempt) FROM invalid WHERE rollout = ?", (rollout,)).fetchone()
        return 0 if row[0] is None else int(row[0]) + 1

    def keep(self, rollout: str, attempt: int, trajectory: Trajectory) -> None:
        row = (rollout, attempt, _dump(trajectory))
        self._do("INSERT OR REPLACE INTO trajectories VALUES (?, ?, ?)", row)
        self._keeps("trajectories", rollout)

    def scored(self, rollout: str, scorer: str) -> tuple[int, Trajectory, Score] | None:
        """The first finished attempt that this scorer has scored."""
        if self._lacks("trajectories", rollout):
            return None
        query = (
            "SELECT attempt, trajectory, score FROM trajectories JOIN scores USING (rollout, attempt)"
            " WHERE rollout = ? AND scorer = ? ORDER BY attempt LIMIT 1"
        )
        return self._first(
            query,
            (rollout, scorer),
            lambda row: (row[0], _TRAJECTORY.validate_json(row[1]), _known_score(row[2])),
        )

    def answers(self, rollouts: Iterable[str]) -> dict[tuple[str, int], AnswerRow]:
        """What was answered, by rollout and attempt."""
        wanted = json.dumps(list(rollouts))
        query = (
            "SELECT rollout, attempt, json_extract(trajectory, '$.answer'),"
            " json_extract(trajectory, '$.calls') FROM trajectories"
            " WHERE rollout IN (SELECT value FROM json_each(?))"
        )
        return dict(self._each(query, (wanted,), lambda row: (row[:2], AnswerRow(*row[2:]))))

    def scores(self, rollouts: Iterable[str]) -> dict[tuple[str, int], list[Score]]:
        """What all scorers said, by rollout and attempt, the latest last."""
        query = (
            "SELECT rollout, attempt, score FROM scores"
            " WHERE rollout IN (SELECT value FROM json_each(?)) ORDER BY rowid"
        )
        found: dict[tuple[str, int], list[Score]] = {}
        rows = self._each(query, (json.dumps(list(rollouts)),), lambda row: (*row[:2], _known_score(row[2])))
        for rollout, attempt, score in rows:
            found.setdefault((rollout, attempt), []).append(score)
        return found

    def keep_score(self, rollout: str, attempt: int, scorer: str, score: Score) -> None:
        row = (rollout, attempt, scorer, _dump(score))
        self._do("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)", row)

    def close_invalid(self, stage: str, rows: Iterable[tuple[str, Invalid]]) -> None:
        """A stage closed with these rows invalid: from now on these attempts are over."""
        values = [(rollout, row.attempt, stage, row.kind, row.detail) for rollout, row in rows]
        if values:
            self._do("INSERT OR IGNORE INTO invalid VALUES (?, ?, ?, ?, ?)", values, many=True)
            for rollout, *_ in values:
                self._keeps("invalid", str(rollout))

    def closed_invalid(self, stage: str, rollout: str) -> tuple[int, Kind, str] | None:
        """Attempt, kind and detail of a row that was invalid when this very stage closed."""
        if self._lacks("invalid", rollout):
            return None
        query = (
            "SELECT attempt, kind, detail FROM invalid WHERE rollout = ? AND stage = ? ORDER BY attempt DESC"
            " LIMIT 1"
        )
        row: tuple[int, Kind, str] | None = self._first(query, (rollout, stage))
        return row

    def rollouts(self) -> int:
        """How many rollouts are kept."""
        return int(self._do("SELECT COUNT(DISTINCT rollout) FROM trajectories").fetchone()[0])

    def shrink(self, most: int) -> None:
        """Forget the rollouts that were kept longest ago until the file takes no more than `most` bytes."""
        pages, size = (self._do(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        if pages * size <= most:
            return
        sizes = "SELECT rowid AS id, SUM(LENGTH(trajectory)) OVER (ORDER BY rowid DESC) AS total"
        kept = f"SELECT id FROM ({sizes} FROM trajectories) WHERE total <= ?"
        with suppress(sqlite3.OperationalError):  # another process is at work in it: the next one shrinks it
            whole = self._db.execute("SELECT SUM(LENGTH(trajectory)) FROM trajectories").fetchone()[0]
            share = whole * most * 3 // (4 * pages * size)  # so that it is not full again at once
            self._db.execute(f"DELETE FROM trajectories WHERE rowid NOT IN ({kept})", (share,))
            self._db.execute("DELETE FROM scores WHERE rollout NOT IN (SELECT rollout FROM trajectories)")
            self._db.execute("VACUUM")

    # Texts

    def text(self, digest: str) -> str | None:
        return self._first("SELECT text FROM skills WHERE digest = ?", (digest,), lambda row: str(row[0]))

    def keep_text(self, digest: str, text: str) -> None:
        self._do("INSERT OR IGNORE INTO skills VALUES (?, ?)", (digest, text))

    # Meta

    def holds_answers(self) -> bool:
        """Whether any call was answered, or any rollout ran to its end."""
        found = self._do("SELECT EXISTS (SELECT 1 FROM replies) OR EXISTS (SELECT 1 FROM trajectories)")
        return bool(found.fetchone()[0])

    def note(self, name: str, value: str) -> None:
        self._do("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def noted(self, name: str) -> str | None:
        return self.noted_as(str, name)

    def noted_as(self, read: Callable[[str], _Read], name: str) -> _Read | None:
        """A note in the form that `read` makes of it."""
        return self._first("SELECT value FROM meta WHERE name = ?", (name,), lambda row: read(row[0]))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=as_plain)


def _fraction(value: Fraction | None) -> str | None:
    return None if value is None else str(value)
