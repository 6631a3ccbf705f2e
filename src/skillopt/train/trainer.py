"""The training loop: what SkillOpt does, on one screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skillopt.errors import BudgetSpent, UnusableReplies
from skillopt.evaluation.leaks import LeakGuard, why
from skillopt.evaluation.runner import Evaluator
from skillopt.events import Checkpoint, CheckpointKind, Notice
from skillopt.events.records import EpochRecord, ReopenedRecord, StepRecord
from skillopt.events.state import MemoryEntry, State
from skillopt.gate.gate import Gate, Measured, Verdict
from skillopt.optimizer.epoch import PairPolicy
from skillopt.optimizer.optimizer import Lesson, Optimizer
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update, halves
from skillopt.place import BASELINE, FINISH, Place
from skillopt.skill.document import Document
from skillopt.skill.edits import Outcome
from skillopt.skill.store import SkillStore
from skillopt.train.closing import JudgedCandidate, Timing, close_step, lost_selection, updated
from skillopt.train.epoch_end import EpochComparison, EpochEnd, LookBack
from skillopt.train.exam import Exam, Report
from skillopt.train.log import Log
from skillopt.train.plan import Batch, Plan

LEAK_GUARD = "leak_guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What training ended with. Where it ended before its plan did, `stopped` says why no further step would
    have helped, and
    `ended_early` that the budget was spent.
    """

    state: State
    report: Report
    stopped: str = ""
    ended_early: str = ""


