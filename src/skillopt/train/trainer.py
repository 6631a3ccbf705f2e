"""The training loop: what SkillOpt does, on one screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from skillopt.errors import BudgetSpent, ProviderDown, UnusableReplies
from skillopt.evaluate.runner import Evaluator, rows_of, stage_closed
from skillopt.events import Checkpoint, EpochEnded, Event, Notice, Updated
from skillopt.gate.gate import Gate, Measured, Verdict
from skillopt.optimizer._replies import Unusable
from skillopt.optimizer.epoch import Pair, pairs_of
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.reflect import Reflection
from skillopt.skill.document import Document, problem_with, to_lf
from skillopt.skill.edits import Outcome, apply
from skillopt.tasks.rollout import Invalid, Rollout
from skillopt.together import together
from skillopt.train.exam import Exam, Report
from skillopt.train.plan import Batch, Plan
from skillopt.train.records import step_record, tally_rows
from skillopt.train.state import State


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
    """What training ended with. `ended_early` says why, when the budget ended it before the plan did."""

    state: State
    report: Report
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
        self._clock = clock
        self._measured: dict[str, Measured] = {}

    async def fit(self, skill: Document) -> Fitted:
        try:
            state = self.load() or await self.baseline(skill)
            for epoch in self.plan.epochs_left(state):
                self.exam.start_early(state.seed)
                for batch in self.plan.batches_left(epoch, state):
                    state = await self.step(state, batch)
                state = await self.end_epoch(state, epoch)
            return await self.finish(state)
        except BudgetSpent as spent:
            return await self.finish_early(spent)

    async def step(self, state: State, batch: Batch) -> State:
        watch = Stopwatch(self._clock)
        rollouts = self.evaluator.start(state.skill.rendered, batch.rows, stage="rollout", place=batch.place)  # 1 forward pass
        reflection = await self.optimizer.reflect(state, batch.place, batch.seed, rollouts)  # 2 backward pass
        watch.lap("reflect")
        if reflection.is_inconclusive:
            return self.close_lost_step(state, batch, reflection, watch)
        merged = await self.optimizer.aggregate(state, batch.place, reflection)  # 3 reduce
        watch.lap("aggregate")
        selection = await self.optimizer.select(state, batch.place, merged, batch.limit)  # 4 clip to the learning rate
        watch.lap("select")
        applied = apply(selection.patch, state.skill)  # 5 update
        outcomes = (*selection.ended, *applied.outcomes)
        self.log.emit(_updated(batch.place, applied.document, outcomes))
        watch.lap("update")
        verdict = await self.consider(state, applied.document, place=batch.place)  # 6 gate
        watch.lap("evaluate")

        after, action = state.adopt(applied.document, verdict, step=batch.step, origin=f"step_{batch.step:04d}", forced=not self.gate.is_on)
        if action == "unchanged" and not outcomes:
            action = "skip_no_patches"
        if action in ("accept", "accept_new_best", "force_accept", "reject"):
            after = after.remember(_memory(batch.step, action, verdict, outcomes, reflection))
        after = replace(after, step=batch.step, reopen=None)
        tally = self.optimizer.tally(batch.place)
        tally_rows(tally, "rollout", reflection.rollouts)
        tally_rows(tally, "selection", verdict.rows)
        record = step_record(
            batch,
            after,
            reflection=reflection,
            merged=len(merged.edits),
            selected=len(selection.patch),
            outcomes=outcomes,
            candidate=applied.document,
            verdict=verdict,
            action=action,
            gate=self.gate,
            tokens=tally,
            timing=watch.laps,
        )
        return self.checkpoint("step", after, record, place=batch.place)

    async def consider(self, state: State, candidate: Document, *, place: str, promotes: bool = False) -> Verdict:
        """The gate: every change to the skill passes here, measured against the skill it replaces.

        A promotion (and every candidate while the gate is off) is measured against the best instead.
        """
        replaced = state.best if promotes else state.skill
        incumbent = self.measured(replaced if self.gate.is_on else state.best)
        if candidate.rendered == replaced.rendered:
            return self.gate.unchanged(incumbent, place)
        verdict = await self.gate.judge(candidate.rendered, incumbent, place)
        if verdict.candidate is not None:
            self._measured[candidate.rendered] = verdict.candidate
        return verdict

    async def end_epoch(self, state: State, epoch: int) -> State:
        """Slow update and meta skill: what the comparison of two epochs teaches."""
        place = self.plan.end_place(epoch, state)
        older, newer = state.epoch_skill, state.skill
        slow: dict[str, Any] = {"action": "skip_first_epoch" if older is None else "skip_unchanged"}
        meta: dict[str, Any] = dict(slow)
        after = state
        if older is not None and older.rendered != newer.rendered and (self.use_slow_update or self.use_meta_skill):
            pairs = await self.look_back(older, newer, epoch, place)
            wants_meta = self.use_meta_skill and epoch < self.plan.epochs  # the last epoch's advice would have no reader
            slow_reply, meta_reply = await together(
                self.slow_update(state, older, place, pairs) if self.use_slow_update else _nothing(),
                self.meta_skill(state, older, place, pairs) if wants_meta else _nothing(),
            )
            if slow_reply:
                candidate = newer.with_region("slow_update", slow_reply)
                verdict = await self.consider(state, candidate, place=place)
                after, action = state.adopt(
                    candidate, verdict, step=state.step, origin=f"slow_update_epoch_{epoch:02d}", forced=not self.gate.is_on
                )
                slow = {"action": action, "why": verdict.why, "slow_update_content": slow_reply, "candidate_hash": candidate.digest[:16]}
            else:
                slow = {"action": "no_content" if self.use_slow_update else "off"}
            meta = {"action": "write_meta_skill" if meta_reply else "no_content" if wants_meta else "off", "meta_skill_content": meta_reply}
            after = replace(after, meta_skill=meta_reply or after.meta_skill)
        after = replace(after, epoch=epoch, epoch_skill=after.skill)
        self.log.emit(EpochEnded(id=f"{place}/ended", epoch=epoch, slow_update=slow, meta_skill=meta))
        return self.checkpoint("epoch", after, {"epoch": epoch, "tokens": self.optimizer.tally(place).as_json()}, place=place)

    async def look_back(self, older: Document, newer: Document, epoch: int, place: str) -> list[Pair]:
        """The same training tasks with both skills, side by side; most were measured before and cost nothing."""
        tasks = self.plan.slow_sample(epoch)
        arms = [
            self.evaluator.start(skill.rendered, rows_of(tasks), stage="rollout", place=f"{place}/{name}")
            for name, skill in (("older", older), ("newer", newer))
        ]
        before, after = await together(*(arm.close() for arm in arms))
        for arm, rows in zip(arms, (before, after), strict=True):
            self.log.emit(stage_closed(arm.place, arm.stage, rows))
        return pairs_of(tasks, before, after)

    async def slow_update(self, state: State, older: Document, place: str, pairs: Sequence[Pair]) -> str:
        guidance = state.skill.region("slow_update") or ""
        reply = await self.optimizer.historian.slow_update(place, older.rendered, state.skill.rendered, guidance, pairs)
        return "" if isinstance(reply, Unusable) or problem_with(to_lf(reply.slow_update_content)) else reply.slow_update_content.strip()

    async def meta_skill(self, state: State, older: Document, place: str, pairs: Sequence[Pair]) -> str:
        reply = await self.optimizer.historian.meta_skill(place, older.rendered, state.skill.rendered, state.meta_skill, pairs)
        return "" if isinstance(reply, Unusable) else reply.meta_skill_content.strip()

    async def finish(self, state: State) -> Fitted:
        """Promote the last skill if it beats the best, then open the seal."""
        if state.skill.rendered != state.best.rendered and state.score is not None:
            verdict = await self.consider(state, state.skill, place="finish", promotes=True)
            if verdict.action == "accept" and verdict.candidate is not None:
                best_score = verdict.candidate.score
                state = replace(state, best=state.skill, best_score=best_score, best_step=state.step, best_origin=state.origin)
        report = await self.examine(state)
        state = replace(state, finished=True)
        self.checkpoint("finish", state, {}, place="finish")
        return Fitted(state=state, report=report)

    async def finish_early(self, spent: BudgetSpent) -> Fitted:
        """The budget ended the run: test what there is from the set-aside; the run stays open for a larger budget."""
        state = self.load()
        if state is None:
            raise spent
        try:
            report = await self.examine(state)
        except BudgetSpent:
            report = Report(measured=False, why="the budget does not pay for the rest of it; what was measured is kept")
        return Fitted(state=state, report=report, ended_early=str(spent))

    async def examine(self, state: State) -> Report:
        position = f"test/{state.epoch}.{state.step}"
        skills = {"seed": state.seed, "best": state.best}
        if not self.gate.is_on:
            skills["final"] = state.skill
        return await self.exam.measure(skills, position, look=self.log.looks(position) + 1)

    async def baseline(self, skill: Document) -> State:
        """Measure the seed on the whole of val; what cannot be measured leaves the gate by name, at most a tenth of the tasks."""
        rows = list(self.gate.rows.values())
        evaluation = self.evaluator.start(skill.rendered, rows, stage="selection", place="baseline")
        outcomes = await evaluation.close(_check_losses)
        lost = sorted({row.task_id for row in outcomes if isinstance(row, Invalid)})
        self.gate.leave_out(lost)
        kept = [row for row in outcomes if row.task_id not in set(lost)]
        measured = self._measured[skill.rendered] = self.gate.measured(skill.rendered, kept)
        self.log.emit(stage_closed("baseline", "selection", outcomes))
        state = State(
            seed=skill,
            skill=skill,
            best=skill,
            score=measured.score,
            best_score=measured.score,
            baseline_score=measured.score,
            left_out=tuple(lost),
            set_aside=self.exam.estimate(outcomes),
        )
        if lost:
            self.log.emit(Notice(text=f"Left out of the gate, not measurable at baseline: {', '.join(lost)}", level="warning"))
        state = self.checkpoint("baseline", state, {}, place="baseline")
        self.exam.provide(state.set_aside)
        return state

    def load(self) -> State | None:
        """Where the run stands, if it was started before."""
        data = self.log.last_state()
        if data is None:
            return None
        state = State.from_json(data)
        self.gate.leave_out(state.left_out)
        self.exam.provide(state.set_aside)
        return state

    def measured(self, skill: Document) -> Measured:
        """An incumbent's rows, from memory or from the store."""
        text = skill.rendered
        if text not in self._measured:
            self._measured[text] = self.gate.remembered(text)
        return self._measured[text]

    def close_lost_step(self, state: State, batch: Batch, reflection: Reflection, watch: Stopwatch) -> State:
        """More than half of the analysts were unreadable: inconclusive. Twice in a row stops the run with both steps open again."""
        if state.reopen is not None:
            before = State.from_json(state.reopen)
            takes = {step: before.takes.get(step, 0) + 1 for step in (batch.step - 1, batch.step)}
            self.checkpoint("reopened", replace(before, takes={**before.takes, **takes}), {"from_step": batch.step - 1}, place=batch.place)
            causes = sorted({one.dropped for one in reflection.minibatches if one.dropped})
            raise UnusableReplies(
                "Two steps in a row lost most of their reflections: the optimizer's replies cannot be read ("
                + "; ".join(causes)
                + "). Both steps are open again. Try another optimizer model, then run the same command."
            )
        why = (
            f"{sum(one.dropped is not None for one in reflection.minibatches)} of {len(reflection.minibatches)} reflections were unreadable"
        )
        verdict = Verdict(
            action="inconclusive", why=why, incumbent=state.score or 0.0, candidate=None, bound=None, rows=(), rows_total=0,
            verified=self.gate.verified,
        )  # fmt: skip
        self.log.emit(self.gate.event(batch.place, verdict))
        after = replace(state, step=batch.step, reopen=state.as_json())
        tally = self.optimizer.tally(batch.place)
        tally_rows(tally, "rollout", reflection.rollouts)
        record = step_record(
            batch, after, reflection=reflection, merged=0, selected=0, outcomes=_proposed(reflection), candidate=state.skill,
            verdict=verdict, action="inconclusive", gate=self.gate, tokens=tally, timing=watch.laps,
        )  # fmt: skip
        return self.checkpoint("step", after, record, place=batch.place)

    def checkpoint(self, kind: Any, state: State, record: Mapping[str, Any], *, place: str) -> State:
        """From here the run goes on after whatever happens."""
        self.log.emit(Checkpoint(id=f"{place}/{kind}", kind=kind, state=state.as_json(), record=dict(record)))
        return state


