"""What is going on in a run right now, written down so that other processes can watch it.

That a stage opened, and sentences for the person, stand in the log as lines without an id. Rows that came in
are only counted: the count, and what slows calls down, is one note in the run's database that is replaced now
and then, so that watching costs a run next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from skillopt.events import Arrived, Event, StageOpened
from skillopt.events.place import Place

NOTE = "live"
EVERY = 0.5
"""Seconds between two notes."""


class LiveNote(BaseModel):
    """Rows of the open stage that are in, and what holds calls back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str = ""
    """The stages that are open and counted as one, as `group_of` names them."""
    stage: str = ""
    done: int = 0
    fresh: int = 0
    """Rows that were measured now and not found in a store."""
    slowed: str = ""


class LiveWriter:
    """Hears live events and keeps the note of a run up to date. `note` keeps a value under a name."""

    def __init__(self, note: Callable[[str, str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.slowed: Callable[[], str] = lambda: ""
        """What holds calls back, in words; empty when nothing does."""
        self._note = note
        self._clock = clock
        self._now = LiveNote()
        self._written = LiveNote()
        self._at = -EVERY

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageOpened):
            if group_of(event) != self._now.group:
                self._now = LiveNote(group=group_of(event), stage=event.stage)
        elif isinstance(event, Arrived):
            if event.stage != self._now.stage:
                return  # the seed's test in idle slots: nobody watches that
            fresh = self._now.fresh + (not event.resumed)
            self._now = self._now.model_copy(update={"done": self._now.done + 1, "fresh": fresh})
        if self._clock() - self._at >= EVERY:
            note = self._now.model_copy(update={"slowed": self.slowed()})
            self._at = self._clock()
            # While everything is found in the store nothing is going on: a finished run that is only opened
            # again is not written to.
            is_news = note.fresh or note.slowed or self._written != LiveNote()
            if is_news and note != self._written:
                self._note(NOTE, note.model_dump_json())
                self._written = note


def group_of(event: StageOpened) -> str:
    """The stages that are counted as one: all skills of a test, the two arms of an epoch's comparison."""
    place: Place | str = "" if event.stage in ("test", "eval") else replace(event.place, arm="")
    return f"{event.part}{place}/{event.stage}"
