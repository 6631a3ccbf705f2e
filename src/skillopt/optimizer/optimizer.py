"""The optimizer as the training loop sees it: reflect, aggregate, select, update, and the longer view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from skillopt.evaluation.stage import Evaluation
from skillopt.models.port import Model
from skillopt.optimizer.aggregate import Aggregator, Merged
from skillopt.optimizer.ask import OptimizerModel, packaged
from skillopt.optimizer.epoch import EpochAdvisor
from skillopt.optimizer.forms import Mode, form_of
from skillopt.optimizer.minibatches import Side, Studied, in_minibatches
from skillopt.optimizer.proof import ANALYST, Joiner, LaneAdviser, LaneAnalyst, LaneRewriter
from skillopt.optimizer.proposers.port import Proposer
from skillopt.optimizer.reflect import Reflection, Reflector
from skillopt.optimizer.select import Selection, Selector, choose_limit
from skillopt.optimizer.small import SmallLaneAnalyst, by_kind
from skillopt.optimizer.update import Update, Updater
from skillopt.optimizer.whole_batch import WholeBatch
from skillopt.skill.paths import ONE_DOCUMENT, EditableFiles
from skillopt.step import Step
from skillopt.tasks.rollout import means
from skillopt.tasks.template import fill

T = TypeVar("T")
Control = Literal["fixed", "autonomous", "none"]
PATCH_PROMPTS = frozenset({"analyst_failure", "analyst_success", "merge", "ranking", ANALYST})
"""Stages for which a benchmark's own prompt speaks of edits: other update modes use the generic ones."""

