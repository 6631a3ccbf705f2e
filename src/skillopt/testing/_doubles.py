"""Model doubles without a network: a scripted one, and one of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from skillopt.messages import Reply, Request, Usage


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
