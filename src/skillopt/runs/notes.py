"""What stands beside a run's log: how far the open stage is, looks by `eval`, and who trained it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import RunConflict
from skillopt.events import Arrived, Event, StageOpened
from skillopt.events.place import Place
from skillopt.files import lock_run, person_folder, read_text, write_bytes, write_text

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


EVALS = "looks.jsonl"


class MeasuredSkill(BaseModel):
    """One skill that was measured with one target. Digests tell what it was; names are for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    target_digest: str
    skill: str
    digest: str
    repeats: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two measurements the same."""
        return (self.target_digest, self.digest, self.repeats)


class EvalRecord(BaseModel):
    """One evaluation on a run's test tasks: one line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str = Field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="milliseconds"))
    tasks: int
    """How many tasks were measured."""
    seen: list[MeasuredSkill]


def read_eval_records(folder: Path) -> list[EvalRecord]:
    """The looks that are noted in a run folder, oldest first."""
    path = folder / EVALS
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return []
    try:
        return [EvalRecord.model_validate_json(line) for line in lines if line.strip()]
    except ValueError as error:
        raise RunConflict(
            f"{path} holds a line that is no look of this program; put it back as it was written."
        ) from error


def note_eval(folder: Path, look: EvalRecord) -> bool:
    """Note a look; False where it showed nothing that an earlier one had not shown already.

    Raises `RunConflict` when another process works in the folder: nothing is written then.
    """
    with lock_run(folder):
        known = read_eval_records(folder)
        if {one.key for one in look.seen} <= {one.key for each in known for one in each.seen}:
            return False
        write_text(folder / EVALS, "".join(f"{each.model_dump_json()}\n" for each in (*known, look)))
    return True


SETTINGS = "settings.json"
"""What a run keeps of its configuration."""
_NOTE = "run.json"


def origin_folder(run: Path) -> Path:
    """What the person's folder holds of a run: where it came from, and the receipts of its adoptions."""
    return person_folder() / "runs" / hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:16]


def note_origin(run: Path) -> None:
    """Remember that the person trains here, and the settings that were just written. Where the folder cannot
    be written, the run counts as somebody else's.
    """
    with contextlib.suppress(OSError, RuntimeError):
        write_bytes(origin_folder(run) / _NOTE, json.dumps(_identity(run)).encode(), mode=0o600)


def is_made_here(run: Path) -> bool:
    """Whether the person trained this run on this machine, and nobody changed its settings since."""
    try:
        return bool(json.loads((origin_folder(run) / _NOTE).read_bytes()) == _identity(run))
    except (OSError, ValueError, RuntimeError):
        return False


def _identity(run: Path) -> dict[str, str]:
    digest = hashlib.sha256((run / SETTINGS).read_bytes()).hexdigest()
    return {"run": str(run.resolve()), SETTINGS: digest}
