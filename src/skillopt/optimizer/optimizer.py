"""The optimizer as the training loop sees it: reflect, aggregate, select, update, and the longer view."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeVar

from skillopt.config.schema import GradientConfig, OptimizerConfig
from skillopt.evaluation.stage import Evaluation
from skillopt.events.step import Step
from skillopt.models.port import Model
from skillopt.optimizer.ask import OptimizerModel, packaged
from skillopt.optimizer.epoch import EpochAdvisor
from skillopt.optimizer.minibatches import Side, TriedTask, in_minibatches
from skillopt.optimizer.proof import ANALYST, Joiner, LaneAnalyst, SmallLaneAnalyst, by_kind
from skillopt.optimizer.proposers.port import Proposer
from skillopt.optimizer.reflect import Reflection, Reflector, WholeBatch
from skillopt.optimizer.replies import PAYLOADS, for_files
from skillopt.optimizer.select import Aggregator, MergedEdits, Selection, Selector, choose_limit
from skillopt.optimizer.update import Update, Updater
from skillopt.skill.document import ONE_DOCUMENT, EditableFiles
from skillopt.tasks.rollout import means
from skillopt.tasks.template import fill

T = TypeVar("T")
Control = Literal["fixed", "autonomous", "none"]
PATCH_PROMPTS = frozenset({"analyst_failure", "analyst_success", "merge", "ranking", ANALYST})
"""Stages for which a benchmark's own prompt speaks of edits: other update modes use the generic ones."""

WRITING = (*sorted(PATCH_PROMPTS), "repair", "rewrite", "meta_skill")
"""Stages that write a part of the skill, or advise those that do."""