class Stopwatch:
    """Laps by stage name, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = self._clock()
        self.laps[name] = now - self._since
        self._since = now


async def _nothing() -> str:
    return ""


def _updated(place: str, candidate: Document, outcomes: Sequence[Outcome]) -> Updated:
    ended = [{"id": one.edit.id, "state": one.state, "reason": one.reason, "edit": one.edit.as_json()} for one in outcomes]
    return Updated(id=f"{place}/update", place=place, candidate=candidate.digest, skill=candidate.text, outcomes=ended)


def _memory(step: int, action: str, verdict: Verdict, outcomes: Sequence[Outcome], reflection: Reflection) -> dict[str, Any]:
    edits = [
        {key: value for key, value in one.edit.as_json().items() if key in ("op", "target", "content")}
        for one in outcomes
        if one.state == "applied"
    ]
    said = "accepted" if action.startswith("accept") else "taken without a gate" if action == "force_accept" else "rejected"
    return {"step": step, "action": said, "why": verdict.why, "edits": edits, "patterns": reflection.patterns()[:5]}


def _proposed(reflection: Reflection) -> list[Outcome]:
    edits = [edit for one in reflection.minibatches for edit in one.edits]
    return [Outcome(edit=edit, state="over_limit", reason="the step is inconclusive, its limit is 0") for edit in edits]


def _check_losses(outcomes: Sequence[Rollout]) -> None:
    tasks = {row.task_id for row in outcomes}
    lost = {row.task_id for row in outcomes if isinstance(row, Invalid)}
    if len(lost) * 10 > len(tasks):
        causes = sorted({f"  {row.task_id}: {row.kind}: {row.detail}" for row in outcomes if isinstance(row, Invalid)})
        raise ProviderDown(
            f"{len(lost)} of {len(tasks)} val tasks could not be measured with the seed skill, more than a tenth:\n"
            + "\n".join(causes[:20])
            + "\nNo score was made of it. Remove the cause and run the same command again."
        )