WRITING = (*sorted(PATCH_PROMPTS), "repair", "rewrite", "meta_skill")
"""Stages that write a part of the skill, or advise those that do."""
LANE_ANALYSTS: Mapping[Mode, type[LaneAnalyst]] = {
    "patch": LaneAnalyst,
    "rewrite_from_suggestions": LaneAdviser,
    "full_rewrite_minibatch": LaneRewriter,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAware:
    """Skill-aware reflection: who may write notes, and above how many they are condensed (0: never)."""

    source: Literal["both", "failure_only"] = "both"
    consolidate_above: int = 0

    @property
    def notes_from(self) -> tuple[Side, ...]:
        return ("failure",) if self.source == "failure_only" else ("failure", "success")

    def suffixes(self) -> dict[str, str]:
        """What the analysts are told on top of their prompts."""
        notes = "" if self.source == "failure_only" else packaged("skill_aware_notes")
        success = fill(packaged("skill_aware_success"), {"notes": notes and f"\n\n{notes.strip()}"})
        return {"analyst_failure": packaged("skill_aware_failure"), "analyst_success": success}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """How a step changes the skill, by the names of the configuration (`gradient`, `optimizer`, `model`)."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    """The benchmark's own, by stage."""
    max_tokens: int
    context_window: int
    minibatch_size: int
    merge_batch_size: int
    failure_only: bool
    scoring_rule: str = ""
    """What passes, in words; empty where the benchmark does not say."""
    about: str = ""
    """What the skill is, where it is no whole document; everybody who writes is told."""
    small: bool = False
    """Whether lanes are asked about in the form for small models."""
    rollouts_per_task: int = 1
    """Where a task is tried several times, analysts are told how to read that."""
    learning_rate: int
    """Most proposals one analyst may make."""
    skill_update_mode: Mode = "patch"
    lr_control_mode: Control = "fixed"
    skill_aware: SkillAware | None = None
    rewrite_max_completion_tokens: int = 64_000
    files: EditableFiles = ONE_DOCUMENT
    """The files of the skill that edits may change."""

    @property
    def writes_whole_skills(self) -> bool:
        return self.skill_update_mode == "full_rewrite_minibatch"

    @property
    def control(self) -> Control:
        """Who sets the limit of a step; a whole skill has none."""
        return "none" if self.writes_whole_skills else self.lr_control_mode


class Optimizer:
    """Stages 2 to 5 of a step, in one of the update modes."""

    def __init__(
        self,
        model: Model,
        settings: OptimizerSettings,
        rewriter: Model | None = None,
        proposer: Proposer | None = None,
    ) -> None:
        """`rewriter` writes whole skills, where that takes another effort than the rest; a `proposer` takes
        the place of analysts, merging and ranking.
        """
        form = form_of(settings.skill_update_mode, settings.files)
        aware = None if settings.writes_whole_skills else settings.skill_aware
        contrasts = settings.rollouts_per_task > 1
        whole = ("analyst_failure", "analyst_success", "merge", ANALYST)
        writes_skills = ("rewrite", *(whole if settings.writes_whole_skills else ()))
        own_prompts = {
            stage: text
            for stage, text in settings.prompts.items()
            if settings.skill_update_mode == "patch" or stage not in PATCH_PROMPTS
        }
        if settings.small:
            own_prompts = {ANALYST: packaged(f"{ANALYST}_small"), **own_prompts}
        if settings.writes_whole_skills:
            own_prompts[ANALYST] = packaged(f"{ANALYST}_rewrite")
        asked = OptimizerModel(
            model,
            prompts=own_prompts,
            max_tokens=settings.max_tokens,
            context_window=settings.context_window,
            words=form.words(),
            suffixes=_suffixes(aware, contrasts, settings),
            caps=dict.fromkeys(writes_skills, settings.rewrite_max_completion_tokens),
            models={} if rewriter is None else dict.fromkeys(writes_skills, rewriter),
        )
        self._settings = settings
        self._proposer = proposer
        self._asked = asked
        self._reflector = Reflector(
            model=asked,
            form=form,
            minibatch_size=settings.minibatch_size,
            limit=None if settings.control == "none" else settings.learning_rate,
            failure_only=settings.failure_only,
            notes_from=() if aware is None else aware.notes_from,
            contrasts=contrasts,
        )
        self.aggregate = Aggregator(asked, form, merge_batch_size=settings.merge_batch_size).aggregate
        """Stage 3: one list of proposals."""
        self._selector = Selector(asked, form, ranks=proposer is None)
        self._updater = Updater(asked, form, None if aware is None else aware.consolidate_above)
        self.advisor = EpochAdvisor(asked)
        self._lanes: LaneAnalyst | SmallLaneAnalyst = LANE_ANALYSTS[settings.skill_update_mode](
            model=asked,
            contrasts=contrasts,
            target_prompt=settings.prompts.get("rollout", ""),
            scoring_rule=settings.scoring_rule,
            files=settings.files,
        )
        if settings.small:
            self._lanes = SmallLaneAnalyst(asked, scoring_rule=settings.scoring_rule)
        self.joiner = None if settings.small or proposer is not None else Joiner(asked)

    @property
    def control(self) -> Control:
        """Who sets the limit of a step."""
        return self._settings.control

    async def reflect(self, step: Step, rollouts: Evaluation) -> Reflection:
        """Stage 2: proposals of analysts while rollouts come in, or of the proposer for all of them."""
        if self._proposer is None:
            return await self._reflector.reflect(step, rollouts)
        limit = step.limit if self.control == "fixed" else None
        return await self._whole(self._proposer, rollouts, limit).reflect(step)

    def lanes(self, rollouts: Evaluation) -> LaneAnalyst | SmallLaneAnalyst | WholeBatch:
        """Who studies the failures of `proof` in a batch."""
        return self._lanes if self._proposer is None else self._whole(self._proposer, rollouts)

    def _whole(self, proposer: Proposer, rollouts: Evaluation, limit: int | None = None) -> WholeBatch:
        failure_only = self._settings.failure_only
        return WholeBatch(proposer=proposer, rollouts=rollouts, failure_only=failure_only, limit=limit)

    async def in_lanes(
        self, step: Step, rollouts: Evaluation, study: Callable[[int, list[Studied]], Awaitable[T]]
    ) -> list[T]:
        """Failures in minibatches for `study`: of one kind for a small model, all for a proposer."""
        return await in_minibatches(
            rollouts,
            "failure",
            study,
            size=self._settings.minibatch_size if self._proposer is None else len(rollouts.rows) + 1,
            seed=step.seed,
            joins_last=True,
            group=by_kind if self._settings.small else None,
        )

    def lanes_of(self, failures: Sequence[Studied]) -> list[list[Studied]]:
        """Failures that are all in, in minibatches as `in_lanes` makes them."""
        size = self._settings.minibatch_size if self._proposer is None else max(1, len(failures))
        if self._settings.small:
            return by_kind(failures, size)
        return [list(failures[at : at + size]) for at in range(0, len(failures), size)]

    async def select(self, step: Step, reflection: Reflection, merged: Merged) -> Selection:
        """Stage 4: no more of them than the limit: the schedule's, the optimizer's own, or none at all."""
        limit, decision = step.limit if self.control == "fixed" else None, None
        if self.control == "autonomous":
            decision = await choose_limit(self._asked, step, means(reflection.rollouts), merged.edits)
            limit = decision.learning_rate
        return await self._selector.select(step, merged, limit, decision)

    async def update(self, step: Step, reflection: Reflection, selection: Selection) -> Update:
        """Stage 5: the candidate."""
        return await self._updater.update(step, selection, reflection.notes())


def _suffixes(aware: SkillAware | None, contrasts: bool, settings: OptimizerSettings) -> dict[str, str]:
    """What stages are told on top of their prompts: what the skill is, which files it has, how to read
    several tries, then how to tell defects from lapses.
    """
    told = {} if aware is None else aware.suffixes()
    if contrasts:
        told = {
            stage: f"{packaged('contrast').strip()}\n\n{told.get(stage, '')}"
            for stage in ("analyst_failure", "analyst_success")
        }
    if settings.skill_update_mode == "patch" and settings.files != ONE_DOCUMENT:
        files = packaged("files").strip()
        files += f"\n\n{packaged('files_scripts').strip()}" if settings.files.scripts else ""
        write_edits = ("analyst_failure", "analyst_success", "merge", "repair")
        for stage in write_edits if settings.small else (*write_edits, ANALYST):
            told[stage] = f"{files}\n\n{told.get(stage, '')}"
    if settings.about:
        told = {stage: f"{settings.about.strip()}\n\n{told.get(stage, '')}" for stage in WRITING}
    return told
