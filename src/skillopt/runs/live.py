"""Watches a run that any process works on, from its folder alone: what was decided, what is under way, what
it has cost so far.
"""

from __future__ import annotations

import contextlib
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from skillopt.errors import SkillOptError, UsageError
from skillopt.events import Event, RunStarted
from skillopt.events import Spending as SpendingEvent
from skillopt.files import holder
from skillopt.runs.database import stored_text
from skillopt.runs.facts import facts_of, mixed_weight
from skillopt.runs.floor import Floor
from skillopt.runs.fold import Fold
from skillopt.runs.lines import Line, line_of
from skillopt.runs.log import DATABASE, EVENTS
from skillopt.runs.looks import read_looks
from skillopt.runs.spending import LedgerView
from skillopt.runs.status import Status
from skillopt.runs.tail import DatabaseTail, LogTail
from skillopt.runs.values import Facts
from skillopt.skill.store import Skills

State = Literal["waiting", "running", "stopped", "finished"]


class Watcher:
    """One run, read as it grows. Nothing is locked and nothing is written; a folder that is not there yet may
    come later.

    `read` takes in what is new. It returns decided facts in order, then live events that it makes from the
    ledger - a stage opened, rows came in, money was spent - so that whatever shows a run from inside can show
    it from outside. All else is read off the attributes.
    """

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time) -> None:
        """`now` tells seconds since 1970."""
        self.folder = folder
        self._now = now
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.config: Mapping[str, Any] = {}
        """What the run was last started with; empty until it is written."""
        self.fold = Fold(Skills(partial(stored_text, self.folder / DATABASE)))
        self.spending = LedgerView(self._now)
        self.status = Status(clock=self._now, from_records=True)
        self.status.timer, self.status.gauge = self.seconds, lambda: self.spending.in_flight
        self.lines: list[Line] = []
        """What was decided and noticed, a sentence each, oldest first."""
        self.decided = 0
        """How many facts were read; whoever shows them compares it with what he showed."""
        self.version = 0
        """Grows whenever anything changed."""
        self.state: State = "waiting"
        self._log = LogTail(self.folder / EVENTS)
        self._database = DatabaseTail(self.folder / DATABASE)
        self._floor = Floor()
        self._booked_seconds = 0.0
        self._booked_at = self._now()
        self._has_told = False
        self._facts: tuple[tuple[int, int, State], Facts] | None = None

    def read(self) -> list[Event]:
        """Everything new since the last call. A log that was put back to an earlier state is read anew from
        its beginning.
        """
        with self._lock, _without_collecting():
            events = self._log.read()
            if events is None:
                self._begin()
                events = self._log.read() or []
            at_work = holder(self.folder / ".lock") is not None
            if events or not self.config:
                self._read_config()
            for event in events:
                self._take(event)
            live = self._live(at_work)
            before, self.state = self.state, self._state(at_work)
            self.status.is_at_work = self.state != "stopped"
            if events or live or before != self.state:
                self.version += 1
            return [*events, *live]

    def facts(self) -> Facts | None:
        """All that was decided so far, as a report tells it; None before the run has begun."""
        with self._lock:
            if self.fold.started is None:
                return None
            version = (self.decided, self.spending.version, self.state)
            if self._facts is None or self._facts[0] != version:
                summary = _json(self.folder / "summary.json")
                looks = len(read_looks(self.folder))
                told = facts_of(
                    self.fold,
                    config=self.config or None,
                    summary=summary,
                    account=self.spending.account,
                    status=self.state,
                    looks_by_eval=looks,
                )
                self._facts = (version, told)
            return self._facts[1]

    def seconds(self) -> float:
        """Wall time of the run over all its sessions."""
        if self.state != "running":
            return self._booked_seconds
        return self._booked_seconds + max(0.0, self._now() - self._booked_at)

    def _take(self, event: Event) -> None:
        self.decided += 1
        self.fold.take(event)
        self._floor.decided(event)
        self.status(event)
        line = line_of(event, self.status.steps)
        if line is not None:
            self.lines.append(line)

    def _live(self, at_work: bool) -> list[Event]:
        news = self._database.read(self.spending.account.open)
        if news is None:
            return []
        if news.seconds != self._booked_seconds:
            self._booked_seconds, self._booked_at = news.seconds, self._now()
        changed = (
            bool(news.booked) or at_work != self.spending.is_at_work or not self._has_told
        )  # nothing spent is known, too
        self._has_told = True
        self.spending.is_at_work = at_work
        self.spending.take(news.booked, news.session)
        self._floor.take(news)
        events = self._floor.live(self.fold, self.config) if at_work else []
        if changed:
            paid = self.spending.settled()
            events.append(
                SpendingEvent(
                    calls=paid.calls, tokens=paid.tokens, usd=paid.dollars, in_flight=self.spending.in_flight
                )
            )
        for event in events:
            self.status(event)
        return events

    def _state(self, at_work: bool) -> State:
        if at_work:
            return "running"
        if self.fold.started is None:
            return "waiting"
        return "finished" if self.fold.state and self.fold.state.finished else "stopped"

    def _read_config(self) -> None:
        self.config = _json(self.folder / "config.json") or self.config
        self.fold.weight = mixed_weight(self.config)
        self.status.epochs = int(self.config.get("train", {}).get("num_epochs", self.status.epochs))


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Reading a long log makes hundreds of thousands of values and no garbage: looking for some in between
    doubles the time it takes.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _json(path: Path) -> dict[str, Any] | None:
    """A file of the run; None while it is not there or only half written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


class Watched:
    """The runs that somebody looks at, each read once for all who do, and not more often than every `every`
    seconds.
    """

    def __init__(self, *, every: float = 0.5, keep: int = 16, now: Callable[[], float] = time.time) -> None:
        self._every = every
        self._keep = keep
        self._now = now
        self._known: dict[Path, tuple[Watcher, float]] = {}
        self._lock = threading.Lock()

    def __call__(self, folder: Path) -> Watcher:
        """The run of a folder, up to date."""
        with self._lock:
            watcher, read_at = self._known.pop(folder, (None, -self._every))
            watcher = watcher or Watcher(folder, now=self._now)
            now = self._now()
            self._known[folder] = (watcher, now if now - read_at >= self._every else read_at)
            while len(self._known) > self._keep:  # the one that was looked at longest ago
                self._known.pop(next(iter(self._known)))
        if now - read_at >= self._every:
            try:
                watcher.read()
            except SkillOptError:
                with (
                    self._lock
                ):  # half read: whoever looks next must hear the same and not be shown a run that never began
                    self._known.pop(folder, None)
                raise
        return watcher


def find_run(folder: Path) -> Path:
    """The one run that is meant: the folder itself, or the newest run below it."""
    if (folder / EVENTS).is_file():
        return folder
    logs = sorted(folder.rglob(EVENTS), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    found = [path.parent for path in logs if _is_training(path)]
    if not found:
        raise UsageError(
            f"There is no run in {folder} or below it. Name a run folder: skillopt runs watch FOLDER."
        )
    return found[-1]


def _is_training(log: Path) -> bool:
    try:
        with log.open("rb") as file:
            return f'"{RunStarted.model_fields["type"].default}"'.encode() in file.readline(4096)
    except OSError:
        return False
