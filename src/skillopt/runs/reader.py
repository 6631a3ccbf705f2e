"""Reads a run from its folder alone, also while any process works on it; nothing is locked or written."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.errors import SkillOptError, UsageError
from skillopt.events import Arrived, Event, RunStarted, Sink, Spending
from skillopt.files import holder
from skillopt.runs.fold import Fold, LogSection
from skillopt.runs.log import DATABASE, EARLIER, EVENTS
from skillopt.runs.notes import LiveNote, read_eval_records
from skillopt.runs.status import RunStatus
from skillopt.runs.tail import DatabaseTail, EventTail, LedgerView, StoredTexts
from skillopt.runs.versions import SkillVersion, versions_of
from skillopt.runs.view import RunState, RunView, mixed_weight, report_of_last
from skillopt.runs.words import LogLine, line_of
from skillopt.skill.store import Skills
from skillopt.train.claim import TestReport

LATEST = "latest"
_FIGURES = ("run_started", "checkpoint", "handed_over", "test_measured")
"""The events that the figures of a list need."""


class RunReader:
    """One run, read as it grows; a folder that is not there yet may come later.

    `read` takes in what is new. It returns the events of the log in order, then live ones - rows came in,
    money was spent - so that whatever shows a run from inside can show it from outside. All else is read off
    the attributes.
    """

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time, in_detail: bool = True) -> None:
        """`now` gives seconds since 1970. Without `in_detail` only what a list of runs shows is read."""
        self.folder = folder
        self._now = now
        self._in_detail = in_detail
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.config: Mapping[str, Any] = {}
        """What the run was last started with; empty until it is written."""
        self._texts = StoredTexts(self.folder / DATABASE)
        self.skills = Skills(self._texts)
        self.fold: Fold[Sequence[SkillVersion]] = Fold(self._keep)
        self.spending = LedgerView(self._now)
        self.status = RunStatus(self.fold, clock=self._now)
        self.status.elapsed = self.seconds
        self.status.reserved = lambda: (self.spending.in_flight, self.spending.tokens_reserved)
        self.status.slowed = lambda: self._note.slowed if self.state == "running" else ""
        self.lines: list[LogLine] = []
        """What was decided and noticed, a sentence each, oldest first."""
        self.decided = 0
        """How many events of the log were read; whoever shows them compares it with what he showed."""
        self.version = 0
        """Grows whenever anything changed."""
        self.state: RunState = "waiting"
        self._log = EventTail(self.folder / EVENTS, only=() if self._in_detail else _FIGURES)
        self._database = DatabaseTail(self.folder / DATABASE)
        self._note = LiveNote()
        self._booked_seconds = 0.0
        self._booked_at = self._now()
        self._reported_spending: tuple[int, bool] | None = None
        self._report: tuple[int, TestReport | None] = (0, None)
        self._view: tuple[tuple[int, int, int, RunState], RunView] | None = None

    def _keep(self, section: LogSection) -> Sequence[SkillVersion]:
        return versions_of(section, self.skills, mixed_weight(self.config)) if self._in_detail else ()

    def read(self) -> list[Event]:
        """Everything new since the last call."""
        events: list[Event] = []
        self.follow(events.append)
        return events

    def follow(self, sink: Sink = lambda event: None) -> None:
        """Take in everything new and pass each event on, without keeping any: a long log is much larger in
        memory than on disk. A log put back to an earlier state is read anew.
        """
        with self._lock, _without_collecting():
            gained = self._log.gained()
            if gained is None:
                self._begin()
                gained = self._log.gained()
            if gained or not self.config:
                self.config = _whole_json(self.folder / "settings.json") or self.config
                self.status.epochs = int(self.config.get("train", {}).get("num_epochs", self.status.epochs))
            decided, before = self.decided, self.state
            if gained:
                self._take_all(sink)
            at_work = holder(self.folder / ".lock") is not None
            live = self._read_database(at_work)
            for event in live:
                sink(event)
            self.state = self._state(at_work)
            self.status.is_at_work = self.state != "stopped"
            if self.decided > decided or live or before != self.state:
                self.version += 1

    def _take_all(self, sink: Sink) -> None:
        with self._texts.held() if (self.folder / DATABASE).exists() else contextlib.nullcontext():
            for event in self._log.read():
                self._take(event)
                sink(event)

    def view(self) -> RunView | None:
        """All that was decided so far; None before the run has begun."""
        with self._lock:
            if self.fold.started is None:
                return None
            evaluations = len(read_eval_records(self.folder))
            version = (self.decided, self.spending.version, evaluations, self.state)
            if self._view is None or self._view[0] != version:
                if self._report[0] != len(self.fold.tests):  # compared once, as graded scores take long
                    weight = mixed_weight(self.config)
                    report = report_of_last(self.fold.tests, self.fold.state, weight)
                    self._report = (len(self.fold.tests), report)
                view = RunView.of(
                    self.fold,
                    self.skills,
                    folder=self.folder,
                    config=self.config or None,
                    summary=self.summary(),
                    account=self.spending.account,
                    status=self.state,
                    evaluations=evaluations,
                    report=self._report[1],
                    in_flight=self.spending.in_flight,
                    tokens_reserved=self.spending.tokens_reserved,
                    changed=self._log.changed,
                )
                if self._in_detail:
                    _ = view.remarks  # texts are looked up under the lock, and not while somebody draws
                self._view = (version, view)
            return self._view[1]

    def summary(self) -> dict[str, Any] | None:
        """What the run wrote when it ended; None where it did not, or is just writing it."""
        return _whole_json(self.folder / "summary.json")

    def seconds(self) -> float:
        """Wall time of the run over all its sessions."""
        if self.state != "running":
            return self._booked_seconds
        return self._booked_seconds + max(0.0, self._now() - self._booked_at)

    def _take(self, event: Event) -> None:
        self.decided += 1
        self.status(event)
        line = line_of(event, self.status.steps) if self._in_detail else None
        if line is not None:
            self.lines.append(line)

    def _read_database(self, at_work: bool) -> list[Event]:
        news = self._database.read(self.spending.account.open)
        if news is None:
            return []
        self._note = news.live
        if news.seconds != self._booked_seconds:
            self._booked_seconds, self._booked_at = news.seconds, self._now()
        self.spending.is_at_work = at_work
        self.spending.take(news.entries, news.session)
        events: list[Event] = list(self._arrived()) if at_work else []
        spending = (self.spending.version, at_work)
        if spending != self._reported_spending:  # nothing spent is known, too
            self._reported_spending = spending
            spent = self.spending.settled()
            events.append(
                Spending(
                    calls=spent.calls,
                    tokens=spent.tokens,
                    usd=spent.dollars,
                    in_flight=self.spending.in_flight,
                    tokens_reserved=self.spending.tokens_reserved,
                    planned=news.planned,
                )
            )
        for event in events:
            self.status(event)
        return events

    def _arrived(self) -> Iterator[Event]:
        """The rows that the note counts and the status has not heard of."""
        note, status = self._note, self.status
        if note.group and note.group == status.group:
            fresh = note.fresh - status.fresh
            for number in range(note.done - status.done):
                yield Arrived(stage=note.stage, hard=None, invalid=None, resumed=number >= fresh)

    def _state(self, at_work: bool) -> RunState:
        if at_work:
            return "running"
        if self.fold.started is None:
            return "waiting"
        return "finished" if self.status.is_finished else "stopped"


class RunList:
    """Reads a list of runs again and again, each in part only; what was read of a run before is not read
    again.
    """

    def __init__(self) -> None:
        self._known: dict[Path, RunReader] = {}
        self._lock = threading.Lock()

    def read(self, folders: Iterable[Path]) -> dict[Path, RunView | str]:
        """The training runs among some folders, as they stand; of an unreadable one why it is. A folder of
        `eval` is none.
        """
        with self._lock:
            self._known = {
                folder: self._known.get(folder) or RunReader(folder, in_detail=False) for folder in folders
            }
            found: dict[Path, RunView | str | None] = {}
            for folder, reader in self._known.items():
                try:
                    reader.follow()
                    found[folder] = reader.view()
                except (SkillOptError, OSError) as error:  # one damaged folder must not hide the others
                    found[folder] = str(error)
        return {folder: view for folder, view in found.items() if view is not None}


class RunReaders:
    """The runs that somebody looks at, each read once for all, at most every `every` seconds."""

    def __init__(self, *, every: float = 0.5, keep: int = 16, now: Callable[[], float] = time.time) -> None:
        self._every = every
        self._keep = keep
        self._now = now
        self._known: dict[Path, tuple[RunReader, float]] = {}
        self._lock = threading.Lock()

    def __call__(self, folder: Path) -> RunReader:
        """The run of a folder, up to date."""
        with self._lock:
            reader, read_at = self._known.pop(folder, (None, -self._every))
            reader = reader or RunReader(folder, now=self._now)
            self._known[folder] = (reader, read_at)
            while len(self._known) > self._keep:  # the one that was looked at longest ago
                self._known.pop(next(iter(self._known)))
        now = self._now()
        if now - read_at >= self._every:
            try:
                reader.follow()
            except SkillOptError:
                with self._lock:  # half read: the next look must say the same
                    self._known.pop(folder, None)
                raise
            with self._lock:  # only now: who looks meanwhile must not take half of it for the whole
                if folder in self._known:
                    self._known[folder] = (reader, now)
        return reader


def read_run(folder: Path) -> RunReader:
    """The run in a folder as it stands; raises when there is none."""
    if not is_run(folder):
        raise UsageError(
            f"{folder} holds no run: there is no {EVENTS} and {DATABASE} in it. 'skillopt runs' lists the"
            " runs below a folder."
        )
    reader = RunReader(folder)
    reader.follow()
    return reader


def read_figures(folder: Path) -> RunReader:
    """What a list of runs shows of the run in a folder, without its rows; a folder without a run has none."""
    reader = RunReader(folder, in_detail=False)
    reader.follow()
    return reader


def read_view(folder: Path) -> RunView:
    """All that the files of a run tell; raises where it has not begun, or where one of them is damaged."""
    view = read_run(folder).view()
    if view is None:
        raise UsageError(f"{folder} holds no training run that has begun; there is nothing to report.")
    for name in ("settings.json", "summary.json"):
        _json_object(folder / name)
    return view


def is_run(folder: Path) -> bool:
    """Whether a folder holds a training run."""
    return (folder / EVENTS).is_file() and (folder / DATABASE).is_file()


def is_part(folder: Path) -> bool:
    """Whether a folder belongs to the run above it: a round, a fold, or a run that was put aside there."""
    return folder.parent.name in ("rounds", "folds", EARLIER) and is_run(folder.parent.parent)


def is_in_rounds(folder: Path) -> bool:
    """Whether a run was trained in rounds, in each of which other tasks were val: all of them taught it."""
    return (folder / "rounds").is_dir() or folder.parent.name == "rounds"


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a training run that ended its plan."""
    return is_run(folder) and read_run(folder).state == "finished"


