"""Proof before the gate: every edit is tried on the failures it should fix, what fixes something is bundled,
and what breaks something is taken out again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from skillopt.events import Reflected
from skillopt.events.state import MemoryEntry, State
from skillopt.events.step import Step
from skillopt.optimizer.proposers.port import DeadEdit
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.update import Update, by_edits
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.train.strategies._choice import Choice, cover, edits_of, join
from skillopt.train.strategies._lanes import Lane, LaneSearch, without_copies
from skillopt.train.strategies.port import (
    JudgedCandidate,
    StepFindings,
    Strategy,
    StrategyContext,
    edits_for_memory,
)
from skillopt.train.trials import (
    Trials,
    blame,
    blamed_event,
    broken_in,
    edits_to_drop,
    is_broken,
    noise_in,
    rows_fixed_without,
)

SMALLEST_PAIRED = 15
"""Val tasks below which no test of chance has the power to accept anything but miracles."""
NOTHING, HARMFUL = "did nothing", "harmful"


class Proof(Strategy):
    """Lanes of failures, edits proven on them, a cover of what was fixed, the gate, blame and pruning."""

    hands_over = True

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._gate = context.gate
        self._optimizer = context.optimizer
        self._settings = context.config.train.proof

    async def stages(self, findings: StepFindings) -> AsyncGenerator[str, None]:
        step, settings = findings.step, self._settings
        # 2 reflect: failures in lanes, while rollouts come in; every edit is tried as soon as it is proposed
        search = self._search(findings)
        findings.unfinished = lambda: self._unfinished(search, _covering(search.done))
        await self._study(findings, search)
        findings.memories = self._useless(step, search)
        findings.settled = solved = _solved(search.rollouts)
        yield "reflect"
        # 3 aggregate: one list of proven edits, each rule once
        joined = await join(search, self._gate, self._optimizer.joiner)
        yield "aggregate"
        # 4 select: as few proven edits as fix all that was fixed, without those that break tasks which passed
        choice = Choice(search, gate=self._gate, control=settings.control, blame_rows=settings.blame_rows)
        findings.unfinished = lambda: self._unfinished(search, choice.held or _covering(search.lanes))
        findings.selection = await choice.select(joined)
        yield "select"
        # 5 update: the bundle of everything selected
        update = by_edits(step.skill, findings.selection.patch)
        yield "update"
        # 6 gate: the bundle; without the edits that broke val rows; without weak ones that stand in the way
        guilty = await self._judge(findings, search, update)
        if harmful := [*choice.harmful.values(), *guilty]:
            why = "it broke tasks that worked without it"
            edits = edits_for_memory(harmful, self._context.hide)
            entry = MemoryEntry(step=step.place.step, action=HARMFUL, why=why, edits=edits)
            findings.memories = (*findings.memories, entry)
        if findings.taken.is_accepted:
            fixed = [
                task for edit in findings.taken.update.applied for task in edit.evidence.get("fixed", ())
            ]
            findings.settled = (*solved, *fixed, *sorted(search.shared))
        yield "evaluate"

    def enough(self, state: State) -> str:
        """A further pass is worth it while enough tasks are open and the last one brought something."""
        plan = self._context.plan
        if state.step < plan.steps_per_epoch:
            return ""
        left = len(plan.train) - len(set(state.settled))
        least = min(self._settings.remaining, math.ceil(len(plan.train) / 4))
        if left < least:
            are = "task is" if left == 1 else "tasks are"
            return f"{left} train {are} neither solved nor fixed by an accepted edit, fewer than {least}"
        # A step that was lost to unreadable replies says nothing about what helps.
        if state.step - state.best_step >= plan.steps_per_epoch and state.reopen is None:
            return "the last pass over the train tasks brought nothing better than the best skill"
        return ""

    def _search(self, findings: StepFindings) -> LaneSearch:
        step = findings.step
        return LaneSearch(
            step,
            findings.rollouts.rows,
            analyst=self._optimizer.lanes(findings.rollouts),
            trials=Trials(self._gate, step, "proof"),
            guard=self._context.guard,
            confirms=self._settings.confirm,
            most_rows=self._settings.rows,
            depth=self._settings.depth,
            kinds=self._held_out_failures(step),
            earlier=[DeadEdit(edit=edit) for edit in _remembered(step, NOTHING)],
            harmful=_remembered(step, HARMFUL),
            divide=self._optimizer.lanes_of,
            expect=self._context.expect,
        )

    def _held_out_failures(self, step: Step) -> Counter[str]:
        """How many val tasks of each kind fail now: their kinds, and nothing else of them."""
        if not self._gate.is_on:  # then the current skill may never have been measured in full
            return Counter()
        values = self._gate.remembered(step.skill.rendered).values
        failed = {
            task: self._gate.rows[task, draw].task.kind for (task, draw), worth in values.items() if worth < 1
        }
        return Counter(kind for kind in failed.values() if kind)

    async def _study(self, findings: StepFindings, search: LaneSearch) -> None:
        """Study and try until all lanes are in, and tell the log what came of it."""
        step, rollouts = findings.step, findings.rollouts
        walk = self._optimizer.in_lanes(step, rollouts, search.study)
        found: list[Any] = await together(rollouts.close(), walk)
        await search.deepen(*found)
        looks = tuple(lane.look.model_copy(update={"index": at}) for at, lane in enumerate(search.lanes))
        findings.reflection = Reflection(rollouts=search.rollouts, minibatches=looks)
        tried = search.tried
        if tried:
            search.trials.close()
        step.emit(Reflected(id=str(step.place.at("reflect")), place=step.place, patches=looks))
        again = [row for trial in tried if not trial.edits for row in trial.rows]
        search.noise = noise_in(self._gate.worths(search.rollouts), self._gate.worths(again))
        search.report("proof", tried)

    def _useless(self, step: Step, search: LaneSearch) -> tuple[MemoryEntry, ...]:
        """Single edits that fixed nothing, with their tasks."""
        dead = [dead_edit.edit for lane in search.lanes for dead_edit in lane.dead]
        edits = tuple(
            replace(shown, evidence={"tasks": list(edit.evidence.get("tasks") or ())})
            for shown, edit in zip(edits_for_memory(dead, self._context.hide), dead, strict=True)
        )
        why = "tried alone on failed tasks, and fixed none"
        return (MemoryEntry(step=step.place.step, action=NOTHING, why=why, edits=edits),) if edits else ()

    def _unfinished(self, search: LaneSearch, edits: Sequence[Edit]) -> tuple[Update, str] | None:
        """A cover of what the lanes that are in have proven; what the last control left in; what the gate
        accepted.
        """
        if not edits:
            return None
        update = by_edits(search.step.skill, edits)
        return update, self._policy(search, update)

    async def _judge(self, findings: StepFindings, search: LaneSearch, update: Update) -> list[Edit]:
        """Put the bundle to the gate, and what is left without edits that stand in its way; those of the
        bundle that broke val rows.
        """
        step, policy = findings.step, self._policy(search, update)
        bundle = await self._context.attempt(findings, update, policy=policy)
        findings.unfinished = lambda: self._unfinished(
            search, findings.taken.update.applied if findings.taken.is_accepted else ()
        )
        if not self._gate.is_on or bundle.verdict.action not in ("accept", "reject"):
            return []
        guilty = await step.timed("blame", self._guilty(step, search, bundle))
        await self._without(findings, bundle, guilty, policy)
        best = findings.taken
        if best.is_accepted and self._settings.prune:
            loose = await step.timed("prune", self._loose(step, best, search.noise))
            await self._without(findings, best, loose, policy)
        return [edit for edit in update.applied if edit.id in guilty]

    def _policy(self, search: LaneSearch, update: Update) -> str:
        """Strictly better is enough where the target answers the same again, or where the edits fixed most of
        what failed, which luck does not; else more than an accident is asked for, if val is large enough to
        tell. A policy that the user chose stays.
        """
        failed = {task for lane in search.done for task in lane.studied}
        fixed = {task for edit in update.applied for task in edit.evidence["fixed"]}
        tasks = {task for task, _ in self._gate.rows}
        doubts = search.noise > 0 and 2 * len(fixed) < len(failed) and len(tasks) >= SMALLEST_PAIRED
        return "paired" if doubts and self._gate.policy == "strict" else self._gate.policy

    async def _without(
        self, findings: StepFindings, whole: JudgedCandidate, out: Sequence[str], policy: str
    ) -> None:
        """Judge what is left without some edits: over the whole where that was accepted."""
        rest = [edit for edit in whole.update.applied if edit.id not in set(out)]
        if out and rest:
            over = whole if whole.is_accepted else None
            left = by_edits(findings.step.skill, rest)
            await self._context.attempt(findings, left, over=over, policy="strict" if over else policy)

    async def _guilty(self, step: Step, search: LaneSearch, bundle: JudgedCandidate) -> list[str]:
        """The edits that break more val rows than they should fix, where enough that worked are broken."""
        before = self._gate.remembered(step.skill.rendered).values
        all_broken = broken_in(before, self._gate.worths(bundle.verdict.rows))
        broken = all_broken[: self._settings.blame_rows]
        edits = bundle.update.applied
        if len(broken) < self._settings.blame_from or len(edits) < 2:
            return []
        trials = Trials(self._gate, step, "blame")
        rows = {row: self._gate.rows[row] for row in broken}
        found = await blame(trials, edits, rows, before, noise=search.noise)
        trials.close()
        share = len(before) / max(1, len(search.rollouts))
        guilty = edits_to_drop(
            found, {edit.id: share * edit.evidence["support_count"] for edit in edits}, all_broken
        )
        step.emit(blamed_event(step.place, "blame", found.trials, guilty))
        return guilty

    async def _loose(self, step: Step, best: JudgedCandidate, noise: float) -> list[str]:
        """Weakly proven edits without which a val row that is wrong now comes right."""
        edits = best.update.applied
        weak = [edit for edit in edits if edit.evidence.get("support_count") == 1]
        assert best.verdict.candidate is not None, "an accepted candidate was measured in full"
        now, before = best.verdict.candidate.values, self._gate.remembered(step.skill.rendered).values
        wrong = sorted(
            (row for row, worth in now.items() if worth < 1),
            key=lambda row: (not is_broken(before[row], now[row]), row),
        )[: self._settings.blame_rows]
        if not weak or not wrong or len(edits) < 2:
            return []
        trials = Trials(self._gate, step, "blame")
        rows = {row: self._gate.rows[row] for row in wrong}
        freed_rows = await rows_fixed_without(trials, edits, weak, rows, now, noise=noise)
        trials.close()
        loose = sorted(freed_rows.guilty)
        step.emit(blamed_event(step.place, "prune", freed_rows.trials, loose))
        return loose


PLUGIN = Proof


def _covering(lanes: Sequence[Lane]) -> tuple[Edit, ...]:
    """As few edits as fix what these lanes fix."""
    proven = without_copies([one for lane in lanes for one in lane.proven])
    return edits_of(cover(proven))


def _solved(rollouts: Sequence[Rollout]) -> tuple[str, ...]:
    """The tasks of which no rollout failed or was lost."""
    failed = {row.task_id for row in rollouts if not (isinstance(row, Scored) and row.score.passed)}
    return tuple(dict.fromkeys(row.task_id for row in rollouts if row.task_id not in failed))


def _remembered(step: Step, action: str) -> list[Edit]:
    """The single edits that earlier steps ended so with."""
    return [edit for entry in step.memory if entry.action == action for edit in entry.edits]
