"""The table of tasks and versions, and the rollout behind one of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.errors import UsageError
from skillopt.messages import Message
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE
from skillopt.runs.values import Facts
from skillopt.tasks.rollout import Score, Trajectory

MARKS = ("not evaluated", "pass", "partial", "fail", "invalid")
"""What a cell can be; the matrix holds positions in this list."""
MARK_SIGNS = dict(zip(MARKS, "·✓◐✗!", strict=True))
"""One sign each, so that nothing is told by colour alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMatrix:
    """Val tasks in planned order, versions in order; `cells[version][task]` is a position in `MARKS`."""

    tasks: Sequence[str]
    versions: Sequence[str]
    names: Sequence[str]
    actions: Sequence[str]
    cells: Sequence[bytes]

    def counts(self, version: int) -> dict[str, int]:
        """How many tasks ended how with a version."""
        return {mark: self.cells[version].count(position) for position, mark in enumerate(MARKS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message of a conversation as text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One stored rollout: what the target did, and what it was worth."""

    draw: int
    attempt: int
    trajectory: Trajectory
    score: Score | None

    @property
    def turns(self) -> list[ShownMessage]:
        return [ShownMessage(role=one.role, text=_text(one)) for one in self.trajectory.messages]


def matrix(facts: Facts) -> TaskMatrix:
    """Every val task with every version that was measured."""
    codes = {mark: position for position, mark in enumerate(MARKS)}
    places = {task: place for place, task in enumerate(facts.tasks)}
    cells = []
    for version in facts.versions:
        column = bytearray(len(places))
        for task, cell in version.cells.items():
            column[places[task]] = codes[cell.mark]
        cells.append(bytes(column))
    return TaskMatrix(
        tasks=facts.tasks,
        versions=[version.short for version in facts.versions],
        names=[version.name for version in facts.versions],
        actions=[version.action for version in facts.versions],
        cells=cells,
    )


def trajectories(folder: Path, facts: Facts, version: str, task: str) -> list[Shown]:
    """The stored rollouts behind a cell, one a draw; empty where nothing was measured or stored.

    Only val tasks are in the table, so nothing of the sealed test can be asked for here.
    """
    found = next((one for one in facts.versions if one.short == version), None)
    if found is None:
        raise UsageError(f"There is no version {version[:40]!r} in this run.")
    cell = found.cells.get(task)
    if cell is None:
        return []
    with Database.reading(folder / DATABASE) as database:
        stored = [(key, database.finished(key)) for key, _ in cell.rollouts]
        scores = database.scores(key for key, _ in cell.rollouts)
    shown = []
    for draw, (key, done) in enumerate(stored):
        if done is not None:
            given = scores.get((key, done[0]), [])
            score = given[-1] if given else None
            shown.append(Shown(draw=draw, attempt=done[0], trajectory=done[1], score=score))
    return shown


def _text(message: Message) -> str:
    calls = [f"-> {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([*([message.content] if message.content else []), *calls])
