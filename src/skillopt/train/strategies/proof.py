"""Proof before the gate: every edit is tried on the failures it should fix, what fixes something is bundled,
and what breaks something is taken out again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from skillopt.aio import together
from skillopt.evaluation.runner import Row
from skillopt.evaluation.stage import Evaluation
from skillopt.events import Blamed, Reflected, Selected
from skillopt.events.state import MemoryEntry, State
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.proof import DeadEdit
from skillopt.optimizer.reflect import Reflection, patch_fact
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update, by_edits
from skillopt.skill.edits import Edit, Outcome, Proposal
from skillopt.step import Step
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.train.strategies._blame import blame
from skillopt.train.strategies._cover import (
    Proven,
    cover,
    kept_lines,
    lines_of,
)
from skillopt.train.strategies._joining import Joined, Lanes, evident, head, join, proved
from skillopt.train.strategies._lanes import AGAIN, Lane, LaneSearch
from skillopt.train.strategies._trials import EditTrial, Trials, broken_in, fixed_in, is_broken
from skillopt.train.strategies.port import JudgedCandidate, Parts, essentials, taken

PROBED, DIFFERENT = 20, 2
"""Rows of a batch that are drawn twice to see whether the target answers the same again, and how many of them
must differ for it to be noisy.
"""
NOTHING, HARMFUL = "did nothing", "harmful"
ROUNDS = 3
"""How often a selection is controlled and mended before it goes to the gate as it is."""


class Proof:
    """Lanes of failures, edits proven on them, a cover of what was fixed, the gate, blame and pruning."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._gate = parts.gate
        self._optimizer = parts.optimizer
        said = parts.settings
        self._rows = int(said.get("rows", 3))
        self._depth = int(said.get("depth", 2))
        self._control = int(said.get("control", 40))
        self._blame_from = int(said.get("blame_from", 3))
        self._blame_rows = int(said.get("blame_rows", 12))
        self._prunes = bool(said.get("prune", True))
        self._noisy: bool | None = said.get("noisy")
        self._remaining = int(said.get("remaining", 16))
        self._tasks = {task.id: task for task in parts.plan.train}
        self._harmful: list[Edit] = []

    # 2 reflect

    async def reflect(self, step: Step, rollouts: Evaluation) -> Lanes:
        """Failures in lanes, while rollouts still come in; every edit is tried as soon as it is proposed."""
        self._harmful = []
        trials = Trials(self._gate, step, "proof")
        noisy = asyncio.ensure_future(self._is_noisy(trials, rollouts))
        search = LaneSearch(
            step,
            analyst=self._optimizer.lanes,
            trials=trials,
            guard=self._parts.guard,
            noisy=noisy,
            most_rows=self._rows,
            depth=self._depth,
            kinds=self._held_out_failures(step),
            earlier=[DeadEdit(edit=edit) for edit in _remembered(step, NOTHING)],
            harmful=_remembered(step, HARMFUL),
        )
        walk = self._optimizer.in_lanes(step, rollouts, search.study)
        found: list[Any] = await together(rollouts.close(), walk, noisy)
        outcomes, lanes = tuple[Rollout, ...](found[0]), tuple[Lane, ...](found[1])
        looks = [
            look for turn in range(self._depth) for lane in lanes for look in lane.looks[turn : turn + 1]
        ]
        minibatches = tuple(replace(look, index=at) for at, look in enumerate(looks))
        if any(lane.trials for lane in lanes):
            trials.close()
        step.emit(
            Reflected(
                id=str(step.place.at("reflect")),
                place=step.place,
                patches=[patch_fact(one) for one in minibatches],
            )
        )
        tried = [one for lane in lanes for one in lane.trials]
        step.emit(proved(step.place, "proof", tried, noisy=found[2]))
        return Lanes(rollouts=outcomes, minibatches=minibatches, lanes=lanes, noisy=found[2])

    async def _is_noisy(self, trials: Trials, rollouts: Evaluation) -> bool:
        """Whether the target answers differently to the same question; some rows are drawn again to see."""
        if self._noisy is not None:
            return self._noisy
        probed = [(at, row) for at, row in enumerate(rollouts.rows) if row.draw == 0][:PROBED]
        again = await trials.run((), [replace(row, draw=AGAIN) for _, row in probed])
        first = [await asyncio.shield(rollouts.arriving(at)) for at, _ in probed]
        before = {(task, AGAIN): worth for (task, _), worth in self._gate.worths(first).items()}
        after = self._gate.worths(again.rows)
        differ = [row for row in before.keys() & after.keys() if before[row] != after[row]]
        return len(differ) >= DIFFERENT

    def _held_out_failures(self, step: Step) -> Counter[str]:
        """How many val tasks of each kind fail now: their kinds, and nothing else of them."""
        values = self._gate.remembered(step.skill.rendered).values
        failed = {
            task: self._gate.rows[task, draw].task.kind for (task, draw), worth in values.items() if worth < 1
        }
        return Counter(kind for kind in failed.values() if kind)

    # 3 aggregate

    async def aggregate(self, step: Step, reflection: Reflection) -> Joined:
        """One list of proven edits, each rule once."""
        assert isinstance(reflection, Lanes)
        return await join(step, reflection, self._gate, self._optimizer.joiner)

    # 4 select

    async def select(self, step: Step, reflection: Reflection, merged: Merged) -> Selection:
        """As few proven edits as fix all that was fixed, without those that break tasks which passed."""
        assert isinstance(reflection, Lanes) and isinstance(merged, Joined)
        harmful: dict[str, Edit] = {}
        chosen: list[Proven] = []
        for number in range(ROUNDS):
            groups = [[one for one in group if one.id not in harmful] for group in merged.groups]
            chosen = cover(
                [head(group, whole) for group, whole in zip(groups, merged.groups, strict=True) if group]
            )
            found = await self._controlled(step, reflection, merged, chosen, number)
            harmful |= {edit.id: edit for one in chosen for edit in one.edits if edit.id in found}
            if not found:
                break
        else:
            chosen = [one for one in chosen if one.id not in harmful]
        self._harmful += harmful.values()
        patch = tuple(edit for one in chosen for edit in evident(one))
        taken_up = {edit.id for edit in patch}
        told = {edit.id for outcome in merged.ended for edit in (outcome.edit,)}
        ended = [*merged.ended]
        for group in merged.groups:
            for edit in group[0].edits:
                if edit.id in harmful:
                    why = "it broke train tasks that passed without it"
                    ended.append(Outcome(edit=edit, state="harmful", reason=why))
                elif edit.id not in taken_up and edit.id not in told:
                    why = "it fixes nothing that the chosen edits do not fix"
                    ended.append(Outcome(edit=edit, state="covered", reason=why))
        ended = [outcome for outcome in ended if outcome.edit.id not in taken_up]
        step.emit(
            Selected(
                id=str(step.place.at("select")),
                place=step.place,
                limit=None,
                ranked=False,
                edits=[edit.as_json() for edit in patch],
            )
        )
        return Selection(patch=patch, ended=tuple(ended), offered=len(merged.edits), limit=None)

    async def _controlled(
        self, step: Step, reflection: Lanes, merged: Joined, chosen: Sequence[Proven], number: int
    ) -> set[str]:
        """The edits that break tasks which passed, and are not worth it: all that were chosen are run
        together on passed tasks of the batch, and where some break, the guilty are looked for.
        """
        passed = {
            (task, draw): worth
            for (task, draw), worth in self._gate.worths(reflection.rollouts).items()
            if draw == 0 and (task, 0) not in reflection.before
        }
        order = sorted(passed)
        random.Random(step.seed).shuffle(order)
        rows = {row: self._row(row[0]) for row in order[: self._control]}
        edits = [edit for one in chosen for edit in one.edits]
        if not rows or not edits:
            return set()
        trials = Trials(self._gate, step, "control")
        whole = await trials.run(edits, list(rows.values()))
        broken = broken_in(passed, trials.worths(whole))[: self._blame_rows]
        least = 2 if reflection.noisy else 1
        if len(broken) < least:
            self._tell_blame(step, "control", number, [whole], ())
            return set()
        found = await blame(trials, edits, {row: rows[row] for row in broken}, passed, least=least)
        share = len(passed) / len(rows)
        support = {edit.id: (one, len(one.fixed)) for one in chosen for edit in one.edits}
        others = {one.id: len(group) > 1 for group in merged.groups for one in group}
        guilty = {
            id
            for id, rows_broken in found.guilty.items()
            if others.get(support[id][0].id) or support[id][1] <= len(rows_broken) * share
        }
        self._tell_blame(step, "control", number, [whole, *found.trials], sorted(guilty))
        return guilty

    # 5 update

    async def update(self, step: Step, reflection: Reflection, selection: Selection) -> Update:
        """The bundle, in which no line comes twice."""
        return by_edits(step.skill, distinct(selection.patch, step.skill.text))

    # 6 gate

    async def judge(
        self, step: Step, state: State, reflection: Reflection, selection: Selection, update: Update
    ) -> Sequence[JudgedCandidate]:
        """The bundle; without the edits that broke val rows; without weak ones that stand in the way."""
        assert isinstance(reflection, Lanes)
        tried = [await self._parts.attempt(step, state, update, ended=selection.ended)]
        if not self._gate.is_on or tried[0].verdict.action not in ("accept", "reject"):
            return tried
        least = 2 if reflection.noisy else 1
        guilty = await step.timed("blame", self._guilty(step, tried[0], least))
        await self._without(step, state, tried, tried[0], guilty)
        self._harmful += [edit for edit in _edits(tried[0].update) if edit.id in guilty]
        best = taken(tried)
        if best.is_accepted and self._prunes:
            loose = await step.timed("prune", self._loose(step, best, least))
            await self._without(step, state, tried, best, loose)
        return tried

    async def _without(
        self,
        step: Step,
        state: State,
        tried: list[JudgedCandidate],
        whole: JudgedCandidate,
        out: Sequence[str],
    ) -> None:
        """Judge what is left without some edits: over the whole where that was accepted."""
        rest = [edit for edit in _edits(whole.update) if edit.id not in set(out)]
        if out and rest:
            over = whole if whole.is_accepted else None
            left = by_edits(step.skill, rest)
            tried.append(await self._parts.attempt(step, state, left, number=len(tried), over=over))

    async def _guilty(self, step: Step, bundle: JudgedCandidate, least: int) -> list[str]:
        """The edits that break val rows, where enough of the rows that worked are broken."""
        before = self._gate.remembered(step.skill.rendered).values
        broken = broken_in(before, self._gate.worths(bundle.verdict.rows))[: self._blame_rows]
        edits = _edits(bundle.update)
        if len(broken) < self._blame_from or len(edits) < 2:
            return []
        trials = Trials(self._gate, step, "blame")
        rows = {row: self._gate.rows[row] for row in broken}
        found = await blame(trials, edits, rows, before, least=least)
        trials.close()
        guilty = sorted(found.guilty)
        self._tell_blame(step, "blame", 0, found.trials, guilty)
        return guilty

    async def _loose(self, step: Step, best: JudgedCandidate, least: int) -> list[str]:
        """Weakly proven edits without which a val row that is wrong now comes right."""
        edits = _edits(best.update)
        weak = [edit for edit in edits if edit.evidence.get("support_count") == 1]
        assert best.verdict.candidate is not None, "an accepted candidate was measured in full"
        now, before = best.verdict.candidate.values, self._gate.remembered(step.skill.rendered).values
        wrong = sorted(
            (row for row, worth in now.items() if worth < 1),
            key=lambda row: (not is_broken(before[row], now[row]), row),
        )[: self._blame_rows]
        if not weak or not wrong or len(edits) < 2:
            return []
        trials = Trials(self._gate, step, "blame")
        rows = [self._gate.rows[row] for row in wrong]
        tried = await trials.each([[one for one in edits if one.id != edit.id] for edit in weak], rows)
        trials.close()
        loose = [
            edit.id
            for edit, trial in zip(weak, tried, strict=True)
            if len(fixed_in(now, trials.worths(trial))) >= least
        ]
        self._tell_blame(step, "prune", 0, tried, loose)
        return loose

    # What is kept for later.

    def enough(self, state: State) -> str:
        """A further pass is worth it while enough tasks are open and the last one brought something."""
        plan = self._parts.plan
        if state.step < plan.steps_per_epoch:
            return ""
        left = len(plan.train) - len(set(state.settled))
        least = min(self._remaining, math.ceil(len(plan.train) / 4))
        if left < least:
            return f"{left} train tasks are neither solved nor fixed by an accepted edit, fewer than {least}"
        if state.step - state.best_step >= plan.steps_per_epoch:
            return "the last pass over the train tasks brought nothing better than the best skill"
        return ""

    def memories(
        self,
        number: int,
        action: str,
        reflection: Reflection,
        tried: Sequence[JudgedCandidate],
        hide: Callable[[str], str],
    ) -> tuple[MemoryEntry, ...]:
        """Single edits: those that fixed nothing, with their tasks, and those that break others."""
        dead = [one.edit for lane in getattr(reflection, "lanes", ()) for one in lane.dead]
        said = essentials(dead, hide)
        tasks = [list(edit.evidence.get("tasks") or ()) for edit in dead]
        nothing = tuple({**shown, "tasks": names} for shown, names in zip(said, tasks, strict=True))
        entries = []
        if nothing:
            why = "tried alone on failed tasks, and fixed none"
            entries.append(MemoryEntry(step=number, action=NOTHING, why=why, edits=nothing))
        if self._harmful:
            why = "it broke tasks that worked without it"
            edits = essentials(self._harmful, hide)
            entries.append(MemoryEntry(step=number, action=HARMFUL, why=why, edits=edits))
        return tuple(entries)

    def settled(self, reflection: Reflection, tried: Sequence[JudgedCandidate]) -> tuple[str, ...]:
        """Tasks that passed, and those that an accepted edit fixes."""
        failed = {
            row.task_id for row in reflection.rollouts if not (isinstance(row, Scored) and row.score.passed)
        }
        solved = [row.task_id for row in reflection.rollouts if row.task_id not in failed]
        chosen = taken(tried)
        edits = chosen.update.applied if chosen.is_accepted else []
        fixed = [task for edit in edits for task in edit.evidence.get("fixed", ())]
        return tuple(dict.fromkeys((*solved, *fixed)))

    def _row(self, task: str) -> Row:
        return Row(task=self._tasks[task])

    def _tell_blame(
        self,
        step: Step,
        stage: Literal["control", "blame", "prune"],
        number: int,
        trials: Sequence[EditTrial],
        guilty: Sequence[str],
    ) -> None:
        step.emit(
            Blamed(
                id=str(step.place.at(stage, str(number))),
                place=step.place,
                stage=stage,
                trials=[trial.fact for trial in trials],
                guilty=list(guilty),
            )
        )


PLUGIN = Proof


def distinct(patch: Sequence[Proposal], text: str) -> list[Edit]:
    """The edits without the lines that the skill or an earlier one of them has."""
    known, kept = lines_of(text), list[Edit]()
    for edit in patch:
        assert isinstance(edit, Edit)
        if edit.op in ("append", "insert_after"):
            edit = replace(edit, content=kept_lines(edit.content, known))
            if not edit.content:
                continue
        known |= lines_of(edit.content)
        kept.append(edit)
    return kept


def _edits(update: Update) -> list[Edit]:
    return [edit for edit in update.applied if isinstance(edit, Edit)]


def _remembered(step: Step, action: str) -> list[Edit]:
    """The single edits that earlier steps ended so with."""
    return [
        Edit(
            op=str(said.get("op", "")),
            target=str(said.get("target", "")),
            content=str(said.get("content", "")),
            evidence={"tasks": list(said.get("tasks", ()))},
        )
        for entry in step.memory
        if entry.action == action
        for said in entry.edits
    ]
