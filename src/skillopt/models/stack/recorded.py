"""A reply that arrived once is stored before it is used, and never paid again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Protocol

from skillopt.messages import Message, Reply, Request, as_plain
from skillopt.models.port import Model


def request_key(fingerprint: Mapping[str, Any] | str, request: Request) -> str:
    """The identity of a question: who is asked, what, with which parameters, and at which place
    of the run. The fingerprint may come as its JSON text.
    """
    said = ", ".join(_dump(one) if one.images else _message(one) for one in request.messages)
    rest = [request.tools, request.schema, request.max_tokens, request.place, request.draw]
    who = fingerprint if isinstance(fingerprint, str) else _dump(fingerprint)
    text = f"[{who}, [{said}], {_dump(rest)[1:]}"
    return hashlib.sha256(text.encode()).hexdigest()


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=as_plain)


@lru_cache(maxsize=1024)
def _message(message: Message) -> str:
    """Each turn of a tool loop sends all earlier turns again."""
    return _dump(message)


class Records(Protocol):
    """Replies by key. What `put` returned from is there after `kill -9`."""

    def get(self, key: str) -> Reply | None:
        """The stored reply, or None."""
        ...

    def put(self, key: str, request: Request, reply: Reply) -> None:
        """Store a reply that arrived, before anybody uses it."""
        ...


class Recorded:
    """A model that looks in the records first, and asks each question at most once at a time.

    Each question flies as a task of its own. When nobody waits for it any more it is withdrawn if it was not
    sent yet; once sent it runs to its end and its reply is stored.
    """

    def __init__(self, inner: Model, records: Records, concurrency: int | None = None) -> None:
        self._inner = inner
        self._records = records
        self.concurrency = concurrency
        """How many calls its provider takes at once, where it knows that itself."""
        self.callers = 0
        """How many wait for an answer now."""
        self.asked = 0
        """How many questions were asked so far."""
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._waiters: dict[str, int] = {}
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint
        self._who = _dump(inner.fingerprint)

    async def complete(self, request: Request) -> Reply:
        key = request_key(self._who, request)
        stored = self._records.get(key)
        if stored is not None:
            return stored
        while True:
            flight = self._flights.get(key)
            if flight is None:
                self.asked += 1
                flight = self._flights[key] = asyncio.ensure_future(self._ask(key, request))
                flight.add_done_callback(partial(self._landed, key))
            self._waiters[key] = self._waiters.get(key, 0) + 1
            self.callers += 1
            try:
                await asyncio.wait([flight])
            finally:
                self.callers -= 1
                self._waiters[key] -= 1
                if self._waiters[key] == 0:
                    del self._waiters[key]
                    if not flight.done():
                        flight.cancel()
            if not flight.cancelled():
                return flight.result()
            # it was being withdrawn for want of anybody waiting when this caller came: ask again

    @property
    def in_flight(self) -> int:
        """How many questions are on their way, wherever they wait."""
        return len(self._flights)

    async def drain(self) -> None:
        """Wait until everything that was sent has arrived and is stored."""
        while self._flights:
            await asyncio.wait(list(self._flights.values()))

    async def close(self) -> None:
        await self._inner.close()

    async def _ask(self, key: str, request: Request) -> Reply:
        reply = await self._inner.complete(request)
        # Whose limit cut it nobody knows, so it is no measurement, and is asked again when the run goes on.
        if request.role != "target" or reply.finish != "length" or reply.usage is not None:
            self._records.put(key, request, reply)
        return reply

    def _landed(self, key: str, flight: asyncio.Task[Reply]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # nobody may be waiting; an unread error is not news
