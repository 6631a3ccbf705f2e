"""Proof before the gate: every edit is tried on the failures it should fix, what fixes something is bundled,
and what breaks something is taken out again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from skillopt.evaluation.stage import Evaluation
from skillopt.events import Blamed, Reflected
from skillopt.events.state import MemoryEntry, State
from skillopt.events.step import Step
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.proposers.port import DeadEdit
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update, by_edits
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit
from skillopt.tasks.rollout import Scored
from skillopt.train.blame import blame, freed, not_worth_it
from skillopt.train.strategies._choice import Choice
from skillopt.train.strategies._cover import cover, without_copies
from skillopt.train.strategies._joining import Joined, Lanes, edits_of, join, proved
from skillopt.train.strategies._lanes import Lane, LaneSearch
from skillopt.train.strategies.port import JudgedCandidate, Parts, Unfinished, essentials, taken
from skillopt.train.trials import EditTrial, Trials, broken_in, is_broken, noise_in

SMALLEST_PAIRED = 15
"""Val tasks below which no test of chance has the power to accept anything but miracles."""
NOTHING, HARMFUL = "did nothing", "harmful"


class Proof:
    """Lanes of failures, edits proven on them, a cover of what was fixed, the gate, blame and pruning."""

    hands_over = True

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._gate = parts.gate
        self._optimizer = parts.optimizer
        self._settings = parts.config.train.proof
        self._harmful: list[Edit] = []
        """Those of the present step, for its memory."""
        self._step: Step | None = None
        self._noise = 1.0
        """Share of tasks that come out differently when drawn again; until all lanes are in, the worst."""
        self._failed: Callable[[], int] = int
        """How many tasks the lanes of the present step have studied."""
        self._found: Callable[[], Sequence[Edit]] = list
        """The edits that the present step would hand over."""

    # 2 reflect

    async def reflect(self, step: Step, rollouts: Evaluation) -> Lanes:
        """Failures in lanes, while rollouts still come in; every edit is tried as soon as it is proposed."""
        self._harmful = []
        trials = Trials(self._gate, step, "proof")
        search = self._search(step, trials, rollouts)
        self._step, self._noise = step, 1.0
        self._found = lambda: _covering(search.done)
        self._failed = lambda: len({task for lane in search.done for task in lane.studied})
        walk = self._optimizer.in_lanes(step, rollouts, search.study)
        found: list[Any] = await together(rollouts.close(), walk)
        deeper = await search.deepen(found[1])
        minibatches = tuple(
            lane.look.model_copy(update={"index": at}) for at, lane in enumerate(deeper.lanes)
        )
        tried = [*(one for lane in deeper.lanes for one in lane.trials), *deeper.trials]
        if tried:
            trials.close()
        step.emit(Reflected(id=str(step.place.at("reflect")), place=step.place, patches=minibatches))
        again = [row for one in tried if not one.edits for row in one.rows]
        noise = noise_in(self._gate.worths(found[0]), self._gate.worths(again))
        step.emit(proved(step.place, "proof", tried, noise=noise))
        self._noise = noise
        return Lanes(
            rollouts=found[0],
            minibatches=minibatches,
            lanes=tuple(deeper.lanes),
            shared=tuple(sorted(deeper.shared)),
            noise=noise,
            batch=rollouts.rows,
            search=search,
        )

    def _search(self, step: Step, trials: Trials, rollouts: Evaluation) -> LaneSearch:
        return LaneSearch(
            step,
            analyst=self._optimizer.lanes(rollouts),
            trials=trials,
            guard=self._parts.guard,
            confirms=self._settings.confirm,
            most_rows=self._settings.rows,
            depth=self._settings.depth,
            kinds=self._held_out_failures(step),
            earlier=[DeadEdit(edit=edit) for edit in _remembered(step, NOTHING)],
            harmful=_remembered(step, HARMFUL),
            divide=self._optimizer.lanes_of,
            expect=self._parts.expect,
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

    # 3 aggregate

    async def aggregate(self, step: Step, reflection: Reflection) -> Joined:
        """One list of proven edits, each rule once."""
        assert isinstance(reflection, Lanes)
        return await join(step, reflection, self._gate, self._optimizer.joiner)

    # 4 select

    async def select(self, step: Step, reflection: Reflection, merged: Merged) -> Selection:
        """As few proven edits as fix all that was fixed, without those that break tasks which passed."""
        assert isinstance(reflection, Lanes) and isinstance(merged, Joined)
        choice = Choice(
            step,
            reflection,
            gate=self._gate,
            control=self._settings.control,
            blame_rows=self._settings.blame_rows,
        )
        self._found = lambda: choice.held or _covering(reflection.lanes)
        selection = await choice.select(merged)
        self._harmful += choice.harmful.values()
        return selection

    # 5 update

    async def update(self, step: Step, reflection: Reflection, selection: Selection) -> Update:
        """The bundle of everything selected."""
        return by_edits(step.skill, selection.patch)

    # 6 gate

    async def judge(
        self, step: Step, state: State, reflection: Reflection, selection: Selection, update: Update
    ) -> Sequence[JudgedCandidate]:
        """The bundle; without the edits that broke val rows; without weak ones that stand in the way."""
        assert isinstance(reflection, Lanes)
        policy = self._policy(update)
        tried = [await self._parts.attempt(step, state, update, ended=selection.ended, policy=policy)]
        self._found = lambda: taken(tried).update.applied if taken(tried).is_accepted else ()
        if not self._gate.is_on or tried[0].verdict.action not in ("accept", "reject"):
            return tried
        guilty = await step.timed("blame", self._guilty(step, reflection, tried[0]))
        await self._without(step, state, tried, tried[0], guilty, policy)
        self._harmful += [edit for edit in tried[0].update.applied if edit.id in guilty]
        best = taken(tried)
        if best.is_accepted and self._settings.prune:
            loose = await step.timed("prune", self._loose(step, best, reflection.noise))
            await self._without(step, state, tried, best, loose, policy)
        return tried

    def _policy(self, update: Update) -> str:
        """Strictly better is enough where the target answers the same again, or where the edits fixed most of
        what failed, which luck does not; else more than an accident is asked for, if val is large enough to
        tell. A policy that the user chose stays.
        """
        fixed = {task for edit in update.applied for task in edit.evidence["fixed"]}
        tasks = {task for task, _ in self._gate.rows}
        doubts = self._noise > 0 and 2 * len(fixed) < self._failed() and len(tasks) >= SMALLEST_PAIRED
        return "paired" if doubts and self._gate.policy == "strict" else self._gate.policy

    async def _without(
        self,
        step: Step,
        state: State,
        tried: list[JudgedCandidate],
        whole: JudgedCandidate,
        out: Sequence[str],
        policy: str,
    ) -> None:
        """Judge what is left without some edits: over the whole where that was accepted."""
        rest = [edit for edit in whole.update.applied if edit.id not in set(out)]
        if out and rest:
            over = whole if whole.is_accepted else None
            left = by_edits(step.skill, rest)
            candidate = await self._parts.attempt(
                step, state, left, number=len(tried), over=over, policy="strict" if over else policy
            )
            tried.append(candidate)

    async def _guilty(self, step: Step, reflection: Lanes, bundle: JudgedCandidate) -> list[str]:
        """The edits that break more val rows than they should fix, where enough that worked are broken."""
        before = self._gate.remembered(step.skill.rendered).values
        all_broken = broken_in(before, self._gate.worths(bundle.verdict.rows))
        broken = all_broken[: self._settings.blame_rows]
        edits = bundle.update.applied
        if len(broken) < self._settings.blame_from or len(edits) < 2:
            return []
        trials = Trials(self._gate, step, "blame")
        rows = {row: self._gate.rows[row] for row in broken}
        found = await blame(trials, edits, rows, before, noise=reflection.noise)
        trials.close()
        share = len(before) / max(1, len(reflection.rollouts))
        guilty = not_worth_it(
            found, {edit.id: share * edit.evidence["support_count"] for edit in edits}, all_broken
        )
        self._tell_blame(step, "blame", 0, found.trials, guilty)
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
        found = await freed(trials, edits, weak, rows, now, noise=noise)
        trials.close()
        loose = sorted(found.guilty)
        self._tell_blame(step, "prune", 0, found.trials, loose)
        return loose

    # What is kept for later.

    def so_far(self) -> Unfinished | None:
        """A cover of what the lanes that are in have proven; what the last control left in; what the gate
        accepted.
        """
        if self._step is None or not (edits := self._found()):
            return None
        update = by_edits(self._step.skill, edits)
        return Unfinished(step=self._step, update=update, policy=self._policy(update))

    def enough(self, state: State) -> str:
        """A further pass is worth it while enough tasks are open and the last one brought something."""
        plan = self._parts.plan
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

    def memories(
        self,
        number: int,
        action: str,
        reflection: Reflection,
        tried: Sequence[JudgedCandidate],
        hide: Callable[[str], str],
    ) -> tuple[MemoryEntry, ...]:
        """Single edits: those that fixed nothing, with their tasks, and those that break others."""
        assert isinstance(reflection, Lanes)
        dead = [one.edit for lane in reflection.lanes for one in lane.dead]
        nothing = tuple(
            replace(shown, evidence={"tasks": list(edit.evidence.get("tasks") or ())})
            for shown, edit in zip(essentials(dead, hide), dead, strict=True)
        )
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
        assert isinstance(reflection, Lanes)
        failed = {
            row.task_id for row in reflection.rollouts if not (isinstance(row, Scored) and row.score.passed)
        }
        solved = [row.task_id for row in reflection.rollouts if row.task_id not in failed]
        chosen = taken(tried)
        edits = chosen.update.applied if chosen.is_accepted else []
        fixed = [task for edit in edits for task in edit.evidence.get("fixed", ())]
        fixed += reflection.shared if edits else ()
        return tuple(dict.fromkeys((*solved, *fixed)))

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


def _covering(lanes: Sequence[Lane]) -> tuple[Edit, ...]:
    """As few edits as fix what these lanes fix."""
    proven = without_copies([one for lane in lanes for one in lane.proven])
    return edits_of(cover(proven))


def _remembered(step: Step, action: str) -> list[Edit]:
    """The single edits that earlier steps ended so with."""
    return [edit for entry in step.memory if entry.action == action for edit in entry.edits]
