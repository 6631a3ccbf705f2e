"""Keeps credentials we loaded out of prompts, replies and errors: next to the provider, so that nothing
further out ever holds one.
"""

from __future__ import annotations

from dataclasses import replace

from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, ToolCall
from skillopt.models.port import Model
from skillopt.redact import Scrubber


class Scrubbed:
    """A model that is never told our keys and never tells them on."""

    def __init__(self, inner: Model, scrubber: Scrubber) -> None:
        self._inner = inner
        self._scrubber = scrubber
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        clean = replace(request, messages=tuple(self._message(message) for message in request.messages))
        try:
            reply = await self._inner.complete(clean)
        except ModelError as error:
            detail = self._scrubber.scrub(error.detail)
            raise ModelError(
                error.kind,
                detail,
                retry_after=error.retry_after,
                refused=error.refused,
                tokens=error.tokens,
                again=error.again,
            ) from None
        return replace(reply, text=self._scrubber.scrub(reply.text), tool_calls=self._calls(reply.tool_calls))

    async def close(self) -> None:
        await self._inner.close()

    def _message(self, message: Message) -> Message:
        return replace(
            message, content=self._scrubber.scrub(message.content), tool_calls=self._calls(message.tool_calls)
        )

    def _calls(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        return tuple(replace(call, arguments=self._scrubber.scrub(call.arguments)) for call in calls)
