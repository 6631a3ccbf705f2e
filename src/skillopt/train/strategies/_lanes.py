"""A lane of `proof`: some failures, the edits an analyst proposes for them, and what each does when tried."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from skillopt.aio import together
from skillopt.evaluation.leaks import LeakGuard, why
from skillopt.evaluation.runner import Row
from skillopt.gate.decision import RowId
from skillopt.optimizer.minibatches import Studied
from skillopt.optimizer.proof import DeadEdit, LaneAnalyst
from skillopt.optimizer.reflect import Minibatch
from skillopt.optimizer.small import SmallLaneAnalyst
from skillopt.skill.edits import Edit, Outcome, apply
from skillopt.step import Step
from skillopt.tasks.rollout import Scored
from skillopt.train.strategies._cover import Proven, kept_lines, lines_of, wording
from skillopt.train.strategies._trials import EditTrial, Trials, Worths, fixed_in

AGAIN = 1
"""The draw that repeats a trial under noise."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """What became of some failures: the looks of its analyst, every trial in planned order, the edits that
    fixed tasks, and where the others ended.
    """

    looks: list[Minibatch] = field(default_factory=list)
    trials: list[EditTrial] = field(default_factory=list)
    proven: list[Proven] = field(default_factory=list)
    ended: list[Outcome] = field(default_factory=list)
    dead: list[DeadEdit] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    """One of each failed task."""
    before: dict[RowId, Fraction] = field(default_factory=dict)
    """What they are worth without any edit."""


class LaneSearch:
    """Studies and tries, lane by lane, side by side."""

    def __init__(
        self,
        step: Step,
        *,
        analyst: LaneAnalyst | SmallLaneAnalyst,
        trials: Trials,
        guard: LeakGuard | None,
        noisy: asyncio.Future[bool],
        most_rows: int,
        depth: int,
        kinds: Mapping[str, int],
        earlier: Sequence[DeadEdit],
        harmful: Sequence[Edit],
    ) -> None:
        """`noisy` is known once the rollouts show it. `kinds` counts held-out failures by the kind of their
        task; `earlier` edits fixed nothing in steps before, `harmful` ones broke tasks that worked.
        """
        self._step = step
        self._analyst = analyst
        self._trials = trials
        self._guard = guard
        self._noisy = noisy
        self._most_rows = most_rows
        self._depth = depth
        self._kinds = kinds
        self._earlier = earlier
        self._harmful = harmful
        self._lines = lines_of(step.skill.text)

    async def study(self, index: int, chunk: list[Studied]) -> Lane:
        """All looks at the failures of a lane."""
        lane = Lane(
            rows={one.task.id: Row(task=one.task) for one in chunk},
            before={(one.task.id, 0): self._trials.worth(one.tries[-1]) for one in chunk},
        )
        left = chunk
        shown = {one.task.id for one in chunk}
        lane.dead += [one for one in self._earlier if shown & set(one.edit.evidence.get("tasks", ()))]
        earlier = len(lane.dead)
        for look in range(self._depth):
            if not left or (look and not self._is_worth_a_look(lane, len(lane.dead) > earlier)):
                break
            item = str(index) if not look else f"{index}-{look + 1}"
            found = await self._analyst.study(
                self._step, item, left, dead=lane.dead, harmful=self._harmful, kinds=self._kinds
            )
            lane.looks.append(found)
            await self._try(lane, found, left)
            fixed = {task for one in lane.proven for task in one.fixed}
            left = [one for one in left if one.task.id not in fixed]
        return lane

    def _is_worth_a_look(self, lane: Lane, learned: bool) -> bool:
        """Whether another look could find more. Without a new failure to learn from, the same question would
        get the same answer; one that varies is asked until an edit fixes all tasks that it is tried on.
        """
        if not self._analyst.varies:
            return learned
        fixed = {one.edits: set(one.fixed) for one in lane.proven}
        return not any(
            {row.task_id for row in trial.rows} <= fixed.get(trial.edits, set()) for trial in lane.trials
        )

    async def _try(self, lane: Lane, found: Minibatch, left: Sequence[Studied]) -> None:
        """Each edit alone on tasks that it names; those that fixed none together, then by halves."""
        edits = self._usable(lane, [edit for edit in found.edits if isinstance(edit, Edit)])
        rows = {one.task.id: lane.rows[one.task.id] for one in left}
        alone = await together(*(self._alone(lane, edit, rows) for edit in edits))
        covered: set[str] = set()
        loose: list[Edit] = []
        answers: dict[str, list[EditTrial]] = {}
        for edit, (trials, fixed) in zip(edits, alone, strict=True):
            lane.trials += trials
            answers[edit.id] = trials
            if fixed:
                lane.proven.append(Proven(edits=(edit,), fixed=tuple(fixed)))
                covered.update(fixed)
            else:
                loose.append(edit)
        rest = [row for task, row in rows.items() if task not in covered]
        groups = await self._together(lane, tuple(loose), rest) if loose and rest else []
        lane.proven += groups
        saved = {edit.id for one in groups for edit in one.edits}
        tasks = {one.task.id: one.task for one in left}
        for edit in loose:
            if edit.id not in saved:
                shown = [row for trial in answers[edit.id] for row in trial.rows if isinstance(row, Scored)]
                lane.dead.append(
                    DeadEdit(edit=edit, answers=tuple((tasks[row.task_id], row) for row in shown))
                )
                told = "tried on failed train tasks, and fixed none"
                lane.ended.append(Outcome(edit=edit, state="unproven", reason=told))

    def _usable(self, lane: Lane, proposed: Sequence[Edit]) -> list[Edit]:
        """The edits that can be tried: readable, applicable, new, without a quotation."""
        tried = {wording(one.edit) for one in lane.dead} | {
            wording(edit) for one in lane.proven for edit in one.edits
        }
        usable: list[Edit] = []
        for edit in map(self._adapted, proposed):
            outcome = apply([edit], self._step.skill).outcomes[0]
            if outcome.state == "applied" and wording(edit) in tried:
                outcome = Outcome(
                    edit=edit, state="duplicate", reason="the same was tried in this lane before"
                )
            elif outcome.state == "applied" and self._guard is not None:
                leaks = self._guard.find(apply([edit], self._step.skill).document.rendered)
                if leaks:
                    outcome = Outcome(edit=edit, state="invalid", reason=why(leaks))
            if outcome.state == "applied":
                usable.append(edit)
                tried.add(wording(edit))
            else:
                lane.ended.append(outcome)
        return usable

    def _adapted(self, edit: Edit) -> Edit:
        """An edit without the lines that the skill has; an insertion whose place is misquoted goes to the
        end, where a trial shows what it is worth.
        """
        if edit.problem or edit.op not in ("append", "insert_after"):
            return edit
        edit = replace(edit, content=kept_lines(edit.content, self._lines))
        if edit.op == "insert_after" and apply([edit], self._step.skill).outcomes[0].state == "unmatched":
            return replace(edit, op="append", target="")
        return edit

    async def _alone(
        self, lane: Lane, edit: Edit, rows: Mapping[str, Row]
    ) -> tuple[list[EditTrial], list[str]]:
        """An edit on the first tasks that it names, as far as they still fail."""
        named = edit.evidence.get("tasks")
        wanted = [str(task) for task in named] if isinstance(named, list) else []
        chosen = [rows[task] for task in dict.fromkeys(wanted) if task in rows][: self._most_rows]
        return await self._fixes(lane.before, (edit,), chosen) if chosen else ([], [])

    async def _fixes(
        self, before: Worths, edits: tuple[Edit, ...], rows: Sequence[Row]
    ) -> tuple[list[EditTrial], list[str]]:
        """The trials of edits on rows that fail, and the tasks they fix.

        Under noise a task counts as fixed only if the edits fix it in a second draw, and if it fails in a
        second draw without them.
        """
        trial = await self._trials.run(edits, rows)
        fixed = [task for task, _ in fixed_in(before, self._trials.worths(trial))]
        if not fixed or not await asyncio.shield(self._noisy):
            return [trial], fixed
        again = [replace(row, draw=AGAIN) for row in rows if row.task.id in set(fixed)]
        repeated, control = await self._trials.each([edits, ()], again)
        failed = {(task, AGAIN): before[task, 0] for task in fixed}
        held = {task for task, _ in fixed_in(failed, self._trials.worths(repeated))}
        flukes = {task for task, _ in fixed_in(failed, self._trials.worths(control))}
        return [trial, repeated, control], [task for task in fixed if task in held - flukes]

    async def _together(self, lane: Lane, edits: tuple[Edit, ...], rows: Sequence[Row]) -> list[Proven]:
        """Find the edits that fix some of these rows by halving, as few trials as that takes."""
        trials, fixed = await self._fixes(lane.before, edits, rows)
        lane.trials += trials
        if not fixed:
            return []
        if len(edits) == 1:
            return [Proven(edits=edits, fixed=tuple(fixed))]
        rows = [row for row in rows if row.task.id in set(fixed)]
        half = (len(edits) + 1) // 2
        parts = (edits[:half], edits[half:])
        lanes = [Lane(before=lane.before), Lane(before=lane.before)]
        found = await together(
            *(self._together(part_lane, part, rows) for part_lane, part in zip(lanes, parts, strict=True))
        )
        for part_lane in lanes:
            lane.trials += part_lane.trials
        proven = [one for part in found for one in part]
        covered = {task for one in proven for task in one.fixed}
        only = [row for row in rows if row.task.id not in covered]
        return proven + (await self._least(lane, edits, only) if only else [])

    async def _least(self, lane: Lane, edits: tuple[Edit, ...], rows: Sequence[Row]) -> list[Proven]:
        """Edits that fix rows only together: each is left out in turn, for good where it is not missed."""
        rows = rows[: self._most_rows]
        for edit in edits:
            rest = tuple(one for one in edits if one.id != edit.id)
            if not rest:
                break
            trials, fixed = await self._fixes(lane.before, rest, rows)
            lane.trials += trials
            if len(fixed) == len(rows):
                edits = rest
        return [Proven(edits=edits, fixed=tuple(row.task.id for row in rows))]
