"""Asks the optimizer model one question with at most one re-ask, and counts what was used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel

from skillopt.errors import Fault, ProviderDown
from skillopt.events.place import Place
from skillopt.events.step import Step
from skillopt.messages import Message, Reply, Request
from skillopt.models.port import Model
from skillopt.models.reading import asked_again, schema_of
from skillopt.optimizer.render import memory_section, section, skill_section
from skillopt.optimizer.replies import Unusable, read
from skillopt.tasks.benchmark import OPTIMIZER_STAGES
from skillopt.tasks.template import fill

R = TypeVar("R", bound=BaseModel)
CHARACTERS = 3
"""Of a token, on the safe side."""


class OptimizerModel:
    """The optimizer model with its prompts: a question has a stage, a place and a shape."""

    def __init__(
        self,
        model: Model,
        *,
        prompts: Mapping[str, str],
        max_tokens: int,
        context_window: int,
        words: Mapping[str, str] | None = None,
        suffixes: Mapping[str, str] | None = None,
        caps: Mapping[str, int] | None = None,
        models: Mapping[str, Model] | None = None,
    ) -> None:
        """`words` fill placeholders, `suffixes` go behind; `caps` and `models` are of single stages."""
        self._model = model
        self._prompts = {
            stage: fill(prompts.get(stage) or packaged(stage), words or {}) for stage in OPTIMIZER_STAGES
        }
        for stage, suffix in (suffixes or {}).items():
            self._prompts[stage] = f"{self._prompts[stage].rstrip()}\n\n{suffix.strip()}\n"
        self._max_tokens = max_tokens
        self._window = context_window
        self._caps = dict(caps or {})
        self._models = dict(models or {})

    def room(self, fixed: str, stage: str) -> int:
        """Characters left for evidence beside the fixed part of a prompt, on the safe side."""
        used = len(self._prompts[stage]) + len(fixed) + self._reserve
        return max(0, (self._window - self._cap(stage)) * CHARACTERS - used)

    def background(self, step: Step, skill: str) -> str:
        """What a question begins with: skill, advice, and memory, which may take a sixth of the window."""
        advice = section("Advice from earlier epochs", step.meta_skill)
        return skill_section(skill) + advice + memory_section(step.memory, self._window * CHARACTERS // 6)

    @property
    def _reserve(self) -> int:
        """Characters kept for headings and for asking once more, which quotes a reply only as far."""
        return min(4_400, self._window * CHARACTERS // 12)

    async def ask(self, step: Step, stage: str, item: str, user: str, shape: type[R]) -> R | Unusable:
        """The reply in its shape, or why there is none after a re-ask; a dead provider stops the run."""
        messages: tuple[Message, ...] = (
            Message(role="system", content=self._prompts[stage]),
            Message(role="user", content=user),
        )
        trouble = Unusable("not asked")
        for attempt in (0, 1):
            reply = await self._send(stage, step.place.at(stage, item, attempt=attempt), messages, shape)
            step.tokens.add(stage, 1, reply.usage)
            try:
                return read(reply, shape)
            except Unusable as error:
                most, trouble = self._reserve - 400, error
                said = reply.text if len(reply.text) <= most else f"{reply.text[:most]}\n[cut]"
                messages = asked_again(messages, said, error)
        return trouble

    async def _send(
        self, stage: str, place: Place, messages: tuple[Message, ...], shape: type[BaseModel]
    ) -> Reply:
        request = Request(
            messages=messages,
            max_tokens=self._cap(stage),
            role="optimizer",
            stage=stage,
            place=str(place),
            schema=schema_of(shape),
        )
        try:
            return await self._models.get(stage, self._model).complete(request)
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked ({stage} at {place}): {fault}. "
                "No step is lost: run the same command again when the cause is gone."
            ) from fault

    def _cap(self, stage: str) -> int:
        # Prompt and reply share the window: of a small one a reply may take a quarter, of a large one half.
        share = 4 if self._window <= 32_768 else 2
        return min(self._caps.get(stage, self._max_tokens), self._window // share)


def packaged(name: str) -> str:
    """A prompt of ours by its name."""
    return files("skillopt.optimizer").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")
