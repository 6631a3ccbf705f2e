"""Keeps credentials we loaded out of prompts and replies: the outermost layer, so that no record holds one either."""

from __future__ import annotations

from dataclasses import replace

from skillopt.messages import Message, Reply, Request
from skillopt.models._model import Model
from skillopt.redact import Scrubber


class Scrubbed:
    """A model that is never told our keys and never tells them on."""

    def __init__(self, inner: Model, scrubber: Scrubber) -> None:
        self._inner = inner
        self._scrubber = scrubber
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        messages = tuple(self._clean(message) for message in request.messages)
        reply = await self._inner.complete(request if messages == request.messages else replace(request, messages=messages))
        text = self._scrubber.scrub(reply.text)
        return reply if text == reply.text else replace(reply, text=text)

    async def close(self) -> None:
        await self._inner.close()

    def _clean(self, message: Message) -> Message:
        content = self._scrubber.scrub(message.content)
        return message if content == message.content else replace(message, content=content)
