"""The training loop: what SkillOpt does, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from skillopt.config.schema import Config
from skillopt.errors import BudgetSpent
from skillopt.evaluation.leaks import LeakGuard, format_leaks, refusal_reason
from skillopt.events import Checkpoint, CheckpointKind, Notice
from skillopt.events.place import BASELINE, EARLY_TEST, FINISH, PRUNING, START, Place
from skillopt.events.records import EpochRecord, ReopenedRecord, StepRecord
from skillopt.events.state import MemoryEntry, State
from skillopt.events.step import Outbox, Step
from skillopt.gate.gate import Gate, SkillMeasurement, Verdict
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.update import Update
from skillopt.skill.document import Document
from skillopt.skill.store import SkillStore
from skillopt.train.claim import TestReport, TrainingEnd
from skillopt.train.closing import (
    Log,
    baseline_notices,
    close_step,
    judge_unfinished,
    lost_selection,
    unusable_replies,
    updated_event,
)
from skillopt.train.epoch_end import EpochEnd, LookBack
from skillopt.train.plan import Batch, EarlyBatch, Plan
from skillopt.train.pruning import Pruner
from skillopt.train.sealed_test import SealedTest
from skillopt.train.strategies.paper import Paper
from skillopt.train.strategies.port import JudgedCandidate, StepFindings, Strategy, StrategyContext

LEAK_GUARD = "leak_guard"
UNGATED_SLOW_UPDATES = "Slow updates were taken without a gate and measured afterwards."
NO_GATE = "The gate was off: every candidate was taken without proof."
_REMEMBERED = 8
"""Measured skills that are kept in memory; the rows of others are read from the store again."""


class Trainer:
    """Forward pass, backward pass, bounded update, gate - until the plan or the budget ends."""

    def __init__(
        self,
        *,
        gate: Gate,
        optimizer: Optimizer,
        plan: Plan,
        test: SealedTest,
        log: Log,
        skills: SkillStore,
        config: Config,
        strategy: Callable[[StrategyContext], Strategy] = Paper,
        guard: LeakGuard | None = None,
        look_back: LookBack | None = None,
        start: Document | None = None,
        ahead: bool = False,
        pruner: Pruner | None = None,
    ) -> None:
        self.gate, self.optimizer, self.plan, self.test = gate, optimizer, plan, test
        self.log, self.skills, self.config = log, skills, config
        self.strategy = strategy(
            StrategyContext(
                optimizer=optimizer,
                gate=gate,
                plan=plan,
                attempt=self.attempt,
                expect=test.expect,
                guard=guard,
                config=config,
            )
        )
        self.guard, self.look_back = guard, look_back
        self.start = start  # the skill that training starts from, where it is not the seed
        self.ahead = EarlyBatch(gate, is_on=ahead and start is None)
        self.epoch_end = EpochEnd(
            config.optimizer,
            gate=gate,
            optimizer=optimizer,
            plan=plan,
            skills=skills,
            judge=self.consider,
            earlier=look_back,
        )
        self.findings: StepFindings | None = None  # of the latest step
        self._pruner = pruner
        self._measured: dict[str, SkillMeasurement] = {}

    @property
    def ungated(self) -> str:
        """Which changes pass no gate in this run, as every report says it; empty when all do."""
        if not self.gate.is_on:
            return NO_GATE
        settings = self.config.optimizer
        is_gated = settings.slow_update_gate_with_selection or not settings.use_slow_update
        return "" if is_gated else UNGATED_SLOW_UPDATES

    async def fit(self, skill: Document) -> TrainingEnd:
        """Train a skill, or go on where the run stands."""
        try:
            state = self.load() or await self.baseline(skill)
            for epoch in self.plan.epochs_left(state):
                seed = self.at(EARLY_TEST, state, skill=state.seed)
                self.test.start_early(seed, is_found=state.best != state.seed)
                for batch in self.plan.batches_left(epoch, state):
                    if why := self.enough(state):
                        return await self.finish(state, why)
                    state = await self.step(state, batch)
                if why := self.hopeless(state):
                    return await self.finish(state, why)
                state = await self.end_epoch(state, epoch)
            return await self.finish(state)
        except BudgetSpent as spent:
            return await self.finish_early(spent, skill)

    async def baseline(self, skill: Document) -> State:
        """Measure the seed on all of val, where training starts from, and what the sealed test will cost."""
        sink = self.ahead.beside_baseline(self.log.emit, self.plan.first_batch, skill)
        step = Step(place=BASELINE, emit=Outbox(sink), skill=skill)
        first = self.start or skill
        begun = await self.gate.baseline(replace(step, place=START, skill=first)) if self.start else None
        measured, outcomes, lost = await self.gate.baseline(step, is_start=self.start is None)
        self.keep_measured(skill, measured)
        lost = sorted({*lost, *(begun[2] if begun else ())})
        for notice in baseline_notices(lost, self.gate.metric):
            step.emit(notice)
        digest, score = self.skills.keep(first), self.measured(first).score
        state = State(
            seed=self.skills.keep(skill),
            skill=digest,
            best=digest,
            score=score,
            best_score=score,
            baseline_score=measured.score,
            metric=self.gate.metric,
            left_out=tuple(lost),
            set_aside=self.test.estimate(outcomes),
            gate_share=self.test.estimate_gate(outcomes) if self.strategy.hands_over else None,
            epoch_skill=None if self.look_back is None else self.skills.keep(self.look_back.older),
        )
        state = self.checkpoint(step, "baseline", state)
        self.provide_for_test(state)
        return state

    async def step(self, state: State, batch: Batch) -> State:
        """One step: the six stages. Rollouts are awaited inside reflection, which starts on the first
        minibatch that is in.
        """
        step = self.at(batch.place, state, seed=batch.seed, limit=batch.limit)
        # 1 rollout: forward pass
        findings = StepFindings(step=step, state=state, rollouts=self.ahead.rollouts(step, batch))
        self.findings = findings
        # 2 reflect: backward pass, 3 aggregate: reduce, 4 select: clip, 5 update, 6 evaluate: the gate
        async with aclosing(step.timed_stages(self.strategy.stages(findings))) as stages:
            async for stage in stages:
                if stage == "reflect" and findings.reflection.is_inconclusive:
                    return self.lose(findings, batch)
        return self.close(findings, batch)

    async def attempt(
        self,
        findings: StepFindings,
        update: Update,
        *,
        over: JudgedCandidate | None = None,
        policy: str = "",
    ) -> JudgedCandidate:
        """Log a candidate and judge it (`Attempt`); the first event also says how each proposal ended."""
        number = len(findings.tried)
        part = findings.step.at(findings.step.place.part(candidate=number))
        outcomes = () if number else (*findings.selection.ended, *update.outcomes)
        part.emit(updated_event(part.place, update, self.skills.keep(update.document), outcomes))
        accepted = None if over is None else over.verdict.candidate
        verdict = await self.consider(part, findings.state, update.document, over=accepted, policy=policy)
        findings.tried.append(JudgedCandidate(update=update, verdict=verdict))
        return findings.tried[-1]

    async def consider(
        self,
        step: Step,
        state: State,
        candidate: Document,
        *,
        in_full: bool = False,
        over: SkillMeasurement | None = None,
        policy: str = "",
    ) -> Verdict:
        """The gate: every change to the skill passes here, measured against the skill it would replace.

        While the gate is off the best skill is the incumbent: the current one may never have been measured in
        full. `in_full` measures a candidate to the end that will be taken whatever the verdict; `over` is an
        accepted candidate of the same step that it would replace.
        """
        if candidate.rendered == step.skill.rendered:
            same = "the candidate reads the same as the current skill"
            return self.gate.without_measuring(step, "unchanged", same, state.score)
        if self.guard is not None and (leaks := self.guard.find(candidate.rendered)):
            step.emit(Notice(id=str(step.place.at("leaks")), text=format_leaks(leaks), level="warning"))
            return self.gate.refuse(step, refusal_reason(leaks), state.score, by=LEAK_GUARD)
        incumbent = over or self.measured(step.skill if self.gate.is_on else self.skills.get(state.best))
        verdict = await self.gate.judge(
            step, candidate.rendered, incumbent, in_full=in_full, over=over is not None, policy=policy
        )
        if verdict.candidate is not None:
            self.keep_measured(candidate, verdict.candidate)
        return verdict

    async def end_epoch(self, state: State, epoch: int) -> State:
        """The longer view: how the same tasks went an epoch ago and now. Its guidance passes the gate, its
        advice does not need to.
        """
        step = self.at(self.plan.end_place(epoch, state), state)
        after, ended = await self.epoch_end.look_back(step, state, epoch)
        step.emit(ended)
        left = self.plan.remaining(after.settled)
        after = after.replace(epoch=epoch, epoch_skill=after.skill, remaining=left)
        return self.checkpoint(step, "epoch", after, EpochRecord(epoch=epoch, tokens=step.tokens.as_record()))

    def enough(self, state: State) -> str:
        """Why no further step can help, or nothing."""
        if why := self.hopeless(state):
            return why
        waited = state.step - state.best_step
        if self.plan.patience and waited >= self.plan.patience and state.reopen is None:
            return f"{waited} steps brought nothing better than the best skill (train.patience)"
        return ""

    def hopeless(self, state: State) -> str:
        """Why the gate could accept no change to the current skill, however good, or why the strategy wants
        no further step, or nothing.
        """
        if why := self.strategy.enough(state):
            return why
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

    async def finish(self, state: State, stopped: str = "") -> TrainingEnd:
        """Prune the best skill where that is wanted, then open the seal: seed against best on test."""
        if self._pruner is not None:
            state = await self._pruner.onto(state, self.at(PRUNING, state, skill=state.best), self.skills)
        step = self.at(FINISH, state)
        if stopped:
            end = f"Training ends after step {state.step} of {self.plan.total_steps}: {stopped}."
            step.emit(Notice(text=end))
        report = await self.examine(state)
        state = self.checkpoint(step, "finish", state.replace(finished=True))
        return TrainingEnd(state=state, report=report, stopped=stopped)

    async def examine(self, state: State) -> TestReport:
        """Test what there is; each look at the split is counted."""
        step = self.at(Place.of_test(state.epoch, state.step, state.takes.values()), state)
        skills = {"seed": self.skills.get(state.seed), "best": self.skills.get(state.best)}
        if not self.gate.is_on or step.skill.rendered != skills["best"].rendered:
            skills["final"] = step.skill
        return await self.test.measure(step, skills, look=self.log.looks(str(step.place)) + 1)

    # Going on, and ending early.

    def at(
        self, place: Place, state: State, *, skill: str | None = None, seed: int = 0, limit: int = 0
    ) -> Step:
        """The step at a place of the run; it starts from the current skill by default."""
        return Step(
            place=place,
            emit=Outbox(self.log.emit),
            skill=self.skills.get(skill or state.skill),
            memory=state.memory,
            meta_skill=state.meta_skill,
            seed=seed,
            limit=limit,
        )

    def load(self) -> State | None:
        """Where the run stands, if it was started before."""
        last = self.log.last_checkpoint()
        if last is None:
            return None
        state = last.state.replace(memory=self.log.memory(), checkpoint=last.id)
        self.gate.leave_out(state.left_out)
        self.gate.metric = state.metric
        self.provide_for_test(state)
        return state

    def provide_for_test(self, state: State) -> None:
        """Set the shares of the test and of a last gate aside; where the test's is refused, say so."""
        self.test.provide(state.set_aside, self.skills.get(state.seed))
        self.test.provide_gate(state.gate_share)
        if self.test.is_too_dear:
            refused = f"Test will not be measured unless enough is left at the end: {self.test.refused}."
            self.log.emit(Notice(text=refused, level="warning"))

    def measured(self, skill: Document) -> SkillMeasurement:
        """An incumbent's rows, from memory or from the store."""
        found = self._measured.get(skill.digest) or self.gate.remembered(skill.rendered)
        return self.keep_measured(skill, found)

    def keep_measured(self, skill: Document, measured: SkillMeasurement) -> SkillMeasurement:
        """Remember the rows of a skill; those that were wanted longest ago are forgotten."""
        self._measured.pop(skill.digest, None)
        self._measured[skill.digest] = measured
        if len(self._measured) > _REMEMBERED:
            self._measured.pop(next(iter(self._measured)))
        return measured

    def checkpoint(
        self,
        step: Step,
        kind: CheckpointKind,
        state: State,
        record: StepRecord | EpochRecord | ReopenedRecord | None = None,
        remembered: Sequence[MemoryEntry] = (),
    ) -> State:
        """From here the run goes on after whatever happens."""
        id = str(step.place.at(kind))
        step.emit(Checkpoint(id=id, kind=kind, state=state, record=record, remembered=list(remembered)))
        return state.replace(checkpoint=id)

    def close(self, findings: StepFindings, batch: Batch, *, reopen: str | None = None) -> State:
        """Decide a step: write its checkpoint and return the new state of the run."""
        hide = str if self.guard is None else self.guard.hide
        closed = close_step(findings, batch, gate=self.gate, control=self.optimizer.control, hide=hide)
        after = closed.state.replace(reopen=reopen)
        return self.checkpoint(findings.step, "step", after, closed.record, closed.remembered)

    async def finish_early(self, spent: BudgetSpent, skill: Document) -> TrainingEnd:
        """The budget ended the run: judge what the open step has found and test what there is, from what was
        set aside for both; where nothing is to be tested, train on with that. The run stays open.
        """
        state = self.load()
        if state is None:
            raise spent
        state = await self.hand_over(state)
        if state.best == state.seed and self.test.gives_way(self.log.emit):
            return await self.fit(skill)
        try:
            report = await self.examine(state)
        except BudgetSpent:
            unpaid = "the budget does not pay for the rest of it; what was measured is kept"
            report = TestReport(measured=False, why=unpaid)
        return TrainingEnd(state=state, report=report, ended_early=str(spent))

    async def hand_over(self, state: State) -> State:
        """The state with the better of its best skill and what an unfinished step has found, judged from the
        share of the budget that was set aside for a gate. The step stays open, and a larger budget goes on
        with it as if nothing had been handed over.
        """
        earlier = self.log.handed_over()
        found = None
        if self.findings is not None:
            found = await judge_unfinished(self.findings, state, self.consider, self.skills)
        if found is not None and (earlier is None or found.score > earlier.score):
            self.log.emit(found)
            earlier = found
        return state if earlier is None else earlier.onto(state)

    def lose(self, findings: StepFindings, batch: Batch) -> State:
        """Most analysts of a step were unreadable: it is inconclusive. Twice in a row stops the run, with
        both steps open again.
        """
        step, state, looks = findings.step, findings.state, findings.reflection.minibatches
        if state.reopen is not None:
            before = self.log.checkpoint(state.reopen).state
            takes = {number: before.takes.get(number, 0) + 1 for number in (batch.step - 1, batch.step)}
            again = before.replace(takes={**before.takes, **takes})
            self.checkpoint(step, "reopened", again, ReopenedRecord(from_step=batch.step - 1))
            raise unusable_replies(findings.reflection)
        dropped = sum(minibatch.dropped is not None for minibatch in looks)
        lost = f"{dropped} of {len(looks)} reflections were unreadable"
        verdict = self.gate.without_measuring(step, "inconclusive", lost, state.score)
        findings.tried = [JudgedCandidate(update=Update(document=step.skill, outcomes=()), verdict=verdict)]
        findings.selection = lost_selection(findings.reflection, batch.limit)
        return self.close(findings, batch, reopen=state.checkpoint)
