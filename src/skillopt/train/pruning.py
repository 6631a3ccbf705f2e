"""Leaves out learned lines that nothing depends on any more, and says what each of the others is worth.

A line stays if a task needs it: one of val, or of train where val does not. Test tasks take no part. Every
measurement is an ordinary rollout of the skill without some lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from skillopt.evaluation.runner import PlannedRow, rows_of
from skillopt.evaluation.stage import Evaluation, logged_row
from skillopt.events import LineWorth, Pruned, Row
from skillopt.events.state import State
from skillopt.events.step import Step
from skillopt.gate.decision import RowId
from skillopt.gate.gate import Gate
from skillopt.process.waiting import together
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, apply
from skillopt.skill.rewrite import split
from skillopt.skill.store import SkillStore
from skillopt.tasks.rollout import Rollout
from skillopt.tasks.task import Task

STAGE = "prune"
ORIGIN = "pruned"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedSkill:
    """A skill without its idle lines, and what each learned line is worth."""

    document: Document
    before: float
    """The score on val with all lines."""
    score: float
    """The score on val without those that were left out; never lower."""
    rows: list[Row]
    """The val rows of that score."""
    lines: list[LineWorth]
    """Those that stay, then those that were left out."""


class _Line(NamedTuple):
    """A learned line: the edit that takes it out, and what it is worth."""

    edit: Edit
    worth: LineWorth


class Pruner:
    """Tries a skill without its learned lines, one by one and then together."""

    def __init__(self, gate: Gate, train: Sequence[Task]) -> None:
        self._gate = gate
        self._train = rows_of(train)

    async def onto(self, state: State, step: Step, skills: SkillStore) -> State:
        """The state with its best skill pruned, which is the skill of the step."""
        if state.finished or state.best == state.seed or state.best_origin == ORIGIN:
            return state
        pruned = await self.prune(step, skills.get(state.seed))
        digest, score = skills.keep(pruned.document), pruned.score
        id = str(step.place.at("ended"))
        event = Pruned(
            id=id, place=step.place, skill=digest, score=score, rows=pruned.rows, lines=pruned.lines
        )
        step.emit(event)
        if digest == state.best:
            return state
        current = {"skill": digest, "score": score, "origin": ORIGIN} if state.skill == state.best else {}
        return state.replace(best=digest, best_score=score, best_origin=ORIGIN, **current)

    async def prune(self, step: Step, seed: Document) -> PrunedSkill:
        """The skill of the step without the lines that no val row and no train task needs.

        Harmful lines go first, and the others are tried again without them: where a harmful line breaks a
        task, the line that the task needs looks idle.
        """
        before = await self._worths(step, (), self._val)
        gone: list[LineWorth] = []
        while True:
            lines = await self._tried(step, seed)
            harmful = [line for line in lines if line.worth.val < 0 and not line.worth.needed]
            idle = harmful or [line for line in lines if not line.worth.needed]
            out = await self._together(step, idle, [])
            gone += [line.worth.model_copy(update={"removed": True}) for line in out]
            step = replace(step, skill=apply([line.edit for line in out], step.skill).document)
            if not (out and harmful):
                break
        stay = [line.worth for line in lines if line not in out]
        after = await self._outcomes(step, (), self._val)
        return PrunedSkill(
            document=step.skill,
            before=_mean(before),
            score=_mean(self._gate.worths(after)),
            rows=[logged_row(row) for row in after],
            lines=[*stay, *gone],
        )

    async def _tried(self, step: Step, seed: Document) -> list[_Line]:
        """What each learned line is worth, alone."""

        async def tried(edit: Edit) -> _Line:
            lost, needed = await self._need(step, [edit])
            tasks = list(dict.fromkeys(task for task, _ in needed))
            text = edit.target.strip()
            return _Line(edit, LineWorth(text=text, val=float(lost), needed=tasks, removed=False))

        # A deletion takes out what the skill has and the seed has not: a list item or paragraph each.
        edits, _ = split(step.skill, seed.text)
        return await together(*(tried(edit) for edit in edits if edit.op == "delete"))

    async def _together(self, step: Step, lines: Sequence[_Line], out: Sequence[_Line]) -> list[_Line]:
        """Which of these lines can be left out beside those that are: all, or of halves as many as can be."""
        if not lines:
            return []
        lost, needed = await self._need(step, [line.edit for line in (*out, *lines)])
        if lost <= 0 and not needed:
            return list(lines)
        half = len(lines) // 2
        first = await self._together(step, lines[:half], out)
        return [*first, *await self._together(step, lines[half:], [*out, *first])] if half else []

    async def _need(self, step: Step, out: Sequence[Edit]) -> tuple[Fraction, list[RowId]]:
        """What val loses a row without these lines, and who needs them: rows of train where none of val."""
        before, after = await together(*(self._worths(step, left_out, self._val) for left_out in ((), out)))
        lost = [worth - after.get(row, Fraction(0)) for row, worth in before.items()]
        needed = await self._needing(step, out, self._val) or await self._needing(step, out, self._train)
        return sum(lost, Fraction(0)) / max(1, len(lost)), needed

    async def _needing(self, step: Step, out: Sequence[Edit], rows: Sequence[PlannedRow]) -> list[RowId]:
        """The rows that are worse without these lines, also when drawn again: worse only once is luck."""
        worse = await self._worse(step, out, rows)
        draws = 1 + max((row.draw for row in self._val), default=0)
        again = [replace(row, draw=row.draw + draws) for row in worse]
        return [(row.task.id, row.draw) for row in await self._worse(step, out, again)]

    async def _worse(self, step: Step, out: Sequence[Edit], rows: Sequence[PlannedRow]) -> list[PlannedRow]:
        with_lines, without = await together(*(self._worths(step, left_out, rows) for left_out in ((), out)))
        ids = [(row, (row.task.id, row.draw)) for row in rows]
        return [row for row, id in ids if without.get(id, Fraction(0)) < with_lines.get(id, Fraction(0))]

    @property
    def _val(self) -> list[PlannedRow]:
        return list(self._gate.rows.values())

    async def _worths(
        self, step: Step, out: Sequence[Edit], rows: Sequence[PlannedRow]
    ) -> Mapping[RowId, Fraction]:
        return self._gate.worths(await self._outcomes(step, out, rows))

    async def _outcomes(
        self, step: Step, out: Sequence[Edit], rows: Sequence[PlannedRow]
    ) -> Sequence[Rollout]:
        if not rows:
            return ()
        skill = apply(out, step.skill).document.rendered
        stage = Evaluation(self._gate.evaluator, step, skill, rows, stage=STAGE, tells_rows=False)
        return await stage.close()


def _mean(worths: Mapping[RowId, Fraction]) -> float:
    return float(sum(worths.values(), Fraction(0)) / max(1, len(worths)))