class Optimizer:
    """Stages 2 to 5 of a step, in one of the update modes."""

    def __init__(
        self,
        model: Model,
        settings: OptimizerConfig,
        gradient: GradientConfig,
        *,
        max_tokens: int,
        context_window: int,
        rewrite_tokens: int = 64_000,
        rewriter: Model | None = None,
        proposer: Proposer | None = None,
        prompts: Mapping[str, str] | None = None,
        scoring_rule: str = "",
        about: str = "",
        files: EditableFiles = ONE_DOCUMENT,
        is_small: bool = False,
    ) -> None:
        """`rewriter` writes whole skills, of at most `rewrite_tokens`, where that takes another effort than
        the rest; a `proposer` takes the place of analysts, merging and ranking. `prompts` are the benchmark's
        own, by stage; `scoring_rule` says in words what passes, and `about` what the skill is, where it is no
        whole document. Of `files` edits may change; `is_small` asks about lanes in the form for small models.
        """
        mode = settings.skill_update_mode
        writes_whole_skills = mode == "full_rewrite_minibatch"
        own, payload = prompts or {}, PAYLOADS[mode]
        self.control: Control = "none" if writes_whole_skills else settings.lr_control_mode
        """Who sets the limit of a step; a whole skill has none."""
        is_aware = settings.use_skill_aware_reflection and not writes_whole_skills
        contrasts = gradient.rollouts_per_task > 1
        whole = ("analyst_failure", "analyst_success", "merge", ANALYST)
        writes_skills = ("rewrite", *(whole if writes_whole_skills else ()))
        own_prompts = {
            stage: text for stage, text in own.items() if mode == "patch" or stage not in PATCH_PROMPTS
        }
        if is_small:
            own_prompts = {ANALYST: packaged(f"{ANALYST}_small"), **own_prompts}
        if writes_whole_skills:
            own_prompts[ANALYST] = packaged(f"{ANALYST}_rewrite")
        suffixes = _skill_aware(settings.skill_aware_appendix_source) if is_aware else {}
        if contrasts:
            suffixes = _with_prefix(suffixes, packaged("contrast"), ("analyst_failure", "analyst_success"))
        if mode == "patch" and files != ONE_DOCUMENT:
            scripts = f"\n\n{packaged('files_scripts').strip()}" if files.scripts else ""
            stages = (
                "analyst_failure",
                "analyst_success",
                "merge",
                "repair",
                *(() if is_small else (ANALYST,)),
            )
            suffixes |= _with_prefix(suffixes, packaged("files").strip() + scripts, stages)
        if about:
            suffixes = _with_prefix(suffixes, about, WRITING)
        analyst, _, merging = packaged(f"form_{mode}").partition("\n<!-- merge -->\n")
        example = json.dumps({payload.KEY: [payload.EXAMPLE]})[1:-1]
        optimizer_model = OptimizerModel(
            model,
            prompts=own_prompts,
            max_tokens=max_tokens,
            context_window=context_window,
            words={
                "form": analyst.strip(),
                "merging": merging.strip(),
                "items": example,
                "nouns": f"{payload.NOUN}s",
            },
            suffixes=suffixes,
            caps=dict.fromkeys(writes_skills, rewrite_tokens),
            models={} if rewriter is None else dict.fromkeys(writes_skills, rewriter),
        )
        if mode == "patch":  # only edits change more than SKILL.md
            payload = for_files(payload, files)
        self._gradient = gradient
        self._is_small = is_small
        self._proposer = proposer
        self._asked = optimizer_model
        notes_from: tuple[Side, ...] = ("failure",)
        if settings.skill_aware_appendix_source == "both":
            notes_from = ("failure", "success")
        self._reflector = Reflector(
            model=optimizer_model,
            payload=payload,
            minibatch_size=gradient.minibatch_size,
            limit=None if self.control == "none" else settings.learning_rate,
            failure_only=gradient.failure_only,
            notes_from=notes_from if is_aware else (),
            contrasts=contrasts,
        )
        self.aggregate = Aggregator(
            optimizer_model, payload, merge_batch_size=gradient.merge_batch_size
        ).aggregate
        """Stage 3: one list of proposals."""
        self._selector = Selector(optimizer_model, payload, ranks=proposer is None)
        above = settings.skill_aware_consolidate_threshold if is_aware else None
        self._updater = Updater(optimizer_model, payload, above)
        self.advisor = EpochAdvisor(optimizer_model)
        self._lanes: LaneAnalyst | SmallLaneAnalyst = LaneAnalyst(
            model=optimizer_model,
            mode=mode,
            contrasts=contrasts,
            target_prompt=own.get("rollout", ""),
            scoring_rule=scoring_rule,
            files=files,
        )
        if is_small:
            self._lanes = SmallLaneAnalyst(optimizer_model, scoring_rule=scoring_rule)
        self.joiner = None if is_small or proposer is not None else Joiner(optimizer_model)

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
        failure_only = self._gradient.failure_only
        return WholeBatch(proposer=proposer, rollouts=rollouts, failure_only=failure_only, limit=limit)

    async def in_lanes(
        self, step: Step, rollouts: Evaluation, study: Callable[[int, list[TriedTask]], Awaitable[T]]
    ) -> list[T]:
        """Failures in minibatches for `study`: of one kind for a small model, all for a proposer."""
        return await in_minibatches(
            rollouts,
            "failure",
            study,
            size=self._gradient.minibatch_size if self._proposer is None else len(rollouts.rows) + 1,
            seed=step.seed,
            joins_last=True,
            group=by_kind if self._is_small else None,
        )

    def lanes_of(self, failures: Sequence[TriedTask]) -> list[list[TriedTask]]:
        """Failures that are all in, in minibatches as `in_lanes` makes them."""
        size = self._gradient.minibatch_size if self._proposer is None else max(1, len(failures))
        if self._is_small:
            return by_kind(failures, size)
        return [list(failures[at : at + size]) for at in range(0, len(failures), size)]

    async def select(self, step: Step, reflection: Reflection, merged: MergedEdits) -> Selection:
        """Stage 4: no more of them than the limit: the schedule's, the optimizer's own, or none at all."""
        limit, decision = step.limit if self.control == "fixed" else None, None
        if self.control == "autonomous":
            decision = await choose_limit(self._asked, step, means(reflection.rollouts), merged.edits)
            limit = decision.learning_rate
        return await self._selector.select(step, merged, limit, decision)

    async def update(self, step: Step, reflection: Reflection, selection: Selection) -> Update:
        """Stage 5: the candidate."""
        return await self._updater.update(step, selection, reflection.notes())


def _skill_aware(source: Literal["both", "failure_only"]) -> dict[str, str]:
    """What tells analysts to tell defects of the skill from lapses in following it."""
    notes = "" if source == "failure_only" else packaged("skill_aware_notes")
    success = fill(packaged("skill_aware_success"), {"notes": notes and f"\n\n{notes.strip()}"})
    return {"analyst_failure": packaged("skill_aware_failure"), "analyst_success": success}


def _with_prefix(suffixes: Mapping[str, str], text: str, stages: Sequence[str]) -> dict[str, str]:
    """The suffixes of these stages, each after a text."""
    return {stage: f"{text.strip()}\n\n{suffixes.get(stage, '')}" for stage in stages}
