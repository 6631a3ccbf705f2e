"""A run folder: whose it is, the log of what was decided, and the lock that keeps two processes apart.

Re-running the same command opens the same folder and goes on. The log is append-only; a torn last line, left
by a crash, is cut off. It is read once when the folder is opened and not kept in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from skillopt.errors import RunConflict, Stopped
from skillopt.events import (
    SCHEMA,
    Checkpoint,
    Event,
    HandedOver,
    Notice,
    RunStarted,
    Sink,
    StageOpened,
    TestMeasured,
    parse_event,
)
from skillopt.events.records import StepRecord
from skillopt.events.state import MEMORY, MemoryEntry
from skillopt.files import as_usage_error, check_links_stay, lock
from skillopt.redact import Scrubber
from skillopt.runs.connection import other_version
from skillopt.runs.database import Database
from skillopt.runs.fold import Fold, LogSection, step_records
from skillopt.runs.notes import LiveWriter, read_eval_records
from skillopt.skill.store import SkillStore

EVENTS = "events.jsonl"
DATABASE = "run.db"
EARLIER = "earlier"
"""Runs of this folder that were put aside, by number."""
STAYS = frozenset({".lock", EARLIER, "adopted"})
"""What stays in a folder whose run is put aside; an adoption can still be undone."""


class Run:
    """One open run folder. `emit` is the sink every part of the engine reports to."""

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], *, scrubber: Scrubber, sinks: Sequence[Sink] = ()
    ) -> None:
        self.folder = folder
        self.scrubber = scrubber
        self._sinks = list(sinks)
        self._fact_sinks: list[Sink] = []
        self._seen: set[str] = set()
        self._said: set[str] = set()
        self._last: Checkpoint | None = None
        self._handed_over: HandedOver | None = None
        self._open: list[Event] = []
        self._memory: tuple[MemoryEntry, ...] = ()
        self._looks: dict[str, int] = {}
        self._stack = ExitStack()
        _prepare(folder)
        self._stack.enter_context(lock(folder / ".lock"))
        try:
            self.database = Database(folder / DATABASE, alone=True)
            self._stack.callback(self.database.shut)
            self.skills = SkillStore(self.database.text, self.database.keep_text, scrub=scrubber.scrub)
            self.live = LiveWriter(self.database.note)
            self._claim(identity)
            _sweep(folder)
            for event in _read(folder / EVENTS, mend=True):
                if isinstance(event, RunStarted) and event.identity != self.identity:
                    raise RunConflict(
                        f"{folder / EVENTS} is the log of another run than {DATABASE} beside it. Put the"
                        " right one back."
                    )
                self._remember(event)
            self._log = self._stack.enter_context((folder / EVENTS).open("a", encoding="utf-8", newline="\n"))
        except BaseException:  # whatever fails, the folder's lock must not stay
            self._stack.close()
            raise

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def watch(self, sink: Sink, *, facts_only: bool = False) -> None:
        """Hear every event from now on, or only what is decided; `history` has what was decided before."""
        (self._fact_sinks if facts_only else self._sinks).append(sink)

    def emit(self, event: Event) -> None:
        """Append a fact to the log unless the log has it; the caller has already committed its data.
        Live events go to the sinks; the log gets only those that its watchers need, without an id.
        """
        if event.id is None:
            self.live(event)
        is_written = event.id is not None or self._is_for_watchers(event)
        if not is_written and not self._sinks:
            return
        line = event.model_dump_json()
        clean = self.scrubber.scrub(line)
        event = event if clean == line else parse_event(clean)
        if event.id is not None:
            if event.id in self._seen:
                return
            self._write(clean + "\n")
            self._remember(event)
            for sink in self._fact_sinks:
                sink(event)
        elif is_written:
            self._write(clean + "\n")
            self._remember(event)
        for sink in list(self._sinks):
            self._tell(sink, event)

    def _is_for_watchers(self, event: Event) -> bool:
        """Whether a live event stands in the log: a stage opened, a skill was handed over, a sentence is new.

        Nothing is written before the run has begun, nor into a finished run that is only opened again.
        """
        if not self._seen or (self._last is not None and self._last.state.finished):
            return False
        return isinstance(event, StageOpened | HandedOver) or (
            isinstance(event, Notice) and event.text not in self._said
        )

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
            # behind it is about to be stored, and must not be lost to a closed terminal, which hears no more.
            if event.id is not None:
                raise
            self._sinks.remove(sink)

    def history(self) -> Iterator[Event]:
        """What was decided so far, in order, from the log; also of steps that were opened again later."""
        return read_events(self.folder / EVENTS)

    def facts_since(self, checkpoint: str | None) -> list[Event]:
        """What was decided after a checkpoint; everything where there is none of that id."""
        if self._last is not None and self._last.id == checkpoint:
            return list(self._open)
        found: list[Event] = []
        for event in self.history():
            found.append(event)
            if event.id == checkpoint:
                found = []
        return found

    def last_checkpoint(self) -> Checkpoint | None:
        """Where the run stands."""
        return self._last

    def handed_over(self) -> HandedOver | None:
        """What the budget's end handed over since the last checkpoint."""
        return self._handed_over

    def checkpoint(self, id: str) -> Checkpoint:
        """An earlier checkpoint."""
        for event in self.history():
            if event.id == id and isinstance(event, Checkpoint):
                return event
        raise RunConflict(
            f"{self.folder / EVENTS} holds no checkpoint {id!r}. Put the log back as it was written."
        )

    def memory(self) -> tuple[MemoryEntry, ...]:
        """The memory that later analysts are given, of all checkpoints so far."""
        return self._memory

    def steps(self) -> list[StepRecord]:
        """The public records of all closed steps."""
        return step_records(self.history())

    def looks(self, other_than: str) -> int:
        """How often the test split was opened, by this run or by `eval`, before the look of that id."""
        if other_than in self._looks:
            return self._looks[other_than] - 1  # looks since then do not make it a later one
        return len(self._looks) + len(read_eval_records(self.folder))

    def _remember(self, event: Event) -> None:
        if event.id is None:
            if isinstance(event, Notice):
                self._said.add(event.text)
            elif isinstance(event, HandedOver):
                self._handed_over = event
            return
        self._seen.add(event.id)
        self._open.append(event)
        if isinstance(event, TestMeasured):
            self._looks[event.id] = event.look
        elif isinstance(event, Checkpoint):
            self._last, self._open, self._handed_over = event, [], None
            self._memory = (*self._memory, *event.remembered)[-MEMORY:]

    def _claim(self, identity: Mapping[str, Any]) -> None:
        mine = json.dumps(self.scrubber.scrub_json(identity), sort_keys=True, ensure_ascii=False)
        self.identity = hashlib.sha256(mine.encode()).hexdigest()[:16]
        theirs = self.database.noted("identity")
        if theirs is None:
            self.database.note("identity", mine)
        elif theirs != mine and not self.database.holds_answers():
            # A first command with wrong settings got no answer: nothing here is worth keeping from another.
            (self.folder / EVENTS).unlink(missing_ok=True)
            self.database.note("identity", mine)
        elif theirs != mine:
            lines = difference(self.database.noted_as(json.loads, "identity"), json.loads(mine))
            changed, hint = "\n".join(lines), ""
            if any(line.strip().startswith("skill: ") for line in lines):
                onward = f"'skillopt train --from {self.folder}' starts from its best one"
                hint = f" The skill was changed since, as by an adoption: {onward}."
            raise RunConflict(
                f"{self.folder} holds another run; nothing was changed. It differs in\n{changed}\n"
                f"Name another folder (--out_root) or use the same settings.{hint}"
            )


