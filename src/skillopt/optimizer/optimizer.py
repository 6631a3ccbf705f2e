"""The optimizer as the training loop sees it: reflect, aggregate, select, and the two voices of the longer view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from skillopt.evaluate.runner import Evaluation
from skillopt.events import Sink
from skillopt.models._model import Model
from skillopt.optimizer._ask import Asker
from skillopt.optimizer.aggregate import Aggregator, Merged
from skillopt.optimizer.epoch import Advice, Historian, Pair
from skillopt.optimizer.reflect import Reflection, Reflector
from skillopt.optimizer.select import Selection, Selector
from skillopt.optimizer.tally import Tally
from skillopt.skill.document import Document


class Lesson(Protocol):
    """What the optimizer needs to know of the run's state."""

    @property
    def skill(self) -> Document: ...

    @property
    def memory(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def meta_skill(self) -> str: ...


class Occasion(Protocol):
    """The step that is being taken: its place in the run, the seed of its shuffles, and how many edits it may apply."""

    @property
    def place(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def limit(self) -> int: ...


class Optimizer:
    """Stages 2 to 4 of a step, in patch mode."""

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
    ) -> None:
        self._asker = Asker(model, prompts=prompts, max_tokens=max_tokens, context_window=context_window)
        self._reflector = Reflector(self._asker, minibatch_size=minibatch_size, limit=limit, failure_only=failure_only, emit=emit)
        self._aggregator = Aggregator(self._asker, merge_batch_size=merge_batch_size, emit=emit)
        self._selector = Selector(self._asker, emit=emit)
        self._historian = Historian(self._asker)

    async def reflect(self, lesson: Lesson, occasion: Occasion, rollouts: Evaluation) -> Reflection:
        """Stage 2: edits proposed by analysts, minibatch by minibatch, while rollouts still come in."""
        return await self._reflector.reflect(occasion.place, occasion.seed, lesson.skill.text, lesson.memory, lesson.meta_skill, rollouts)

    async def aggregate(self, lesson: Lesson, occasion: Occasion, reflection: Reflection) -> Merged:
        """Stage 3: one list of edits."""
        return await self._aggregator.aggregate(occasion.place, lesson.skill.text, lesson.meta_skill, reflection)

    async def select(self, lesson: Lesson, occasion: Occasion, merged: Merged) -> Selection:
        """Stage 4: no more of them than the occasion's limit, with targets that are found."""
        return await self._selector.select(occasion.place, lesson.skill, lesson.memory, lesson.meta_skill, merged, occasion.limit)

    async def slow_update(self, lesson: Lesson, older: Document, place: str, pairs: Sequence[Pair]) -> Advice:
        """What the target should be told from now on."""
        guidance = lesson.skill.region("slow_update") or ""
        return await self._historian.slow_update(place, older.rendered, lesson.skill.rendered, guidance, pairs)

    async def meta_skill(self, lesson: Lesson, older: Document, place: str, pairs: Sequence[Pair]) -> Advice:
        """What the analysts should be told from now on."""
        return await self._historian.meta_skill(place, older.rendered, lesson.skill.rendered, lesson.meta_skill, pairs)

    def tally(self, place: str) -> Tally:
        """What the optimizer's replies of a step or epoch used; read once, when its record is written."""
        return self._asker.tallies.pop(place, Tally())