class Trainer:
    """Forward pass, backward pass, bounded update, gate - until the plan or the budget ends."""

    def __init__(
        self,
        *,
        evaluator: Evaluator,
        optimizer: Optimizer,
        gate: Gate,
        plan: Plan,
        exam: Exam,
        log: Log,
        skills: SkillStore,
        use_slow_update: bool = True,
        use_meta_skill: bool = True,
        gates_slow_update: bool = True,
        pair_policy: PairPolicy = "mixed",
        salvages: bool = True,
        guard: LeakGuard | None = None,
        look_back: LookBack | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.evaluator = evaluator
        self.optimizer = optimizer
        self.gate = gate
        self.plan = plan
        self.exam = exam
        self.log = log
        self.skills = skills
        self.epoch_end = EpochEnd(
            EpochComparison(evaluator, emit=log.emit, policy=pair_policy, wanted=plan.slow_samples),
            optimizer,
            plan,
            skills,
            self.consider,
            use_slow_update=use_slow_update,
            use_meta_skill=use_meta_skill,
            gates_slow_update=gates_slow_update and gate.is_on,
            takes_unmeasured=not gate.is_on,
            look_back=look_back,
        )
        self.salvages = salvages
        self.guard = guard
        self.look_back = look_back
        self._clock = clock
        self._measured: dict[str, Measured] = {}

    @property
    def ungated(self) -> str:
        """Which changes pass no gate in this run, as every report says it; empty when all do."""
        if not self.gate.is_on:
            return "The gate was off: every candidate was taken without proof."
        if self.epoch_end.takes_ungated:
            return "Slow updates were taken without a gate and measured afterwards."
        return ""

    async def fit(self, skill: Document) -> Fitted:
        """Train a skill, or go on where the run stands."""
        try:
            state = self.load() or await self.baseline(skill)
            for epoch in self.plan.epochs_left(state):
                self.exam.start_early(self.skills.get(state.seed))
                for batch in self.plan.batches_left(epoch, state):
                    if why := self.enough(state):
                        return await self.finish(state, why)
                    state = await self.step(state, batch)
                if why := self.hopeless(state):
                    return await self.finish(state, why)
                state = await self.end_epoch(state, epoch)
            return await self.finish(state)
        except BudgetSpent as spent:
            return await self.finish_early(spent)

    async def baseline(self, skill: Document) -> State:
        """Measure the seed on the whole of val: the first incumbent, and what the sealed test will cost."""
        measured, outcomes, lost = await self.gate.baseline(skill.rendered, BASELINE)
        self._measured[skill.rendered] = measured
        if lost:
            self.log.emit(
                Notice(
                    text=f"Left out of the gate, not measurable at baseline: {', '.join(lost)}",
                    level="warning",
                )
            )
        if self.gate.metric == "soft":
            self.log.emit(
                Notice(
                    text=(
                        "The gate reads the soft score: the scorer gives partial credit, or gate_metric"
                        " says so."
                    )
                )
            )
        set_aside = self.exam.estimate(outcomes)
        digest = self.skills.keep(skill)
        older = None if self.look_back is None else self.skills.keep(self.look_back.older)
        first = State(
            seed=digest,
            skill=digest,
            best=digest,
            score=measured.score,
            best_score=measured.score,
            baseline_score=measured.score,
            metric=self.gate.metric,
            left_out=tuple(lost),
            set_aside=set_aside,
            epoch_skill=older,
        )
        state = self.checkpoint(BASELINE, "baseline", first)
        self.exam.provide(set_aside, skill)
        return state

    async def step(self, state: State, batch: Batch) -> State:
        """One step: the six stages. Rollouts are awaited inside reflection, which starts on the first
        minibatch that is in.
        """
        timing = Timing(self._clock)
        skill = self.skills.get(state.skill)
        lesson = Lesson(skill=skill, memory=state.memory, meta_skill=state.meta_skill)
        rollouts = self.evaluator.start(
            skill.rendered, batch.rows, stage="rollout", place=batch.place
        )  # 1 rollout    forward pass
        reflection = await timing.of(
            "reflect", self.optimizer.reflect(lesson, batch, rollouts)
        )  # 2 reflect    backward pass
        if reflection.is_inconclusive:
            return self.lose(state, batch, reflection, timing)
        merged = await timing.of(
            "aggregate", self.optimizer.aggregate(lesson, batch, reflection)
        )  # 3 aggregate  reduce
        selection = await timing.of(
            "select", self.optimizer.select(lesson, batch, reflection, merged)
        )  # 4 select     clip
        update = await timing.of(
            "update", self.optimizer.update(lesson, batch, reflection, selection)
        )  # 5 update
        bundle = await timing.of(
            "evaluate", self.attempt(state, update, batch.place, selection.ended)
        )  # 6 gate
        tried = [bundle]
        if bundle.verdict.action == "reject" and self.salvages and self.gate.is_on:
            tried += await timing.of("salvage", self.salvage(state, bundle, batch.place))
        return self.close(state, batch, reflection, selection, tried, timing)

    def close(
        self,
        state: State,
        batch: Batch,
        reflection: Reflection,
        selection: Selection,
        tried: Sequence[JudgedCandidate],
        timing: Timing,
        reopen: str | None = None,
    ) -> State:
        """Write a step down: from here on it is decided."""
        closed = close_step(
            state,
            self.skills.get(state.skill),
            batch,
            reflection,
            selection,
            tried,
            gate=self.gate,
            optimizer=self.optimizer,
            timing=timing.seconds,
            hide=str if self.guard is None else self.guard.hide,
        )
        after = closed.state.replace(reopen=reopen)
        return self.checkpoint(batch.place, "step", after, closed.record, closed.remembered)

    async def attempt(
        self, state: State, update: Update, place: Place, ended: Sequence[Outcome] = ()
    ) -> JudgedCandidate:
        """One candidate of a step: told, then judged. `ended` are proposals that came to an end before it."""
        skill = self.skills.keep(update.document)
        outcomes = () if place.candidate else (*ended, *update.outcomes)  # each proposal's end is told once
        self.log.emit(updated(place, update, skill, outcomes))
        return JudgedCandidate(
            update=update, verdict=await self.consider(state, update.document, place=place)
        )

    async def salvage(self, state: State, bundle: JudgedCandidate, place: Place) -> list[JudgedCandidate]:
        """A bundle that was clearly worse may be a good half and a bad one: each half is tried once, until
        one is accepted.

        Clearly means before half of val was read. A near miss holds nothing worth separating: its halves
        would be accepted by luck alone, and measuring them costs steps (docs/gate.md has the figures). When
        the first half is accepted the second is not tried on top of it: both together are the bundle, and
        that was not even better than the skill before. Notes are no part of the limit and came along
        unchosen, so a bundle with notes is always taken apart.
        """
        update, verdict = bundle.update, bundle.verdict
        if update.appendix is None and 2 * len(verdict.rows) >= verdict.rows_total:
            return []
        tried: list[JudgedCandidate] = []
        for number, half in enumerate(halves(update, self.skills.get(state.skill)), 1):
            tried.append(await self.attempt(state, half, place.of_candidate(number)))
            if tried[-1].is_accepted:
                break
        return tried

    async def consider(
        self, state: State, candidate: Document, *, place: Place, in_full: bool = False
    ) -> Verdict:
        """The gate: every change to the skill passes here, measured against the skill it would replace.

        While the gate is off the best skill is the incumbent: the current one may never have been measured in
        full. `in_full` measures a candidate to the end that will be taken whatever the verdict.
        """
        current = self.skills.get(state.skill)
        if candidate.rendered == current.rendered:
            return self.gate.without_measuring(
                "unchanged", "the candidate reads the same as the current skill", state.score, place
            )
        if self.guard is not None and (leaks := self.guard.find(candidate.rendered)):
            shown = "; ".join(map(str, leaks[:3])) + (
                f"; and {len(leaks) - 3} more" if len(leaks) > 3 else ""
            )
            self.log.emit(
                Notice(
                    id=str(place.at("leaks")),
                    text=f"A candidate was refused, as it quotes a {shown}.",
                    level="warning",
                )
            )
            return self.gate.refuse(why(leaks), state.score, place, by=LEAK_GUARD)
        incumbent = self.measured(current if self.gate.is_on else self.skills.get(state.best))
        verdict = await self.gate.judge(candidate.rendered, incumbent, place, in_full=in_full)
        if verdict.candidate is not None:
            self._measured[candidate.rendered] = verdict.candidate
        return verdict

    async def end_epoch(self, state: State, epoch: int) -> State:
        """The longer view: how the same tasks went an epoch ago and now. Its guidance passes the gate, its
        advice does not need to.
        """
        place = self.plan.end_place(epoch, state)
        after, ended = await self.epoch_end.look_back(state, epoch, place)
        self.log.emit(ended)
        record = EpochRecord(epoch=epoch, tokens=self.optimizer.tally(place).as_record())
        return self.checkpoint(place, "epoch", after.replace(epoch=epoch, epoch_skill=after.skill), record)

    def enough(self, state: State) -> str:
        """Why no further step can help, or nothing."""
        if why := self.hopeless(state):
            return why
        waited = state.step - state.best_step
        if self.plan.patience and waited >= self.plan.patience:
            return f"{waited} steps brought nothing better than the best skill (train.patience)"
        return ""

    def hopeless(self, state: State) -> str:
        """Why the gate could accept no change to the current skill, however good, or nothing."""
        if not self.gate.is_on:
            return ""
        if state.score == 1.0:
            return (
                f"val leaves no headroom after step {state.step}: nothing can be better than a perfect score"
            )
        objection = self.gate.objection_to_all(self.measured(self.skills.get(state.skill)))
        return (
            objection
            and f"after step {state.step} even a perfect skill would not be accepted on this val split "
            f"({objection})"
        )

    async def finish(self, state: State, stopped: str = "") -> Fitted:
        """Open the seal: seed against best on the test split."""
        if stopped:
            self.log.emit(
                Notice(text=f"Training ends after step {state.step} of {self.plan.total_steps}: {stopped}.")
            )
        report = await self.examine(state)
        state = self.checkpoint(FINISH, "finish", state.replace(finished=True))
        return Fitted(state=state, report=report, stopped=stopped)

    async def examine(self, state: State) -> Report:
        """Test what there is; each look at the split is counted."""
        place = Place.of_test(state.epoch, state.step, state.takes.values())
        skills = {"seed": self.skills.get(state.seed), "best": self.skills.get(state.best)}
        final = self.skills.get(state.skill)
        if not self.gate.is_on or final.rendered != skills["best"].rendered:
            skills["final"] = final
        return await self.exam.measure(skills, place, look=self.log.looks(str(place)) + 1)

    # Going on, and ending early.

    def load(self) -> State | None:
        """Where the run stands, if it was started before."""
        last = self.log.last_checkpoint()
        if last is None:
            return None
        state = last.state.replace(memory=self.log.memory())
        self.gate.leave_out(state.left_out)
        self.gate.metric = state.metric
        self.exam.provide(state.set_aside, self.skills.get(state.seed))
        return state

    def measured(self, skill: Document) -> Measured:
        """An incumbent's rows, from memory or from the store."""
        text = skill.rendered
        if text not in self._measured:
            self._measured[text] = self.gate.remembered(text)
        return self._measured[text]

    def checkpoint(
        self,
        place: Place,
        kind: CheckpointKind,
        state: State,
        record: StepRecord | EpochRecord | ReopenedRecord | None = None,
        remembered: Sequence[MemoryEntry] = (),
    ) -> State:
        """From here the run goes on after whatever happens."""
        id = str(place.at(kind))
        self.log.emit(Checkpoint(id=id, kind=kind, state=state, record=record, remembered=list(remembered)))
        return state

    async def finish_early(self, spent: BudgetSpent) -> Fitted:
        """The budget ended the run: test what there is from the set-aside; the run stays open for a larger
        budget.
        """
        state = self.load()
        if state is None:
            raise spent
        try:
            report = await self.examine(state)
        except BudgetSpent:
            report = Report(
                measured=False, why="the budget does not pay for the rest of it; what was measured is kept"
            )
        return Fitted(state=state, report=report, ended_early=str(spent))

    def lose(self, state: State, batch: Batch, reflection: Reflection, timing: Timing) -> State:
        """Most analysts of a step were unreadable: it is inconclusive. Twice in a row stops the run, with
        both steps open again.
        """
        if state.reopen is not None:
            before = self.log.checkpoint(state.reopen).state
            takes = {step: before.takes.get(step, 0) + 1 for step in (batch.step - 1, batch.step)}
            again = before.replace(takes={**before.takes, **takes})
            self.checkpoint(batch.place, "reopened", again, ReopenedRecord(from_step=batch.step - 1))
            causes = "; ".join(reflection.troubles())
            raise UnusableReplies(
                "Two steps in a row lost most of their reflections: the optimizer's replies cannot be read"
                f" ({causes}). Both steps are open again: run the same command to ask once more. If it stays"
                " so, start a run with another optimizer model or a larger output cap in a new folder; with"
                " cache.path set to this run.db its rollouts are not paid again."
            )
        dropped = sum(one.dropped is not None for one in reflection.minibatches)
        why = f"{dropped} of {len(reflection.minibatches)} reflections were unreadable"
        verdict = self.gate.without_measuring("inconclusive", why, state.score, batch.place)
        before_it = self.log.last_checkpoint()
        assert before_it is not None, "a step stands behind the baseline's checkpoint"
        nothing = Update(document=self.skills.get(state.skill), outcomes=())
        return self.close(
            state,
            batch,
            reflection,
            lost_selection(reflection, batch.limit),
            [JudgedCandidate(update=nothing, verdict=verdict)],
            timing,
            reopen=before_it.id,
        )
