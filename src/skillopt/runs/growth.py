"""How a skill grew: every moment of a run, every line with its life, and every val task at each moment."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt.runs.values import Facts
from skillopt.runs.versions import Mark, SkillVersion, moved
from skillopt.skill.edits import Edit

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
    passing: Sequence[int]
    """How many of all tasks pass, by moment."""
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


def growth(facts: Facts, most: int = MOST) -> Growth:
    """Everything that can be scrubbed through, as far as the run was decided."""
    moments = [*facts.versions[:1], *_shown(facts.changes, most)]
    lines: list[GrownLine] = []
    marks: dict[str, list[tuple[int, Mark]]] = {}
    moves: list[tuple[list[str], list[str]]] = []
    passing: list[int] = []
    current: dict[str, Mark] = {}
    """With the last version that was taken and measured."""
    standing: dict[str, Mark] = {}
    differs: list[str] = []
    best = None
    for k, version in enumerate(moments):
        seen = facts.marks(version)
        moves.append(moved(current, seen))
        passing.append(passing[-1] if passing else 0)
        for task in {*differs, *seen}:
            mark = seen.get(task, standing.get(task))
            found = marks.setdefault(task, [])
            before = found[-1][1] if found else None
            if mark is not None and before != mark:
                found.append((k, mark))
                passing[-1] += (mark == "pass") - (before == "pass")
        differs = (
            [] if version.is_taken else [task for task, mark in seen.items() if mark != standing.get(task)]
        )
        if version.is_taken and (version.rows or not k):
            standing |= seen
            current = seen
            if version.text:
                lines = _grown(lines, version, k)
            if best is None and version.text == facts.best_skill:
                best = k
    fixed, broke = [better for better, _ in moves], [worse for _, worse in moves]
    return Growth(
        moments=moments, fixed=fixed, broke=broke, lines=lines, marks=marks, passing=passing, best=best or 0
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
