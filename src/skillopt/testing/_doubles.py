"""Model doubles without a network: a scripted one, one of a function, the simulated world for loopback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from skillopt.messages import Message, Reply, Request, Role, Usage
from skillopt.models.providers.world import World
from skillopt.models.world.rules import WorldRules
from skillopt.testing._answers import Call, turns


class FunctionModel:
    """A model that answers what a function makes of a request, a text or a `Reply`; it may raise."""

    endpoint = "function"

    def __init__(self, function: Callable[[Request], str | Reply], name: str = "function") -> None:
        self.fingerprint: Mapping[str, Any] = {"provider": "function", "model": name}
        self.requests: list[Request] = []
        self._function = function

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        said = self._function(request)
        if isinstance(said, Reply):
            return said
        size = sum(len(message.content) for message in request.messages)
        return Reply(
            text=said,
            finish="stop",
            usage=Usage(input_tokens=size // 4 + 1, output_tokens=len(said) // 4 + 1),
        )

    async def close(self) -> None:
        """Nothing is open."""


class ScriptedModel(FunctionModel):
    """A model that gives prepared answers in order; one question too many is an error of the test."""

    def __init__(self, answers: Iterable[str | Reply], name: str = "scripted") -> None:
        self._answers = iter(answers)
        super().__init__(lambda request: next(self._answers), name)


def world_answers(rules: WorldRules | None = None) -> Callable[[Call], str]:
    """The simulated world as answers of a `LoopbackProvider`; the place header says who is asked, and in
    batches, which have none, it is the target.
    """
    world = World(rules or WorldRules())

    def answer(call: Call) -> str:
        place = call.place or ""
        role: Role = "target" if call.place is None or place.startswith("rollout/") else "optimizer"
        stage = "rollout" if role == "target" else place.rsplit("/", 3)[1]
        said = [Message(role=speaker, content=text) for speaker, text in turns(call.api, call.body)]
        if place.startswith("rollout/"):  # its key holds the address, and noise must not depend on a port
            asked = json.dumps([call.body.get("model"), [message.content for message in said]])
            place = f"{hashlib.sha256(asked.encode()).hexdigest()}.{place.partition('.')[2]}"
        return world.answer(
            Request(
                messages=tuple(said), max_tokens=1, role=role, stage=stage, place=place, draw=call.draw or 0
            )
        )

    return answer