def run_named(folder: Path) -> Path:
    """The folder; `latest`, where there is no such folder, is the newest run below `outputs`."""
    return find_run(Path("outputs")) if folder == Path(LATEST) and not folder.exists() else folder


def find_run(folder: Path) -> Path:
    """The one run that is meant: the folder itself (also by a file of it, by its name below `outputs`, or as
    `latest`), or the newest run below it.
    """
    folder = run_named(folder)
    if not folder.exists() and ("outputs" / folder).exists():
        folder = "outputs" / folder
    if folder.is_file():
        folder = next((one for one in folder.parents[:3] if is_run(one)), folder)
    if (folder / EVENTS).is_file():
        return folder
    logs = sorted(folder.rglob(EVENTS), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    found = [path.parent for path in logs if _is_training(path) and not is_part(path.parent)]
    if not found:
        raise UsageError(
            f"There is no run in {folder} or below it. 'skillopt runs' lists those below 'outputs'."
        )
    return found[-1]


def _json_object(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as JSON: {error}. Run the same training command again to write it."
        ) from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} holds no JSON object. Run the same training command again to write it.")
    return data


def _whole_json(path: Path) -> dict[str, Any] | None:
    """A file of the run; None while it is not there or only half written."""
    with contextlib.suppress(UsageError):
        return _json_object(path)
    return None


def _is_training(log: Path) -> bool:
    try:
        with log.open("rb") as file:
            return f'"{RunStarted.model_fields["type"].default}"'.encode() in file.readline(4096)
    except OSError:
        return False


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Reading a long log makes very many values and no garbage; looking for some doubles its time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
