"""What a run's database holds, for those who only look: from any thread, also while its run is at work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from pydantic import TypeAdapter

from skillopt.ledger import HEDGE_STAGE
from skillopt.messages import Reply
from skillopt.runs.database import Database, connect_reading

_REPLY = TypeAdapter(Reply)


def stored_text(path: Path, digest: str) -> str | None:
    """A skill's text."""
    with closing(connect_reading(path)) as database:
        row = database.execute("SELECT text FROM skills WHERE digest = ?", (digest,)).fetchone()
    return None if row is None else str(row[0])


def stored_replies(path: Path, question: str) -> list[Reply]:
    """The replies to a question to the optimizer model, attempt by attempt."""
    with closing(connect_reading(path)) as database:
        found = database.execute(
            "SELECT reply FROM replies WHERE role = 'optimizer' AND place GLOB ? ORDER BY place",
            (f"{question}/a[0-9]",),
        )
        return [_REPLY.validate_json(reply) for (reply,) in found]


def asked_twice(path: Path) -> list[str]:
    """The places of calls that were hedged."""
    with closing(connect_reading(path)) as database:
        found = database.execute("SELECT place FROM spending WHERE stage = ?", (HEDGE_STAGE,))
        return [place for (place,) in found]


def task_digests(path: Path) -> Mapping[str, str]:
    """Digests of a run's tasks by split, as its identity holds them."""
    with Database.reading(path) as database:
        found: Mapping[str, str] = (database.noted_as(json.loads, "identity") or {}).get("tasks", {})
    return found
