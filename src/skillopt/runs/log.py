"""A run folder: whose it is, the log of what was decided, and the lock that keeps two processes apart.

Re-running the same command opens the same folder and goes on. The log is append-only; a torn last line, left
by a crash, is cut off.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from skillopt.errors import RunConflict, Stopped, UsageError
from skillopt.events import Checkpoint, Event, RunStarted, Sink, TestMeasured, parse_event
from skillopt.files import lock
from skillopt.redact import Scrubber
from skillopt.runs.database import Database
from skillopt.runs.looks import read_looks

EVENTS = "events.jsonl"
DATABASE = "run.db"


class Run:
    """One open run folder. `emit` is the sink every part of the engine reports to."""

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], *, scrubber: Scrubber, sinks: Sequence[Sink] = ()
    ) -> None:
        self.folder = folder
        self.history: list[Event] = []
        """Decided facts so far, in order, also of steps that were opened again later; `step_records` leaves
        those out.
        """
        self._scrubber = scrubber
        self._sinks = list(sinks)
        self._seen: set[str] = set()
        self._stack = ExitStack()
        _prepare(folder)
        self._stack.enter_context(lock(folder / ".lock"))
        try:
            self.database = Database(folder / DATABASE)
            self._stack.callback(self.database.shut)
            self._claim(identity)
            _sweep(folder)
            for event in read_events(folder / EVENTS, mend=True):
                self._remember(event)
            self._check_log()
            self._log = self._stack.enter_context((folder / EVENTS).open("a", encoding="utf-8", newline="\n"))
        except BaseException:  # whatever fails, the folder's lock must not stay
            self._stack.close()
            raise

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def watch(self, sink: Sink) -> None:
        """Hear every event from now on; `history` holds what was decided before."""
        self._sinks.append(sink)

    def emit(self, event: Event) -> None:
        """Append a fact once; what it reports is committed already. Live events are only passed on."""
        line = event.model_dump_json()
        clean = self._scrubber.scrub(line)
        event = event if clean == line else parse_event(clean)
        if event.id is not None:
            if event.id in self._seen:
                return
            self._write(clean + "\n")
            self._remember(event)
        for sink in list(self._sinks):
            self._tell(sink, event)

    def _write(self, line: str) -> None:
        try:
            self._log.write(line)
            self._log.flush()
        except OSError as error:
            raise Stopped(
                f"{self.folder / EVENTS} cannot be written: {error.strerror or error}. Everything written"
                " before is kept. Free some space, then run the same command again."
            ) from error

    def _tell(self, sink: Sink, event: Event) -> None:
        try:
            sink(event)
        except Stopped:
            raise
        except Exception:
            # A fact that a sink cannot take is a reason to stop. News of a call under way is not: the reply
            # behind it is about to be stored, and a closed terminal must not cost it. That watcher hears no
            # more.
            if event.id is not None:
                raise
            self._sinks.remove(sink)

    def last_state(self) -> Mapping[str, Any] | None:
        """The state at the last checkpoint; that is all a run needs to go on."""
        for event in reversed(self.history):
            if isinstance(event, Checkpoint):
                return event.state
        return None

    def steps(self) -> list[dict[str, Any]]:
        """The public records of all closed steps."""
        return step_records(self.history)

    def looks(self, other_than: str) -> int:
        """How often the test split was opened, by this run or by `eval`, before the look of that id."""
        opened = [event for event in self.history if isinstance(event, TestMeasured)]
        for event in opened:
            if event.id == other_than:
                return event.look - 1  # looks since then do not make it a later one
        return len(opened) + len(read_looks(self.folder))

    def _remember(self, event: Event) -> None:
        if event.id is not None:
            self._seen.add(event.id)
            self.history.append(event)

    def _check_log(self) -> None:
        started = [event for event in self.history if isinstance(event, RunStarted)]
        if started and started[0].identity != self.identity:
            raise RunConflict(
                f"{self.folder / EVENTS} is the log of another run than {DATABASE} beside it. Put the right"
                " one back."
            )

    def _claim(self, identity: Mapping[str, Any]) -> None:
        mine = json.dumps(self._scrubber.scrub_json(identity), sort_keys=True, ensure_ascii=False)
        self.identity = _digest(mine)
        theirs = self.database.noted("identity")
        if theirs is None:
            self.database.note("identity", mine)
        elif theirs != mine:
            changed = "\n".join(difference(json.loads(theirs), json.loads(mine)))
            raise RunConflict(
                f"{self.folder} holds another run; nothing was changed. It differs in\n{changed}\n"
                "Name another folder (--out_root) or use the same settings."
            )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _sweep(folder: Path) -> None:
    """Remove what killed writes left in our own part of the folder; another run may live below it."""
    for place in (
        "",
        "skills",
        "steps",
        "slow_update",
        "meta_skill",
        "selection_eval_baseline",
        "test_eval*",
    ):
        for leftover in folder.glob(f"{place}/**/.*.tmp" if place else ".*.tmp"):
            leftover.unlink(missing_ok=True)


def read_events(path: Path, *, mend: bool = False) -> list[Event]:
    """All complete events of a log; with `mend`, what a crash left of a last line is cut off the file."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if mend and len(whole) < len(data):
        with path.open("r+b") as log:
            log.truncate(len(whole))
    events = []
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if line.strip():
            try:
                events.append(parse_event(line))
            except ValueError as error:
                raise RunConflict(
                    f"{path}, line {number}, is not an event of this program; nothing was changed. Put the"
                    " log back as it was written."
                ) from error
    return events


def step_records(history: Sequence[Event]) -> list[dict[str, Any]]:
    """Public step records, without those that a later `reopened` checkpoint took back."""
    records: list[dict[str, Any]] = []
    for event in history:
        if isinstance(event, Checkpoint) and event.kind == "step":
            records.append(event.record)
        elif isinstance(event, Checkpoint) and event.kind == "reopened":
            records = [record for record in records if record["step"] < event.record["from_step"]]
    return records


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """The leaves in which two identities differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted({*old, *new})
            for line in difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if old == new else [f"  {path}: {_short(old)} there, {_short(new)} now"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"The run folder {folder} cannot be written: {error.strerror or error}. Name another with"
            " --out_root."
        ) from error
    if EVENTS in names and DATABASE not in names:
        raise RunConflict(
            f"{folder} holds the log of a run, but its {DATABASE} is gone. Put it back, or name another"
            " folder with --out_root."
        )
    if names - {".lock", ".probe"} and DATABASE not in names:
        raise RunConflict(
            f"{folder} is not empty and is not a run of SkillOpt; nothing was changed. Name another folder"
            " with --out_root."
        )
