"""Keeps credentials we loaded out of prompts, replies and errors, next to the provider: nothing further out
ever holds one.
"""

from __future__ import annotations

from dataclasses import replace

from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, ToolCall
from skillopt.models.port import Model
from skillopt.redact import Scrubber


class Scrubbed:
    """A model that neither gets nor returns our credentials."""

    def __init__(self, inner: Model, scrubber: Scrubber) -> None:
        self._inner = inner
        self._scrubber = scrubber
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        messages = tuple(map(self._message, request.messages))
        try:
            reply = await self._inner.complete(replace(request, messages=messages))
        except ModelError as error:
            raise ModelError(
                error.kind,
                self._scrubber.scrub(error.detail),
                retry_after=error.retry_after,
                refused=error.refused,
                tokens=error.tokens,
                again=error.again,
            ) from None
        text, calls = self._scrubber.scrub(reply.text), self._calls(reply.tool_calls)
        return replace(reply, text=text, tool_calls=calls)

    async def close(self) -> None:
        await self._inner.close()

    def _message(self, message: Message) -> Message:
        content, calls = self._scrubber.scrub(message.content), self._calls(message.tool_calls)
        is_clean = content == message.content and calls == message.tool_calls
        return message if is_clean else replace(message, content=content, tool_calls=calls)

    def _calls(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        return tuple(replace(call, arguments=self._scrubber.scrub(call.arguments)) for call in calls)
