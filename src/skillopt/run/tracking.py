"""Opens the trackers that a configuration names, and refuses what cannot work before anything is paid."""

from __future__ import annotations

import hashlib
import importlib
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillopt.config.schema import TrackingConfig
from skillopt.errors import ConfigError
from skillopt.events import Called, Event, Notice
from skillopt.files import write_json
from skillopt.money import Entry
from skillopt.run.assembly import OpenRun
from skillopt.runs.log import DATABASE
from skillopt.runs.tail import StoredTexts
from skillopt.trackers import trackers
from skillopt.trackers.port import Opening, Tracker, TrackerPlugin

FOLDER = "tracking"
PATIENCE_SECONDS = 20.0
"""How long the end of a session waits for a tracker that still sends."""


def kinds_of(config: TrackingConfig) -> dict[str, TrackerPlugin]:
    """The trackers that are named, by name; an unknown name and a missing library are errors."""
    names = [name.strip() for name in (config.use or "").split(",") if name.strip()]
    found: dict[str, TrackerPlugin] = {name: trackers.get(name) for name in names}
    for name, kind in found.items():
        if kind.module and not _is_there(kind.module):
            raise ConfigError(
                f"Tracker {name!r} needs {kind.module.partition('.')[0]}: pip install"
                f" 'skillopt-trainer[{kind.extra}]'"
            )
    return found


@contextmanager
def tracked(opened: OpenRun) -> Iterator[None]:
    """Tell the trackers what happens, first what they missed: a stop or a late start loses nothing."""
    job, run = opened.job, opened.run
    kinds = kinds_of(job.config.tracking)
    with ExitStack() as stack:
        for name, kind in kinds.items():
            delivery = Delivery(name, kind, _opening(opened, name, kind), warn=run.emit)
            delivery.start(list(run.history()))
            stack.callback(delivery.close)
            run.watch(delivery)
        if any(kind.wants_calls for kind in kinds.values()):
            opened.ledger.watch(lambda entry: _tell_call(opened, entry))
        yield


def _opening(opened: OpenRun, name: str, kind: TrackerPlugin) -> Opening:
    scrubber, config = opened.job.scrubber, opened.job.config.tracking
    return Opening(
        folder=opened.folder / FOLDER / name,
        name=opened.folder.name,
        identity=opened.run.identity,
        project=scrubber.scrub(config.project),
        settings=dict(_flat(scrubber.scrub_json(opened.job.settings))),
        own=config.settings.get(name) or kind.Settings(),
        texts=config.texts,
        skill=lambda digest: StoredTexts(opened.folder / DATABASE)(digest) or "",
    )


def _tell_call(opened: OpenRun, entry: Entry) -> None:
    if entry.opened is None:
        return
    model = opened.job.roles.get(entry.role, opened.job.optimizer)
    opened.run.emit(
        Called(
            role=entry.role,
            stage=entry.stage,
            place=entry.place,
            provider=model.provider,
            model=model.name,
            outcome=entry.state,
            seconds=opened.elapsed() - entry.opened,
            **({} if entry.usage is None else asdict(entry.usage)),
            usd=None if entry.charged.usd is None else float(entry.charged.usd),
        )
    )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the last session left: where it sent, how many facts were taken, what the run was called."""

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
    """An event sink in front of one tracker: `start` it with the facts so far, call it, then `close`."""

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
        told = f"{self._opening.own!r} {self._opening.project}"
        # Which place is told, as a digest: an address may hold a password.
        self._kept = Kept.read(self._notes, hashlib.sha256(told.encode()).hexdigest()[:16])
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
        """Wait a while for what is still to be sent. A slow tracker is told the rest in the next session."""
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
