"""Decides what a list of runs says of each: read in part only, so that many runs, also long ones, are listed
at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from skillopt.errors import SkillOptError
from skillopt.events import Checkpoint, RunStarted, TestMeasured
from skillopt.events.records import ReopenedRecord, StepRecord
from skillopt.files import holder
from skillopt.runs.log import DATABASE, EVENTS
from skillopt.runs.spending import LedgerView
from skillopt.runs.tail import DatabaseTail, LogTail

_WANTED = ("run_started", "checkpoint", "test_measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One run in a line. Scores are None where nothing was measured; `usd` where a price is unknown;
    `trouble` says what cannot be read.
    """

    folder: Path
    benchmark: str = ""
    target: str = ""
    optimizer: str = ""
    simulated: bool = False
    status: str = "waiting"
    step: int = 0
    steps: int = 0
    actions: tuple[str, ...] = ()
    baseline: float | None = None
    best: float | None = None
    test_seed: float | None = None
    test_best: float | None = None
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    in_flight: int = 0
    changed: float = 0.0
    """When its log last grew, seconds since 1970."""
    trouble: str = ""


class Listing:
    """Reads a list of runs again and again; what was read of a run before is not read again."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._known: dict[Path, _Entry] = {}
        self._lock = threading.Lock()

    def read(self, folders: Iterable[Path]) -> list[Listed]:
        """The training runs among some folders, as they stand; a folder of `eval` is none."""
        with self._lock:
            wanted = list(folders)
            self._known = {folder: self._known.get(folder) or _Entry(folder, self._now) for folder in wanted}
            read = [self._known[folder].read() for folder in wanted]
        return [one for one in read if one is not None]


class _Entry:
    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._folder = folder
        self._now = now
        self._begin()

    def _begin(self) -> None:
        self._log = LogTail(self._folder / EVENTS, only=_WANTED)
        self._database = DatabaseTail(self._folder / DATABASE)
        self._spending = LedgerView(self._now)
        self._started: RunStarted | None = None
        self._last: Checkpoint | None = None
        self._test: TestMeasured | None = None
        self._actions: dict[int, str] = {}

    def read(self) -> Listed | None:
        try:
            events = self._log.read()
            if events is None:
                self._begin()
                events = self._log.read() or []
            for event in events:
                self._take(event)
            changed = (self._folder / EVENTS).stat().st_mtime
        except (SkillOptError, OSError) as error:  # one damaged folder must not hide the others
            return Listed(folder=self._folder, status="unreadable", trouble=str(error))
        return None if self._started is None else self._listed(self._started, changed)

    def _take(self, event: object) -> None:
        if isinstance(event, RunStarted):
            self._started = event
        elif isinstance(event, TestMeasured):
            self._test = event
        elif isinstance(event, Checkpoint):
            self._last = event
            if isinstance(event.record, StepRecord):
                self._actions[event.record.step] = event.record.action
            elif isinstance(event.record, ReopenedRecord):
                first = event.record.from_step
                self._actions = {step: action for step, action in self._actions.items() if step < first}

    def _listed(self, started: RunStarted, changed: float) -> Listed:
        at_work = holder(self._folder / ".lock") is not None
        news = self._database.read(self._spending.account.open)
        self._spending.is_at_work = at_work
        if news is not None:
            self._spending.take(news.booked, news.session)
        paid = self._spending.settled()
        state = None if self._last is None else self._last.state
        return Listed(
            folder=self._folder,
            benchmark=started.benchmark,
            target=started.target,
            optimizer=started.optimizer,
            simulated=started.simulated,
            status="running" if at_work else "finished" if state and state.finished else "stopped",
            step=0 if state is None else state.step,
            steps=started.steps,
            actions=tuple(self._actions.values()),
            baseline=None if state is None else state.baseline_score,
            best=None if state is None else state.best_score,
            test_seed=self._hard("seed"),
            test_best=self._hard("best"),
            calls=paid.calls,
            tokens=paid.tokens,
            usd=paid.dollars,
            in_flight=self._spending.in_flight,
            changed=changed,
        )

    def _hard(self, name: str) -> float | None:
        values = (
            [row.hard for row in self._test.rows.get(name, ()) if row.hard is not None]
            if self._test is not None
            else []
        )
        return sum(values) / len(values) if values else None
