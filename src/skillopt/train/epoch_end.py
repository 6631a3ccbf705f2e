"""The end of an epoch: how the same training tasks go with an older and a newer skill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt.aio import together
from skillopt.evaluation.runner import Evaluator, rows_of, stage_closed
from skillopt.events import EpochEnded, Sink
from skillopt.events.records import MetaSkillRecord, SlowUpdateRecord
from skillopt.events.state import State
from skillopt.gate.gate import Verdict
from skillopt.optimizer.epoch import EPOCH_AGO, Advice, Pair, PairPolicy, kept_pairs, means_of, pairs_of, slim
from skillopt.optimizer.optimizer import Lesson, Optimizer
from skillopt.place import Place
from skillopt.skill.document import Document
from skillopt.skill.store import SkillStore
from skillopt.tasks.task import Task
from skillopt.train.plan import Plan
from skillopt.train.state import adopt


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """What came before this run, where it goes on from earlier ones: the end of its first epoch then has
    something to look back to.
    """

    older: Document
    """The skill as it was then."""
    tasks: tuple[Task, ...]
    """Training tasks of that time; none of them is in val or test."""
    ago: str
    """When it was, in words: `3 nights ago`."""


class EpochComparison:
    """Compares two skills on samples of training tasks and keeps the pairs that its policy wants."""

    def __init__(self, evaluator: Evaluator, *, emit: Sink, policy: PairPolicy, wanted: int) -> None:
        self._evaluator = evaluator
        self._emit = emit
        self._policy = policy
        self._wanted = wanted

    async def compare(
        self, older: Document, newer: Document, samples: Iterable[Sequence[Task]], place: Place
    ) -> list[Pair]:
        """The first sample with both skills, side by side; most rows were measured before and cost nothing.

        Where only changed outcomes are wanted, further samples are looked at until there are enough of them.
        """
        kept: list[Pair] = []
        for number, tasks in enumerate(samples):
            pairs = await self._run(older, newer, tasks, place.of_sample(number))
            kept += kept_pairs(pairs, self._policy)
            if self._policy != "changed" or len(kept) >= self._wanted:
                break
        return kept[: self._wanted]

    async def _run(self, older: Document, newer: Document, tasks: Sequence[Task], place: Place) -> list[Pair]:
        arms = [
            self._evaluator.start(skill.rendered, rows_of(tasks), stage="rollout", place=at)
            for at, skill in ((place.of_arm("older"), older), (place.of_arm("newer"), newer))
        ]
        before, after = await together(*(arm.close() for arm in arms))
        for arm, rows in zip(arms, (before, after), strict=True):
            self._emit(stage_closed(arm.place, arm.stage, rows))
        return pairs_of(tasks, before, after)


class CandidateJudge(Protocol):
    """The gate as the trainer puts it to a candidate."""

    async def __call__(
        self, state: State, candidate: Document, *, place: Place, in_full: bool = False
    ) -> Verdict: ...


class EpochEnd:
    """The end of an epoch: a slow update for the target, which passes the gate, and advice for the analysts,
    which does not need to.
    """

    def __init__(
        self,
        comparison: EpochComparison,
        optimizer: Optimizer,
        plan: Plan,
        skills: SkillStore,
        judge: CandidateJudge,
        *,
        use_slow_update: bool,
        use_meta_skill: bool,
        gates_slow_update: bool,
        takes_unmeasured: bool,
        look_back: LookBack | None,
    ) -> None:
        """`takes_unmeasured` is for a run without a gate, where whatever is proposed is taken."""
        self._comparison = comparison
        self._optimizer = optimizer
        self._plan = plan
        self._skills = skills
        self._judge = judge
        self._use_slow_update = use_slow_update
        self._use_meta_skill = use_meta_skill
        self._gates_slow_update = gates_slow_update
        self._takes_unmeasured = takes_unmeasured
        self._look_back = look_back

    @property
    def takes_ungated(self) -> bool:
        """Whether slow updates are taken whatever the gate says."""
        return self._use_slow_update and not self._gates_slow_update

    async def look_back(self, state: State, epoch: int, place: Place) -> tuple[State, EpochEnded]:
        """The state after the longer view, and what it came to."""
        wants_slow = self._use_slow_update
        wants_meta = (
            self._use_meta_skill and epoch < self._plan.epochs
        )  # the last advice would have no reader
        older = None if state.epoch_skill is None else self._skills.get(state.epoch_skill)
        current = self._skills.get(state.skill)
        slow = SlowUpdateRecord(action=_skipped(older, wants_slow))
        meta = MetaSkillRecord(action=_skipped(older, wants_meta))
        after, pairs = state, list[Pair]()
        if older is not None and older.rendered != current.rendered and (wants_slow or wants_meta):
            lesson = Lesson(skill=current, memory=state.memory, meta_skill=state.meta_skill)
            samples = self._plan.slow_samples_of(epoch)
            pairs = await self._comparison.compare(older, current, samples, place)
            ago = EPOCH_AGO if self._look_back is None or epoch > 1 else self._look_back.ago
            optimizer = self._optimizer
            guidance, advice = await together(  # without a pair there is nothing to learn from
                optimizer.slow_update(lesson, older, place, pairs, ago)
                if wants_slow and pairs
                else _nothing_to_say(),
                optimizer.meta_skill(lesson, older, place, pairs)
                if wants_meta and pairs
                else _nothing_to_say(),
            )
            if wants_slow:
                after, slow = await self._take_guidance(state, guidance, epoch, place)
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
            id=str(place.at("ended")),
            epoch=epoch,
            slow_update=slow,
            meta_skill=meta,
            pairs=[slim(pair) for pair in pairs],
        )

    async def _take_guidance(
        self, state: State, guidance: Advice, epoch: int, place: Place
    ) -> tuple[State, SlowUpdateRecord]:
        """The slow update: guidance in its protected region, if the gate agrees.

        Where it is not to be gated it is taken whatever the verdict, but only with a complete measurement: a
        score is never assumed.
        """
        if not guidance.text:
            return state, SlowUpdateRecord(action="no_content", why=guidance.why)
        candidate = self._skills.get(state.skill).with_region("slow_update", guidance.text)
        digest = self._skills.keep(candidate)
        verdict = await self._judge(state, candidate, place=place, in_full=not self._gates_slow_update)
        measured = verdict.candidate
        forced = self._takes_unmeasured or (not self._gates_slow_update and measured is not None)
        origin = f"slow_update_epoch_{epoch:02d}"
        after, action = adopt(state, digest, verdict, step=state.step, origin=origin, forced=forced)
        return after, SlowUpdateRecord(
            action=action,
            why=verdict.why,
            slow_update_content=guidance.text,
            candidate_hash=candidate.digest[:16],
            selection_hard=None if measured is None else measured.hard,
            selection_soft=None if measured is None else measured.soft,
        )


async def _nothing_to_say() -> Advice:
    """Advice where there is no pair to learn from."""
    return Advice(
        text="", why="no task is left to compare the two skills on (optimizer.longitudinal_pair_policy)"
    )


def _skipped(older: Document | None, is_wanted: bool) -> str:
    """The public word for an end of an epoch that asked nobody."""
    return "off" if not is_wanted else "skip_first_epoch" if older is None else "skip_unchanged"
