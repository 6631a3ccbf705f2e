"""The training loop: what SkillOpt does, on one screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from skillopt.aio import together
from skillopt.errors import BudgetSpent, UnusableReplies
from skillopt.evaluation.leaks import LeakGuard, why
from skillopt.evaluation.runner import Evaluator
from skillopt.events import Checkpoint, CheckpointKind, EpochEnded, Event, Notice
from skillopt.gate.gate import Gate, Measured, Verdict
from skillopt.optimizer.epoch import EPOCH_AGO, Advice, Pair, PairPolicy, means_of, slim
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.update import Update, halves
from skillopt.skill.document import Document
from skillopt.train.book import StepBook
from skillopt.train.exam import Exam, Report
from skillopt.train.hindsight import Hindsight, LookBack, nothing_to_say, skipped
from skillopt.train.plan import Batch, Plan
from skillopt.train.state import State

LEAK_GUARD = "leak_guard"


class Log(Protocol):
    """The run folder as the trainer sees it."""

    def emit(self, event: Event) -> None: ...

    def last_state(self) -> Mapping[str, Any] | None:
        """The state at the last checkpoint."""
        ...

    def looks(self, other_than: str) -> int:
        """How often test was looked at, not counting the look of that id."""
        ...


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
        self.use_slow_update = use_slow_update
        self.use_meta_skill = use_meta_skill
        self.gates_slow_update = gates_slow_update
        self.hindsight = Hindsight(evaluator, emit=log.emit, policy=pair_policy, wanted=plan.slow_samples)
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
        if self.use_slow_update and not self.gates_slow_update:
            return "Slow updates were taken without a gate and measured afterwards."
        return ""

    async def fit(self, skill: Document) -> Fitted:
        """Train a skill, or go on where the run stands."""
        try:
            state = self.load() or await self.baseline(skill)
            for epoch in self.plan.epochs_left(state):
                self.exam.start_early(state.seed)
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
        measured, outcomes, lost = await self.gate.baseline(skill.rendered, "baseline")
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
        older = None if self.look_back is None else self.look_back.older
        first = State.begin(
            skill,
            measured.score,
            metric=self.gate.metric,
            left_out=tuple(lost),
            set_aside=set_aside,
            epoch_skill=older,
        )
        state = self.checkpoint("baseline", first, {}, place="baseline")
        self.exam.provide(set_aside, skill)
        return state

    async def step(self, state: State, batch: Batch) -> State:
        """One step: the six stages. Rollouts are awaited inside reflection, which starts on the first
        minibatch that is in.
        """
        book = StepBook(batch, self._clock, hide=str if self.guard is None else self.guard.hide)
        rollouts = self.evaluator.start(
            state.skill.rendered, batch.rows, stage="rollout", place=batch.place
        )  # 1 rollout    forward pass
        reflection = await book.note(
            "reflect", self.optimizer.reflect(state, batch, rollouts)
        )  # 2 reflect    backward pass
        if reflection.is_inconclusive:
            return self.lose(state, batch, reflection, book)
        merged = await book.note(
            "aggregate", self.optimizer.aggregate(state, batch, reflection)
        )  # 3 aggregate  reduce
        selection = await book.note(
            "select", self.optimizer.select(state, batch, reflection, merged)
        )  # 4 select     clip
        update = await book.note(
            "update", self.optimizer.update(state, batch, reflection, selection)
        )  # 5 update
        self.log.emit(book.updated(selection, update))
        verdict = await book.note(
            "evaluate", self.consider(state, update.document, place=batch.place)
        )  # 6 gate
        if (
            verdict.action == "reject" and self.salvages and self.gate.is_on
        ):  # with the gate off the whole candidate is taken
            verdict = await book.note("salvage", self.salvage(state, update, verdict, book))
        after, record = book.close(state, reflection, verdict, self.gate, self.optimizer)
        return self.checkpoint("step", after, record, place=batch.place)

    async def salvage(self, state: State, update: Update, verdict: Verdict, book: StepBook) -> Verdict:
        """A bundle that was clearly worse may be a good half and a bad one: each half is tried once, until
        one is accepted.

        Clearly means before half of val was read. A near miss holds nothing worth separating: its halves
        would be accepted by luck alone, and measuring them costs steps (docs/gate.md has the figures). When
        the first half is accepted the second is not tried on top of it: both together are the bundle, and
        that was not even better than the skill before. Notes are no part of the limit and came along
        unchosen, so a bundle with notes is always taken apart.
        """
        if update.appendix is None and 2 * len(verdict.rows) >= verdict.rows_total:
            return verdict
        for number, half in enumerate(halves(update, state.skill), 1):
            place = f"{book.place}/half-{number}"
            self.log.emit(book.halved(half, place, verdict))
            second = await self.consider(state, half.document, place=place)
            if book.tried(half, second):
                return second
        return verdict

    async def consider(
        self, state: State, candidate: Document, *, place: str, in_full: bool = False
    ) -> Verdict:
        """The gate: every change to the skill passes here, measured against the skill it would replace.

        While the gate is off the best skill is the incumbent: the current one may never have been measured in
        full. `in_full` measures a candidate to the end that will be taken whatever the verdict.
        """
        if candidate.rendered == state.skill.rendered:
            return self.gate.without_measuring(
                "unchanged", "the candidate reads the same as the current skill", state.score, place
            )
        if self.guard is not None and (leaks := self.guard.find(candidate.rendered)):
            shown = "; ".join(map(str, leaks[:3])) + (
                f"; and {len(leaks) - 3} more" if len(leaks) > 3 else ""
            )
            self.log.emit(
                Notice(
                    id=f"{place}/leaks",
                    text=f"A candidate was refused, as it quotes a {shown}.",
                    level="warning",
                )
            )
            return self.gate.refuse(why(leaks), state.score, place, by=LEAK_GUARD)
        incumbent = self.measured(state.skill if self.gate.is_on else state.best)
        verdict = await self.gate.judge(candidate.rendered, incumbent, place, in_full=in_full)
        if verdict.candidate is not None:
            self._measured[candidate.rendered] = verdict.candidate
        return verdict

    async def end_epoch(self, state: State, epoch: int) -> State:
        """The longer view: how the same tasks went an epoch ago and now. Its guidance passes the gate, its
        advice does not need to.
        """
        place = self.plan.end_place(epoch, state)
        wants_slow = self.use_slow_update
        wants_meta = (
            self.use_meta_skill and epoch < self.plan.epochs
        )  # the last epoch's advice would have no reader
        older = state.epoch_skill
        after, slow, meta = state, skipped(older, wants_slow), skipped(older, wants_meta)
        pairs: list[Pair] = []
        if older is not None and older.rendered != state.skill.rendered and (wants_slow or wants_meta):
            pairs = await self.hindsight.look_back(
                older, state.skill, self.plan.slow_samples_of(epoch), place
            )
            ago = EPOCH_AGO if self.look_back is None or epoch > 1 else self.look_back.ago
            guidance, advice = await together(  # without a pair there is nothing to learn from
                (
                    self.optimizer.slow_update(state, older, place, pairs, ago)
                    if wants_slow and pairs
                    else nothing_to_say()
                ),
                (
                    self.optimizer.meta_skill(state, older, place, pairs)
                    if wants_meta and pairs
                    else nothing_to_say()
                ),
            )
            if wants_slow:
                after, slow = await self.take_guidance(state, guidance, epoch, place)
                slow |= {"reasoning": guidance.reasoning, **means_of(pairs)}
            if wants_meta:
                after = replace(after, meta_skill=advice.text or after.meta_skill)
                meta = {
                    "action": "write_meta_skill" if advice.text else "no_content",
                    "why": advice.why,
                    "reasoning": advice.reasoning,
                    "meta_skill_content": advice.text,
                }
        after = replace(after, epoch=epoch, epoch_skill=after.skill)
        compared = [slim(pair) for pair in pairs]
        self.log.emit(
            EpochEnded(id=f"{place}/ended", epoch=epoch, slow_update=slow, meta_skill=meta, pairs=compared)
        )
        return self.checkpoint(
            "epoch", after, {"epoch": epoch, "tokens": self.optimizer.tally(place).as_json()}, place=place
        )

    async def take_guidance(
        self, state: State, guidance: Advice, epoch: int, place: str
    ) -> tuple[State, dict[str, Any]]:
        """The slow update: guidance in its protected region, if the gate agrees.

        Where it is not to be gated it is taken whatever the verdict, but only with a complete measurement: a
        score is never assumed.
        """
        if not guidance.text:
            return state, {"action": "no_content", "why": guidance.why}
        candidate = state.skill.with_region("slow_update", guidance.text)
        verdict = await self.consider(state, candidate, place=place, in_full=not self.gates_slow_update)
        forced = not self.gate.is_on or (not self.gates_slow_update and verdict.candidate is not None)
        after, action = state.adopt(
            candidate, verdict, step=state.step, origin=f"slow_update_epoch_{epoch:02d}", forced=forced
        )
        measured = verdict.candidate
        told = {
            "action": action,
            "why": verdict.why,
            "slow_update_content": guidance.text,
            "candidate_hash": candidate.digest[:16],
            "selection_hard": None if measured is None else measured.hard,
            "selection_soft": None if measured is None else measured.soft,
        }
        return after, told

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
        objection = self.gate.objection_to_all(self.measured(state.skill))
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
        state = self.checkpoint("finish", replace(state, finished=True), {}, place="finish")
        return Fitted(state=state, report=report, stopped=stopped)

    async def examine(self, state: State) -> Report:
        """Test what there is; each look at the split is counted."""
        position = f"test/{state.epoch}.{state.step}" + "".join(f".{take}" for take in state.takes.values())
        skills = {"seed": state.seed, "best": state.best}
        if not self.gate.is_on or state.skill.rendered != state.best.rendered:
            skills["final"] = state.skill
        return await self.exam.measure(skills, position, look=self.log.looks(position) + 1)

    # Going on, and ending early.

    def load(self) -> State | None:
        """Where the run stands, if it was started before."""
        data = self.log.last_state()
        if data is None:
            return None
        state = State.from_json(data)
        self.gate.leave_out(state.left_out)
        self.gate.metric = state.metric
        self.exam.provide(state.set_aside, state.seed)
        return state

    def measured(self, skill: Document) -> Measured:
        """An incumbent's rows, from memory or from the store."""
        text = skill.rendered
        if text not in self._measured:
            self._measured[text] = self.gate.remembered(text)
        return self._measured[text]

    def checkpoint(
        self, kind: CheckpointKind, state: State, record: Mapping[str, Any], *, place: str
    ) -> State:
        """From here the run goes on after whatever happens."""
        self.log.emit(Checkpoint(id=f"{place}/{kind}", kind=kind, state=state.as_json(), record=dict(record)))
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

    def lose(self, state: State, batch: Batch, reflection: Reflection, book: StepBook) -> State:
        """Most analysts of a step were unreadable: it is inconclusive. Twice in a row stops the run, with
        both steps open again.
        """
        if state.reopen is not None:
            before = State.from_json(state.reopen)
            takes = {step: before.takes.get(step, 0) + 1 for step in (batch.step - 1, batch.step)}
            again = replace(before, takes={**before.takes, **takes})
            self.checkpoint("reopened", again, {"from_step": batch.step - 1}, place=batch.place)
            causes = "; ".join(reflection.troubles())
            raise UnusableReplies(
                "Two steps in a row lost most of their reflections: the optimizer's replies cannot be read"
                f" ({causes}). Both steps are open again: run the same command to ask once more. If it stays"
                " so, start a run with another optimizer model or a larger output cap in a new folder; with"
                " cache.path set to this run.db its rollouts are not paid again."
            )
        dropped, asked = (
            sum(one.dropped is not None for one in reflection.minibatches),
            len(reflection.minibatches),
        )
        why = f"{dropped} of {asked} reflections were unreadable"
        verdict = self.gate.without_measuring("inconclusive", why, state.score, batch.place)
        after, record = book.close(state, reflection, verdict, self.gate, self.optimizer)
        return self.checkpoint("step", replace(after, reopen=state.as_json()), record, place=batch.place)
