"""What a run's database holds, for those who only look: from any thread, also while its run is at work."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from skillopt.money import HEDGE_STAGE
from skillopt.runs.database import Database, connect_reading, opening


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
