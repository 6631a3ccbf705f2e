"""Val tasks by version: the table of how each went, and one task with the rollouts behind its cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from skillopt.errors import UsageError
from skillopt.events import Row
from skillopt.runs.answers import StoredTask, stored_tasks
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE
from skillopt.runs.values import Facts
from skillopt.runs.versions import Mark, SkillVersion, mark_of, note_of
from skillopt.tasks.rollout import Score, Trajectory

MARKS: tuple[Mark, ...] = get_args(Mark)
"""What a cell can be; the matrix holds positions in this list."""
MARK_SIGNS: Mapping[str, str] = dict(zip(MARKS, "·✓◐✗!", strict=True))
"""One sign each, so that nothing is told by colour alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMatrix:
    """Val tasks in planned order, versions in order; `cells[version][task]` is a position in `MARKS`."""

    tasks: Sequence[str]
    versions: Sequence[SkillVersion]
    cells: Sequence[bytes]

    def counts(self, version: int) -> dict[str, int]:
        """How many tasks ended how with a version."""
        return {mark: self.cells[version].count(position) for position, mark in enumerate(MARKS)}


def matrix(facts: Facts) -> TaskMatrix:
    """Every val task with every version that was measured."""
    codes = {mark: position for position, mark in enumerate(MARKS)}
    places = {task: place for place, task in enumerate(facts.tasks)}
    cells = []
    for version in facts.measured:
        column = bytearray(len(places))
        for task, mark in facts.marks(version).items():
            column[places[task]] = codes[mark]
        cells.append(bytes(column))
    return TaskMatrix(tasks=facts.tasks, versions=facts.measured, cells=cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSide:
    """A task with one version of the skill; without rows it was not run with it."""

    version: SkillVersion
    mark: Mark
    note: str
    rows: Sequence[Row]
    rollouts: Sequence[tuple[int, Trajectory, Score | None]]
    """What is stored of its draws: the attempt that ended, what the target did, and what that was worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """A val task with the seed and with another version."""

    id: str
    stored: StoredTask | None
    """None where the run keeps no tasks."""
    sides: Sequence[TaskSide]


def compare_tasks(folder: Path, facts: Facts) -> Iterator[ComparedTask]:
    """Every val task with seed and best skill, those that differ first; nothing without a version."""
    if not facts.measured:
        return
    best = next((one for one in reversed(facts.measured) if facts.is_best(one)), facts.versions[0])
    before, after = facts.marks(facts.versions[0]), facts.marks(best)
    stored = {one.id: one for one in stored_tasks(folder)}

    def is_same(task: str) -> bool:
        return task in before and before[task] == after.get(task)

    for task in sorted(facts.tasks, key=is_same):
        yield compare_task(folder, facts, task, best.short, stored.get(task))


def compare_task(
    folder: Path, facts: Facts, task: str, version: str, stored: StoredTask | None = None
) -> ComparedTask:
    """Read a task with the seed and with a version. What the caller names is looked up, never used as a path;
    only val tasks are known here, so nothing of the sealed test can be asked for. `stored` saves looking for
    the task in the run's file.
    """
    if task not in facts.tasks:
        raise UsageError(f"There is no val task {task[:60]!r} in this run.")
    found = [one for one in facts.measured if one.short in ("seed", version)]
    if version not in {one.short for one in found}:
        raise UsageError(f"There is no version {version[:40]!r} in this run.")
    stored = stored or next((one for one in stored_tasks(folder) if one.id == task), None)
    with Database.reading(folder / DATABASE) as database:
        sides = [_side(database, facts, one, task) for one in found]
    return ComparedTask(id=task, stored=stored, sides=sides)


def _side(database: Database, facts: Facts, version: SkillVersion, task: str) -> TaskSide:
    rows = version.rows.get(task, ())
    if not rows:
        return TaskSide(version=version, mark="not evaluated", note="", rows=(), rollouts=())
    keys = [row.rollout for row in rows if row.rollout is not None]
    scores, rollouts = database.scores(keys), []
    for key in keys:
        if (done := database.finished(key)) is not None:
            given = scores.get((key, done[0]), [])
            rollouts.append((*done, given[-1] if given else None))
    return TaskSide(
        version=version,
        mark=mark_of(rows, facts.metric, facts.weight),
        note=note_of(rows, facts.metric, facts.weight),
        rows=rows,
        rollouts=rollouts,
    )
