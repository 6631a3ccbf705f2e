"""Delivers a run's facts to one tracker: in a thread of its own, each fact once over all sessions, and never
at the cost of the run.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from skillopt.events import Called, Event, Notice
from skillopt.files import write_json
from skillopt.trackers.port import Opening, Tracker, TrackerPlugin

PATIENCE_SECONDS = 20.0
"""How long the end of a session waits for a tracker that still sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the last session left: where it sent, how many facts the tracker took, and what it
    called the run.
    """

    where: str
    told: int = 0
    reference: str | None = None

    @classmethod
    def read(cls, path: Path, where: str) -> Kept:
        """From its file; a missing or damaged one, or another place to send to, means from the beginning."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            kept = cls(where=found["where"], told=int(found["told"]), reference=found["reference"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(where=where)
        return kept if kept.where == where else cls(where=where)


class Delivery:
    """An event sink in front of one tracker. Use `start` with the facts so far, then call it with every
    event, then `close`.
    """

    def __init__(
        self, name: str, kind: TrackerPlugin, opening: Opening, *, warn: Callable[[Notice], None]
    ) -> None:
        """`warn` shows the one warning a failing tracker is worth."""
        self._name = name
        self._kind = kind
        self._opening = opening
        self._notes = opening.folder.with_suffix(".json")
        self._warn = warn
        self._waiting: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._failed = ""
        self._has_warned = False

    def start(self, history: Sequence[Event]) -> None:
        """Begin with what the tracker has not been told yet of the facts before this session."""
        self._kept = Kept.read(self._notes, _where(self._opening))
        self._told = min(self._kept.told, len(history))
        for event in history[self._told :]:
            self._waiting.put(event)
        try:
            # Here and not in its thread: imports of two threads at once have broken in Python 3.11 (a
            # SystemError from `ast`).
            if self._kind.module:
                importlib.import_module(self._kind.module)
        except Exception as error:  # noqa: BLE001 - a stranger's library: whatever its import raises, the run goes on
            self._failed = _in_a_line(error)
            return
        self._thread.start()

    def __call__(self, event: Event) -> None:
        if self._failed:
            self._complain()
        elif event.id is not None or (self._kind.wants_calls and isinstance(event, Called)):
            self._waiting.put(event)

    def close(self) -> None:
        """Wait a while for what is still to be sent. A slow tracker is left behind, and told the rest in the
        next session.
        """
        self._waiting.put(None)
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive() and not self._failed:
            self._failed = (
                f"it did not take everything within {PATIENCE_SECONDS:.0f} s; the next session sends the rest"
            )
        if self._failed:
            self._complain()

    def _complain(self) -> None:
        if not self._has_warned:
            self._has_warned = True  # first: the warning is an event, which comes back here
            text = f"Tracker {self._name}: {self._failed}. The run goes on without it."
            self._warn(Notice(text=text, level="warning"))

    def _work(self) -> None:
        earlier = self._kept.reference
        # what it called the run may be gone
        advice = "" if earlier is None else f" (to begin anew there, remove {self._notes})"
        try:
            tracker = self._kind.open(replace(self._opening, earlier=earlier))
            advice = ""
            # at once: a process that is killed before the first fact must not leave a second run behind
            self._remember(tracker)
            while (event := self._waiting.get()) is not None:
                tracker.tell(event)
                if event.id is not None:
                    self._told += 1
                    self._remember(tracker)
            tracker.close()
            self._remember(tracker)
        except Exception as error:  # noqa: BLE001 - a stranger's library on a thread of its own: whatever it raises, the run goes on
            self._failed = _in_a_line(error) + advice

    def _remember(self, tracker: Tracker) -> None:
        self._notes.parent.mkdir(parents=True, exist_ok=True)
        kept = replace(self._kept, told=self._told, reference=tracker.reference)
        write_json(self._notes, asdict(kept), durable=False)


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300].rstrip(".")


def _where(opening: Opening) -> str:
    """Which place is told, as a digest: an address may hold a password."""
    return hashlib.sha256(f"{opening.own!r} {opening.project}".encode()).hexdigest()[:16]