def _sweep(folder: Path) -> None:
    """Remove what killed writes left in our own part of the folder; another run may live below it."""
    ours = ("skills", "steps", "slow_update", "meta_skill", "selection_eval_baseline", "test_eval*")
    for pattern in (".*.tmp", *(f"{place}/**/.*.tmp" for place in ours)):
        for leftover in folder.glob(pattern):
            leftover.unlink(missing_ok=True)


def read_events(path: Path) -> Iterator[Event]:
    """The decided facts of a log."""
    return (event for event in _read(path) if event.id is not None)


def read_sections(folder: Path) -> Fold[LogSection]:
    """What was decided in a run, section by section, with all its rows."""
    sections: Fold[LogSection] = Fold(lambda section: section)
    for event in _read(folder / EVENTS):
        sections.take(event)
    return sections


def _read(path: Path, *, mend: bool = False) -> Iterator[Event]:
    """Yield the events of all complete lines of a log; `mend` first cuts a torn last line off the file."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if mend and len(whole) < len(data):
        with path.open("r+b") as log:
            log.truncate(len(whole))
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if line.strip():
            yield read_line(path, number, line)


def read_line(path: Path, number: int, line: bytes) -> Event:
    """One line of a log; raises where it is none of ours, or where the log has another form."""
    if number == 1:
        _check_form(path, line)
    try:
        return parse_event(line)
    except ValueError as error:
        raise RunConflict(
            f"{path}, line {number}, is not an event of this program; nothing was changed. Put the log back"
            " as it was written."
        ) from error


def _check_form(path: Path, line: bytes) -> None:
    try:
        first = json.loads(line)
    except ValueError:
        return  # whoever parses the line says what is wrong with it
    if isinstance(first, dict) and first.get("type") == "run_started":
        version = first.get("schema_version", 1)
        if version != SCHEMA:
            raise other_version(path, version)


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
    with as_usage_error(f"The run folder {folder}", "written", "Name another with --out_root."):
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
    if EVENTS in names and DATABASE not in names:
        raise RunConflict(
            f"{folder} holds the log of a run, but its {DATABASE} is gone. Put it back, or name another"
            " folder with --out_root."
        )
    if names - {".probe", *STAYS} and DATABASE not in names:
        raise RunConflict(
            f"{folder} is not empty and is not a run of SkillOpt; nothing was changed. Name another folder"
            " with --out_root."
        )
    check_links_stay(folder)
    probe = folder / ".probe"
    with as_usage_error(f"The run folder {folder}", "written", "Name another with --out_root."):
        probe.write_bytes(b"")
        probe.unlink()
