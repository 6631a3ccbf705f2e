"""Which sessions a night was begun with: decides that mining which goes on after a stop asks about the very
same turns.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.files import write_bytes
from skillopt.transcripts.session import Harvest, Session

FILE = "harvest.json"


class PinnedSession(BaseModel):
    """A session by its name and how far it went then; nothing that was said in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    id: str
    turns: int
    ended: datetime


class Pin(BaseModel):
    """What a night read before it asked anybody. `terms` is a hash of the models and settings: under others
    it is another night.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    terms: str
    since: datetime | None
    next_since: datetime | None
    sessions: tuple[PinnedSession, ...]

    def of(self, found: Harvest, sessions: tuple[Session, ...]) -> tuple[Harvest, tuple[Session, ...]]:
        """The same sessions as they were then, out of what is there now."""
        then = {(one.source, one.id): one for one in self.sessions}
        same = tuple(
            replace(session, turns=session.turns[: one.turns], ended=one.ended)
            for session in sessions
            if (one := then.get((session.source, session.id))) is not None
        )
        return replace(found, next_since=self.next_since), same


def load(folder: Path, terms: str) -> Pin | None:
    """What the night in this folder was begun with; None where it was not, or under other terms."""
    try:
        pin = Pin.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):  # it only spares questions: without it they are asked anew
        return None
    return pin if pin.terms == terms else None


def save(
    folder: Path, terms: str, since: datetime | None, found: Harvest, sessions: tuple[Session, ...]
) -> None:
    """Remember which sessions a night is about to ask about."""
    kept = [
        PinnedSession(source=one.source, id=one.id, turns=len(one.turns), ended=one.ended) for one in sessions
    ]
    pin = Pin(terms=terms, since=since, next_since=found.next_since, sessions=tuple(kept))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = json.dumps(pin.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_bytes(folder / FILE, f"{text}\n".encode("utf-8", "replace"), mode=0o600)
