"""How val tasks went: by version, moment by moment as the skill grew, and one task with its rollouts."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from skillopt.errors import UsageError
from skillopt.events import Row
from skillopt.runs.answers import StoredTask, stored_tasks
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE
from skillopt.runs.versions import Mark, SkillVersion, moved
from skillopt.runs.view import RunView
from skillopt.skill.edits import Edit
from skillopt.tasks.rollout import Score, Trajectory

MARKS: tuple[Mark, ...] = get_args(Mark)
"""What a task's mark can be; the wall's squares hold positions in this list."""
MARK_SIGNS: Mapping[str, str] = dict(zip(MARKS, "·✓◐✗!", strict=True))
"""One sign each, so that nothing is shown by colour alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSide:
    """A task with one version of the skill; without rows it was not run with it."""

    version: SkillVersion
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


def compare_tasks(view: RunView) -> Iterator[ComparedTask]:
    """Every val task with seed and best skill, those that differ first; nothing without a version."""
    if not view.measured:
        return
    seed = view.versions[0]
    best = next((version for version in reversed(view.measured) if view.is_best(version)), seed)
    stored = {task.id: task for task in stored_tasks(view.folder)}

    def is_same(task: str) -> bool:
        return task in seed.marks and seed.marks[task] == best.marks.get(task)

    for task in sorted(view.tasks, key=is_same):
        yield compare_task(view, task, best.short, stored.get(task))


def compare_task(view: RunView, task: str, version: str, stored: StoredTask | None = None) -> ComparedTask:
    """Read a task with the seed and with a version. What the caller names is looked up, never used as a path;
    only val tasks are known here, so nothing of the sealed test can be asked for. `stored` saves looking for
    the task in the run's file.
    """
    if task not in view.tasks:
        raise UsageError(f"There is no val task {task[:60]!r} in this run.")
    versions = [one for one in view.measured if one.short in ("seed", version)]
    if version not in {one.short for one in versions}:
        raise UsageError(f"There is no version {version[:40]!r} in this run.")
    stored = stored or next((one for one in stored_tasks(view.folder) if one.id == task), None)
    with Database.reading(view.folder / DATABASE) as database:
        sides = [_side(database, one, one.rows.get(task, ())) for one in versions]
    return ComparedTask(id=task, stored=stored, sides=sides)


def _side(database: Database, version: SkillVersion, rows: Sequence[Row]) -> TaskSide:
    keys = [row.rollout for row in rows if row.rollout is not None]
    scores, rollouts = database.scores(keys), []
    for key in keys:
        if (done := database.finished(key)) is not None:
            given = scores.get((key, done[0]), [])
            rollouts.append((*done, given[-1] if given else None))
    return TaskSide(version=version, rows=rows, rollouts=rollouts)


MOST = 250
"""Moments of a long run that are shown; every change that was taken is among them."""


@dataclass(slots=True, kw_only=True)
class GrownLine:
    """A line of the skill: alive from moment `first` up to, not including, `gone`."""

    text: str
    first: int
    gone: int | None = None
    edit: Edit | None = None
    """The edit that wrote it, where one did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A run as something to scrub through: one moment after each version, the seed first."""

    moments: Sequence[SkillVersion]
    fixed: Sequence[Sequence[str]]
    """By moment: val tasks that went better than with the skill before."""
    broke: Sequence[Sequence[str]]
    lines: Sequence[GrownLine]
    """Every line that ever was in the skill, in reading order."""
    marks: Mapping[str, Sequence[tuple[int, Mark]]]
    """By task: from which moment on it had which mark. At a candidate that was not taken the rows that were
    measured are the candidate's.
    """
    counts: Sequence[str]
    """How many of all tasks pass, in words, by moment."""
    best: int
    """The moment from which on the best skill stood."""

    def mark(self, task: str, at: int) -> Mark:
        """How a task stood at a moment."""
        marks = reversed(self.marks.get(task, ()))
        return next((mark for first, mark in marks if first <= at), "not evaluated")

    def most_changed(self, tasks: Sequence[str], most: int) -> Sequence[str]:
        """The tasks in their order; of more than `most` those that changed most often."""
        if len(tasks) <= most:
            return tasks
        return sorted(tasks, key=lambda task: -len(self.marks.get(task, ())))[:most]


def growth(view: RunView, most: int = MOST) -> Growth:
    """Everything that can be scrubbed through, as far as the run was decided."""
    moments = [*view.versions[:1], *_shown(view.changes, most)]
    lines: list[GrownLine] = []
    marks: dict[str, list[tuple[int, Mark]]] = {}
    moves: list[tuple[list[str], list[str]]] = []
    counts: list[str] = []
    count: Counter[Mark] = Counter()
    current: Mapping[str, Mark] = {}
    """With the last version that was taken and measured."""
    standing: dict[str, Mark] = {}
    differs: list[str] = []
    best = None
    for k, version in enumerate(moments):
        seen = version.marks
        moves.append(moved(current, seen))
        for task in {*differs, *seen}:
            mark = seen.get(task, standing.get(task))
            found = marks.setdefault(task, [])
            before = found[-1][1] if found else None
            if mark is not None and before != mark:
                found.append((k, mark))
                count[mark] += 1
                if before is not None:
                    count[before] -= 1
        partly = f", {count['partial']:,} partly" if count["partial"] else ""
        counts.append(f"{count['pass']:,} of {len(view.tasks):,} pass{partly}")
        differs = (
            [] if version.is_taken else [task for task, mark in seen.items() if mark != standing.get(task)]
        )
        if version.is_taken and (version.rows or not k):
            standing |= seen
            current = seen
            if version.text:
                lines = _grown(lines, version, k)
            if best is None and version.text == view.best_skill:
                best = k
    fixed, broke = [better for better, _ in moves], [worse for _, worse in moves]
    return Growth(
        moments=moments, fixed=fixed, broke=broke, lines=lines, marks=marks, counts=counts, best=best or 0
    )


def _shown(changes: Sequence[SkillVersion], most: int) -> list[SkillVersion]:
    """All changes, or of a long run those that were taken and every so many-th of the others."""
    every = max(1, -(-len(changes) // most))
    last = len(changes) - 1
    return [one for at, one in enumerate(changes) if one.is_taken or at % every == 0 or at == last]


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _grown(lines: Sequence[GrownLine], version: SkillVersion, k: int) -> list[GrownLine]:
    """The lines with those of a version put in where they stand; lines that it lost stay as dead ones."""
    new = _lines_of(version.text)
    alive = [line.text for line in lines if line.gone is None]
    applied = [
        one.edit for one in version.outcomes if version.state_of(one) == "applied" and one.edit.op != "delete"
    ]
    writers = [(edit, {part.strip() for part in edit.content.split("\n")} - {""}) for edit in applied]
    found: list[GrownLine] = []
    rest = iter(lines)

    def passed(count: int, *, dies: bool) -> None:
        while count:
            line = next(rest)
            if line.gone is None:
                count -= 1
                line.gone = k if dies else None
            found.append(line)

    for kind, a0, a1, b0, b1 in difflib.SequenceMatcher(a=alive, b=new, autojunk=False).get_opcodes():
        passed(a1 - a0, dies=kind != "equal")
        for text in new[b0:b1] if kind != "equal" else ():
            writer = next((edit for edit, wrote in writers if text.strip() in wrote), None)
            found.append(GrownLine(text=text, first=k, edit=writer))
    return [*found, *rest]
