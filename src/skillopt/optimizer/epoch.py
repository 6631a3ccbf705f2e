"""The end of an epoch: how the same tasks went with the older and the newer skill, and what the longer view
teaches.

The slow update writes guidance into the skill's protected region (and passes the gate like every change);
the meta skill advises the analysts and never reaches the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt.events.records import ArmRecord, PairRecord
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel, section, trajectory
from skillopt.optimizer.replies import AdviceReply, MetaSkill, SlowUpdate, Unusable
from skillopt.skill.document import Document, problem_with, to_lf
from skillopt.tasks.rollout import Rollout, Scored, means
from skillopt.tasks.task import Task

Category = Literal["regressed", "persistent_fail", "improved", "stable_success"]
PairPolicy = Literal["mixed", "changed", "unchanged"]
_ORDER: tuple[Category, ...] = ("regressed", "persistent_fail", "improved", "stable_success")
EPOCH_AGO = "one epoch ago"
_TITLES = {
    "regressed": "Regressed: right before, wrong now",
    "persistent_fail": "Wrong with both",
    "improved": "Improved: wrong before, right now",
    "stable_success": "Right with both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPair:
    """One training task with the older and with the newer skill."""

    task: Task
    before: Scored
    after: Scored

    @property
    def category(self) -> Category:
        was, now = self.before.score.passed, self.after.score.passed
        if was:
            return "stable_success" if now else "regressed"
        return "improved" if now else "persistent_fail"


def pairs_of(tasks: Sequence[Task], before: Sequence[Rollout], after: Sequence[Rollout]) -> list[TaskPair]:
    """The tasks that both skills were measured on."""
    rows = zip(tasks, before, after, strict=True)
    return [
        TaskPair(task=task, before=old, after=new)
        for task, old, new in rows
        if isinstance(old, Scored) and isinstance(new, Scored)
    ]


def kept_pairs(pairs: Sequence[TaskPair], policy: PairPolicy) -> list[TaskPair]:
    """The pairs a policy keeps: all, those whose outcome changed, or those whose outcome stayed."""
    if policy == "mixed":
        return list(pairs)
    return [pair for pair in pairs if (pair.category in ("improved", "regressed")) == (policy == "changed")]


def pair_record(pair: TaskPair) -> PairRecord:
    """A pair as the run's files show it."""

    def arm(row: Scored) -> ArmRecord:
        trajectory = row.trajectory
        return ArmRecord(
            hard=row.score.hard,
            soft=row.score.soft,
            predicted_answer=trajectory.answer[:2_000],
            fail_reason=trajectory.failure or "",
        )

    return PairRecord(
        id=pair.task.id,
        task=pair.task.prompt[:2_000],
        category=pair.category,
        prev=arm(pair.before),
        curr=arm(pair.after),
    )


def means_of(pairs: Sequence[TaskPair]) -> dict[str, float | None]:
    """How the compared tasks went with the older and with the newer skill."""
    return {
        "prev_hard": means([pair.before for pair in pairs]).hard,
        "curr_hard": means([pair.after for pair in pairs]).hard,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A text, or why there is none."""

    text: str
    why: str = ""
    reasoning: str = ""


class EpochAdvisor:
    """Asks for the slow update and the meta skill."""

    def __init__(self, model: OptimizerModel) -> None:
        self._model = model

    async def slow_update(self, step: Step, older: Document, pairs: Sequence[TaskPair], ago: str) -> Advice:
        """Guidance for the target from now on; `ago` says when the older skill was."""
        so_far = section("Guidance so far", step.skill.region("slow_update") or "(none yet)")
        return await self._advice(step, SlowUpdate, _skills(older, step.skill, ago) + so_far, pairs)

    async def meta_skill(self, step: Step, older: Document, pairs: Sequence[TaskPair]) -> Advice:
        """Advice for the analysts from now on."""
        so_far = section("Advice so far", step.meta_skill or "(none yet)")
        return await self._advice(step, MetaSkill, _skills(older, step.skill, EPOCH_AGO) + so_far, pairs)

    async def _advice(
        self, step: Step, shape: type[AdviceReply], fixed: str, pairs: Sequence[TaskPair]
    ) -> Advice:
        user = fixed + _comparison(pairs, self._model.room(fixed, shape.STAGE))
        reply = await self._model.ask(step, shape.STAGE, "0", user, shape)
        if isinstance(reply, Unusable):
            return Advice(text="", why=f"the reply cannot be used: {reply}")
        text, why = to_lf(reply.text).strip(), reply.reasoning
        if problem := problem_with(text):
            return Advice(text="", why=f"the text {problem}", reasoning=why)
        return Advice(text=text, why="" if text else "there was nothing worth saying", reasoning=why)


def _skills(older: Document, newer: Document, ago: str) -> str:
    return section(f"Skill {ago}", f"<skill>\n{older.rendered}\n</skill>") + section(
        "Skill now", f"<skill>\n{newer.rendered}\n</skill>"
    )


def _comparison(pairs: Sequence[TaskPair], room: int) -> str:
    shown = [pair for pair in pairs if pair.category != "stable_success"]
    share = max(400, room // max(1, 2 * len(shown)))
    parts = [f"{len(pairs)} training tasks are shown, each run with both skills."]
    for category in _ORDER:
        members = [pair for pair in pairs if pair.category == category]
        if not members:
            continue
        parts.append(f"## {_TITLES[category]} ({len(members)})")
        if category == "stable_success":
            parts.append(", ".join(pair.task.id for pair in members))
            continue
        for pair in members:
            parts.append(f"With the older skill:\n{trajectory(pair.task, pair.before, share)}")
            parts.append(
                f"With the newer skill:\n{trajectory(pair.task, pair.after, share, with_task=False)}"
            )
    return section("Comparison", "\n\n".join(parts))
