"""Reads a run folder without a lock and without writing: what `runs`, `explain` and `diff` know of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from skillopt.account import account_of
from skillopt.errors import UsageError
from skillopt.events import Checkpoint, Event, RunStarted, TestMeasured
from skillopt.events.records import StepRecord
from skillopt.events.state import State
from skillopt.files import holder
from skillopt.runs.database import Database, stored_text
from skillopt.runs.facts import fold
from skillopt.runs.log import DATABASE, EVENTS, read_events, step_records
from skillopt.runs.looks import read_looks
from skillopt.runs.values import Facts
from skillopt.skill.store import Skills


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as its folder tells it."""

    folder: Path
    events: Sequence[Event]
    started: RunStarted | None
    state: State | None
    """The state at the last checkpoint."""

    @property
    def steps(self) -> list[StepRecord]:
        """Public records of the closed steps."""
        return step_records(self.events)

    @property
    def skills(self) -> Skills:
        """The skills that the log names."""
        return Skills(partial(stored_text, self.folder / DATABASE))

    @property
    def status(self) -> str:
        """finished, running or stopped."""
        if holder(self.folder / ".lock") is not None:
            return "running"
        return "finished" if self.state is not None and self.state.finished else "stopped"

    @property
    def test(self) -> dict[str, float | None]:
        """Hard means of the last look at the test split, by skill."""
        looks = [event for event in self.events if isinstance(event, TestMeasured)]
        if not looks:
            return {}
        return {
            name: _mean([row.hard for row in rows if row.hard is not None])
            for name, rows in looks[-1].rows.items()
        }

    def config(self) -> dict[str, Any]:
        """The configuration the run was last started with."""
        path = self.folder / "config.json"
        if not path.is_file():
            raise UsageError(
                f"{path} is missing; it says how scores were weighed. Run the same training command again to"
                " write it."
            )
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return data

    def spending(self) -> tuple[int, int, float | None]:
        """Calls, tokens and dollars, dollars None where a price is unknown."""
        database = Database.reading(self.folder / DATABASE)
        try:
            account = account_of(database.entries())
        finally:
            database.shut()
        spent = account.total()
        return spent.calls, spent.tokens, spent.dollars


def open_run(folder: Path) -> RunView:
    """The run in a folder; raises when there is none."""
    if not is_run(folder):
        raise UsageError(
            f"{folder} holds no run: there is no {EVENTS} and {DATABASE} in it. 'skillopt runs' lists the"
            " runs below a folder."
        )
    events = list(read_events(folder / EVENTS))
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    states = [event.state for event in events if isinstance(event, Checkpoint)]
    return RunView(folder=folder, events=events, started=started, state=states[-1] if states else None)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a training run."""
    return (folder / EVENTS).is_file() and (folder / DATABASE).is_file()


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a training run that ended its plan."""
    return is_run(folder) and open_run(folder).status == "finished"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def read_facts(view: RunView) -> Facts:
    """All that the files of a run tell; raises where it has not begun."""
    if view.started is None:
        raise UsageError(f"{view.folder} holds no training run that has begun; there is nothing to report.")
    database = Database.reading(view.folder / DATABASE)
    try:
        account = account_of(database.entries())
    finally:
        database.shut()
    files = {name: _json_object(view.folder / f"{name}.json") for name in ("config", "summary")}
    return fold(
        view.events,
        view.skills,
        config=files["config"],
        summary=files["summary"],
        account=account,
        status=view.status,
        looks_by_eval=len(read_looks(view.folder)),
    )


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
