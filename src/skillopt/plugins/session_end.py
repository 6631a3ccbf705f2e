"""Notes that a session of an agent ended: decides what is written down, and that an agent is never kept
waiting or failed by it.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

LOG = "session-end.log"
MOST_BYTES = 256 * 1024
"""Above this the older half is dropped: the log tells what happened lately."""


def note(state: Path, agent: str, told: bytes, now: datetime) -> bool:
    """Append a line - UTC time, agent, session, project - to the log. Returns False where that was not
    possible; never raises `OSError`.

    `told` is what the agent's hook got on stdin: a JSON object, or anything else, which then only leaves two
    columns empty.
    """
    try:
        event = json.loads(told)
    except (ValueError, RecursionError):
        event = {}
    event = event if isinstance(event, dict) else {}
    told_of = (agent, event.get("session_id"), event.get("cwd"))
    columns = [now.strftime("%Y-%m-%dT%H:%M:%SZ"), *map(_clean, told_of)]
    log = state / LOG
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if log.exists() and log.stat().st_size > MOST_BYTES:
            kept = log.read_bytes()[-MOST_BYTES // 2 :]
            log.write_bytes(kept.partition(b"\n")[2])
        log.touch(mode=0o600)
        with log.open("ab") as file:
            # One write: lines of sessions that end at the same moment do not mix.
            file.write(("\t".join(columns) + "\n").encode("utf-8", "replace"))
    except OSError:
        return False
    return True


def _clean(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else " " for char in text)[:1000] or "-"
