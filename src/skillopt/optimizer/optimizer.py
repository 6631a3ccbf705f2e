"""The optimizer as the training loop sees it: reflect, aggregate, select, update, and the two voices of the
longer view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from skillopt.evaluation.runner import Evaluation
from skillopt.events import Sink
from skillopt.events.state import MemoryEntry
from skillopt.models.port import Model
from skillopt.optimizer._ask import Asker, packaged
from skillopt.optimizer.aggregate import Aggregator, Merged
from skillopt.optimizer.appendix import Archivist
from skillopt.optimizer.epoch import EPOCH_AGO, Advice, Historian, Pair
from skillopt.optimizer.forms import FORMS, Mode
from skillopt.optimizer.pace import Pacer
from skillopt.optimizer.reflect import Reflection, Reflector, Side
from skillopt.optimizer.select import Selection, Selector
from skillopt.optimizer.tally import Tally
from skillopt.optimizer.update import Update, Updater
from skillopt.place import Place
from skillopt.skill.document import Document
from skillopt.tasks.rollout import means
from skillopt.tasks.template import fill

Control = Literal["fixed", "autonomous", "none"]
PATCH_PROMPTS = frozenset({"analyst_failure", "analyst_success", "merge", "ranking"})
"""Stages for which a benchmark's own prompt speaks of edits: other update modes use the generic ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAware:
    """Skill-aware reflection: who may write notes, and above how many of them the appendix is condensed (0 is
    never).
    """

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
class Lesson:
    """What the optimizer needs to know of the run's state."""

    skill: Document
    memory: tuple[MemoryEntry, ...]
    meta_skill: str


class Occasion(Protocol):
    """The step that is being taken: its place in the run, the seed of its shuffles, and how many edits it may
    apply.
    """

    @property
    def place(self) -> Place: ...

    @property
    def seed(self) -> int: ...

    @property
    def limit(self) -> int: ...


class Optimizer:
    """Stages 2 to 5 of a step, in one of the update modes."""

    def __init__(
        self,
        model: Model,
        *,
        prompts: Mapping[str, str],
        max_tokens: int,
        context_window: int,
        minibatch_size: int,
        merge_batch_size: int,
        limit: int,
        failure_only: bool,
        emit: Sink,
        mode: Mode = "patch",
        control: Control = "fixed",
        skill_aware: SkillAware | None = None,
        contrasts: bool = False,
        rewrite_max_tokens: int = 64_000,
        rewriter: Model | None = None,
    ) -> None:
        """`limit` is what one analyst may propose; `rewriter` writes whole skills where that takes another
        effort than the rest.

        `contrasts` tells the analysts how to read a task that was tried several times.
        """
        form = FORMS[mode]
        aware = None if mode == "full_rewrite_minibatch" else skill_aware
        writes_skills = (
            ("rewrite",)
            if mode != "full_rewrite_minibatch"
            else ("rewrite", "analyst_failure", "analyst_success", "merge")
        )
        self._asker = Asker(
            model,
            prompts=prompts
            if mode == "patch"
            else {stage: text for stage, text in prompts.items() if stage not in PATCH_PROMPTS},
            max_tokens=max_tokens,
            context_window=context_window,
            words=form.words(),
            suffixes=_suffixes(aware, contrasts),
            caps=dict.fromkeys(writes_skills, rewrite_max_tokens),
            models={} if rewriter is None else dict.fromkeys(writes_skills, rewriter),
        )
        self._control = "none" if mode == "full_rewrite_minibatch" else control
        self._pacer = Pacer(self._asker)
        self._reflector = Reflector(
            self._asker,
            form,
            minibatch_size=minibatch_size,
            limit=None if self._control == "none" else limit,
            failure_only=failure_only,
            emit=emit,
            notes_from=() if aware is None else aware.notes_from,
            contrasts=contrasts,
        )
        self._aggregator = Aggregator(self._asker, form, merge_batch_size=merge_batch_size, emit=emit)
        self._selector = Selector(self._asker, form, emit=emit)
        self._updater = Updater(
            self._asker,
            form,
            None if aware is None else Archivist(self._asker, threshold=aware.consolidate_above),
        )
        self._historian = Historian(self._asker)

    @property
    def control(self) -> Control:
        """Who sets the limit of a step."""
        return self._control

    async def reflect(self, lesson: Lesson, occasion: Occasion, rollouts: Evaluation) -> Reflection:
        """Stage 2: proposals of analysts, minibatch by minibatch, while rollouts still come in."""
        return await self._reflector.reflect(
            occasion.place, occasion.seed, lesson.skill.text, lesson.memory, lesson.meta_skill, rollouts
        )

    async def aggregate(self, lesson: Lesson, occasion: Occasion, reflection: Reflection) -> Merged:
        """Stage 3: one list of proposals."""
        return await self._aggregator.aggregate(
            occasion.place, lesson.skill.text, lesson.meta_skill, reflection
        )

    async def select(
        self, lesson: Lesson, occasion: Occasion, reflection: Reflection, merged: Merged
    ) -> Selection:
        """Stage 4: no more of them than the limit: the schedule's, the optimizer's own, or none at all."""
        limit, decision = occasion.limit if self._control == "fixed" else None, None
        if self._control == "autonomous":
            standing = means(reflection.rollouts)
            decision = await self._pacer.decide(
                occasion.place, lesson.skill.text, lesson.memory, lesson.meta_skill, standing, merged.edits
            )
            limit = decision.learning_rate
        return await self._selector.select(
            occasion.place, lesson.skill, lesson.memory, lesson.meta_skill, merged, limit, decision
        )

    async def update(
        self, lesson: Lesson, occasion: Occasion, reflection: Reflection, selection: Selection
    ) -> Update:
        """Stage 5: the candidate."""
        return await self._updater.update(
            occasion.place, lesson.skill, lesson.memory, lesson.meta_skill, selection, reflection.notes()
        )

    async def slow_update(
        self, lesson: Lesson, older: Document, place: Place, pairs: Sequence[Pair], ago: str = EPOCH_AGO
    ) -> Advice:
        """What the target should be told from now on; `ago` says when the older skill was."""
        guidance = lesson.skill.region("slow_update") or ""
        return await self._historian.slow_update(
            place, older.rendered, lesson.skill.rendered, guidance, pairs, ago
        )

    async def meta_skill(
        self, lesson: Lesson, older: Document, place: Place, pairs: Sequence[Pair]
    ) -> Advice:
        """What the analysts should be told from now on."""
        return await self._historian.meta_skill(
            place, older.rendered, lesson.skill.rendered, lesson.meta_skill, pairs
        )

    def tally(self, place: Place) -> Tally:
        """What the optimizer's replies of a step or epoch used; read once, when its record is written."""
        return self._asker.tallies.pop(place, Tally())


def _suffixes(aware: SkillAware | None, contrasts: bool) -> dict[str, str]:
    """What the analysts are told on top of their prompts: how to read several tries, then how to tell defects
    from lapses.
    """
    told = {} if aware is None else aware.suffixes()
    if not contrasts:
        return told
    return {
        stage: f"{packaged('contrast').strip()}\n\n{told.get(stage, '')}"
        for stage in ("analyst_failure", "analyst_success")
    }
