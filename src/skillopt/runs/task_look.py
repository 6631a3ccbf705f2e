"""One task of a run with two of its skills: what was asked and expected, and what the target did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.errors import UsageError
from skillopt.runs.answers import StoredTask, stored_tasks
from skillopt.runs.matrix import MARKS, Shown, trajectories
from skillopt.runs.provenance import skill_versions
from skillopt.runs.values import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLook:
    """A task with one version of the skill."""

    name: str
    short: str
    mark: str
    note: str
    tokens: int | None
    seconds: float | None
    rollouts: Sequence[Shown]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLook:
    """A val task with the seed and with another version. `question` is None where the run keeps no tasks."""

    task: str
    kind: str
    question: str | None
    expected: Any
    sides: Sequence[VersionLook]


def look_at_all(folder: Path, facts: Facts) -> Iterator[TaskLook]:
    """Every val task with seed and best skill, those that differ first; nothing without a version."""
    versions = {one.short: one for one in facts.versions}
    best = next((one.short for one in reversed(skill_versions(facts)) if one.is_best), "seed")
    if "seed" not in versions:
        return
    before, after = versions["seed"].cells, versions[best].cells
    stored = {one.id: one for one in stored_tasks(folder)}

    def is_same(task: str) -> bool:
        return task in before and task in after and before[task].mark == after[task].mark

    for task in sorted(facts.tasks, key=is_same):
        yield look_at(folder, facts, task, best, stored.get(task))


def look_at(
    folder: Path, facts: Facts, task: str, version: str, stored: StoredTask | None = None
) -> TaskLook:
    """Read a task with the seed and with a version. What the caller names is looked up, never used as a path;
    only val tasks are known here, so nothing of the sealed test can be asked for. `stored` saves looking for
    the task in the run's file.
    """
    if task not in facts.tasks:
        raise UsageError(f"There is no val task {task[:60]!r} in this run.")
    found = [one for one in facts.versions if one.short in ("seed", version)]
    if version not in {one.short for one in found}:
        raise UsageError(f"There is no version {version[:40]!r} in this run.")
    stored = stored or next((one for one in stored_tasks(folder) if one.id == task), None)
    sides = []
    for one in found:
        cell = one.cells.get(task)
        sides.append(
            VersionLook(
                name=one.name,
                short=one.short,
                mark=MARKS[0] if cell is None else cell.mark,
                note="" if cell is None else cell.note,
                tokens=None if cell is None else cell.tokens,
                seconds=None if cell is None else cell.seconds,
                rollouts=trajectories(folder, facts, one.short, task),
            )
        )
    return TaskLook(
        task=task,
        kind="" if stored is None else stored.kind,
        question=None if stored is None else stored.question,
        expected=None if stored is None else stored.expected,
        sides=sides,
    )
