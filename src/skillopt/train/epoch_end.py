"""The end of an epoch: how the same training tasks go with an older and a newer skill."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from skillopt.config.schema import OptimizerConfig
from skillopt.evaluation.runner import rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.events import EpochEnded
from skillopt.events.place import Arm
from skillopt.events.records import MetaSkillRecord, SlowUpdateRecord
from skillopt.events.state import State
from skillopt.events.step import Step
from skillopt.gate.gate import Gate, Verdict
from skillopt.optimizer.epoch import (
    EPOCH_AGO,
    Advice,
    TaskPair,
    kept_pairs,
    means_of,
    pair_record,
    pairs_of,
)
from skillopt.optimizer.optimizer import Optimizer
from skillopt.process.waiting import together
from skillopt.skill.document import Document
from skillopt.skill.store import SkillStore
from skillopt.tasks.task import Task
from skillopt.train.closing import after_verdict
from skillopt.train.plan import Plan

_ARMS: tuple[Arm, Arm] = ("older", "newer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """What came before a run that goes on from earlier ones: its first epoch's end looks back to it."""

    older: Document
    """The skill as it was then."""
    tasks: tuple[Task, ...]
    """Training tasks of that time; none of them is in val or test."""
    ago: str
    """When it was, in words: `3 nights ago`."""


class CandidateJudge(Protocol):
    """The gate as the trainer puts it to a candidate."""

    async def __call__(
        self, step: Step, state: State, candidate: Document, *, in_full: bool = False
    ) -> Verdict: ...


@dataclass(eq=False)
class EpochEnd:
    """A slow update for the target, which passes the gate, and advice for the analysts, which does not need
    to; both learn from how the same tasks went an epoch ago and now.
    """

    settings: OptimizerConfig
    _: KW_ONLY
    gate: Gate
    optimizer: Optimizer
    plan: Plan
    skills: SkillStore
    judge: CandidateJudge
    earlier: LookBack | None = None

    async def look_back(self, step: Step, state: State, epoch: int) -> tuple[State, EpochEnded]:
        """The state after the longer view, and what it came to."""
        wants_slow = self.settings.use_slow_update
        is_last = epoch == self.plan.epochs
        wants_meta = self.settings.use_meta_skill and not is_last  # the last advice would have no reader
        older = None if state.epoch_skill is None else self.skills.get(state.epoch_skill)
        slow = SlowUpdateRecord(action=_skipped(older, wants_slow))
        meta = MetaSkillRecord(action=_skipped(older, wants_meta))
        after, pairs = state, list[TaskPair]()
        is_same = older is not None and older.rendered == step.skill.rendered
        is_skipped = is_same and self.settings.skip_unchanged_epochs
        if older is not None and not is_skipped and (wants_slow or wants_meta):
            pairs = await self._compare(step, older, epoch)
            ago = EPOCH_AGO if self.earlier is None or epoch > 1 else self.earlier.ago
            advisor = self.optimizer.advisor
            guidance, advice = await together(  # without a pair there is nothing to learn from
                advisor.slow_update(step, older, pairs, ago) if wants_slow and pairs else _no_advice(),
                advisor.meta_skill(step, older, pairs) if wants_meta and pairs else _no_advice(),
            )
            if wants_slow:
                after, slow = await self._take_guidance(step, state, guidance, epoch)
                slow = slow.model_copy(update={"reasoning": guidance.reasoning, **means_of(pairs)})
            if wants_meta:
                after = after.replace(meta_skill=advice.text or after.meta_skill)
                meta = MetaSkillRecord(
                    action="write_meta_skill" if advice.text else "no_content",
                    why=advice.why,
                    reasoning=advice.reasoning,
                    meta_skill_content=advice.text,
                )
        return after, EpochEnded(
            id=str(step.place.at("ended")),
            epoch=epoch,
            slow_update=slow,
            meta_skill=meta,
            pairs=[pair_record(pair) for pair in pairs],
        )

    async def _compare(self, step: Step, older: Document, epoch: int) -> list[TaskPair]:
        """Run the older and the new skill on the same sample of tasks and pair the results by task.

        Rows measured before cost nothing. Policy `changed` runs further samples until enough pairs are kept.
        """
        policy, wanted = self.settings.longitudinal_pair_policy, self.plan.slow_samples
        kept: list[TaskPair] = []
        for number, tasks in enumerate(self.plan.slow_samples_of(epoch)):
            # Each arm holds its facts, so that they stand in the log in one order, whichever is in first.
            before, after = (step.at(step.place.part(sample=number, arm=arm), holds=True) for arm in _ARMS)
            rows = await together(
                *(
                    Evaluation(
                        self.gate.evaluator, arm, skill.rendered, rows_of(tasks), stage="rollout"
                    ).close()
                    for arm, skill in ((before, older), (after, step.skill))
                )
            )
            before.emit.commit()
            after.emit.commit()
            kept += kept_pairs(pairs_of(tasks, *rows), policy)
            if policy != "changed" or len(kept) >= wanted:
                break
        return kept[:wanted]

    async def _take_guidance(
        self, step: Step, state: State, guidance: Advice, epoch: int
    ) -> tuple[State, SlowUpdateRecord]:
        """The slow update: guidance in its protected region, if the gate agrees.

        Where it is not to be gated it is taken whatever the verdict, but only with a complete measurement.
        """
        if not guidance.text:
            return state, SlowUpdateRecord(action="no_content", why=guidance.why)
        is_gated = self.settings.slow_update_gate_with_selection
        candidate = step.skill.with_region("slow_update", guidance.text)
        digest = self.skills.keep(candidate)
        verdict = await self.judge(step, state, candidate, in_full=not is_gated)
        measured = verdict.candidate
        forced = not self.gate.is_on or (not is_gated and measured is not None)
        origin = f"slow_update_epoch_{epoch:02d}"
        after, action = after_verdict(state, digest, verdict, step=state.step, origin=origin, forced=forced)
        return after, SlowUpdateRecord(
            action=action,
            why=verdict.why,
            slow_update_content=guidance.text,
            candidate_hash=candidate.digest[:16],
            selection_hard=None if measured is None else measured.hard,
            selection_soft=None if measured is None else measured.soft,
        )


async def _no_advice() -> Advice:
    """Advice where there is no pair to learn from."""
    return Advice(
        text="", why="no task is left to compare the two skills on (optimizer.longitudinal_pair_policy)"
    )


def _skipped(older: Document | None, is_wanted: bool) -> str:
    """The public word for an end of an epoch that asked nobody."""
    return "off" if not is_wanted else "skip_first_epoch" if older is None else "skip_unchanged"
