"""How a skill grew: every moment of a run, every line with its life, and every val task at each moment."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.runs.matrix import MARKS
from skillopt.runs.provenance import Edited, edited, moved
from skillopt.runs.values import Facts, SkillChange, Version, fields_of

MOST = 250
"""Moments of a long run that are shown; every change that was taken is among them."""
SEED = "the seed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(SkillChange):
    """A run after one change of its skill, taken or not; the first moment is the seed."""

    is_taken: bool = True
    fixed: Sequence[str] = ()
    """Val tasks that went better than with the skill before."""
    broke: Sequence[str] = ()

    @property
    def reached(self) -> float | None:
        """The candidate's val score, or the most that it could still have reached."""
        return self.bound if self.candidate is None else self.candidate


@dataclass(slots=True, kw_only=True)
class GrownLine:
    """A line of the skill: alive from moment `first` up to, not including, `gone`."""

    text: str
    first: int
    gone: int | None = None
    edit: Edited | None = None
    """The edit that wrote it, where one did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A run as something to scrub through."""

    moments: Sequence[Moment]
    lines: Sequence[GrownLine]
    """Every line that ever was in the skill, in reading order."""
    marks: Mapping[str, Sequence[tuple[int, str]]]
    """By task: from which moment on it had which mark. At a candidate that was not taken the rows that were
    measured are the candidate's.
    """
    passing: Sequence[int]
    """How many of all tasks pass, by moment."""
    best: int
    """The moment from which on the best skill stood."""

    def mark(self, task: str, at: int) -> str:
        """How a task stood at a moment."""
        return next((mark for first, mark in reversed(self.marks.get(task, ())) if first <= at), MARKS[0])

    def most_changed(self, tasks: Sequence[str], most: int) -> Sequence[str]:
        """The tasks in their order; of more than `most` those that changed most often."""
        if len(tasks) <= most:
            return tasks
        return sorted(tasks, key=lambda task: -len(self.marks.get(task, ())))[:most]


def growth(facts: Facts, most: int = MOST) -> Growth:
    """Everything that can be scrubbed through, as far as the run was decided."""
    versions = {version.short: version for version in facts.versions}
    changes = _shown(facts.changes, most)
    current = versions.get("seed")
    where: dict[str, Any] = {"at": 0.0, "step": 0, "epoch": 0}
    moments = [Moment(short="seed", name=SEED, action="baseline", why="", score=facts.baseline, **where)]
    lines = [GrownLine(text=line, first=0) for line in _lines_of(facts.seed_skill)]
    marks = {} if current is None else {task: [(0, cell.mark)] for task, cell in current.cells.items()}
    standing = {task: found[0][1] for task, found in marks.items()}
    differs: list[str] = []
    passing = [sum(mark == "pass" for mark in standing.values())]
    best = None if facts.best_skill != facts.seed_skill else 0
    for k, change in enumerate(changes, 1):
        version, is_taken = versions.get(change.short), bool(change.diff)
        fixed, broke = moved(current, version) if version is not None else ([], [])
        moments.append(Moment(**fields_of(change), is_taken=is_taken, fixed=fixed, broke=broke))
        seen = {} if version is None else {task: cell.mark for task, cell in version.cells.items()}
        passing.append(passing[-1])
        for task in {*differs, *seen}:
            mark = seen.get(task, standing.get(task))
            found = marks.setdefault(task, [])
            before = found[-1][1] if found else None
            if mark is not None and before != mark:
                found.append((k, mark))
                passing[-1] += (mark == "pass") - (before == "pass")
        differs = [] if is_taken else [task for task, mark in seen.items() if mark != standing.get(task)]
        if is_taken and version is not None:
            standing |= seen
            current = version
            if version.text:
                lines = _grown(lines, version, change, k)
            if best is None and version.text == facts.best_skill:
                best = k
    return Growth(moments=moments, lines=lines, marks=marks, passing=passing, best=best or 0)


def _shown(changes: Sequence[SkillChange], most: int) -> list[SkillChange]:
    """All changes, or of a long run those that were taken and every so many-th of the others."""
    every = max(1, -(-len(changes) // most))
    last = len(changes) - 1
    return [one for at, one in enumerate(changes) if one.diff or at % every == 0 or at == last]


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _grown(lines: Sequence[GrownLine], version: Version, change: SkillChange, k: int) -> list[GrownLine]:
    """The lines with those of a version put in where they stand; lines that it lost stay as dead ones."""
    new = _lines_of(version.text)
    alive = [line.text for line in lines if line.gone is None]
    applied = [edit for edit in change.edits if edit.state == "applied"]
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
            behind = None if writer is None else edited(writer, change)
            found.append(GrownLine(text=text, first=k, edit=behind))
    return [*found, *rest]
