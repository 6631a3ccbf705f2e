"""Decides what an attempt reserves and what it cost in money and time; what was sent is always settled,
whoever stopped waiting for it.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace
from fractions import Fraction

from skillopt.account import Amount, Entry
from skillopt.aio import to_the_end
from skillopt.errors import ModelError
from skillopt.ledger import HEDGE_STAGE, MARGIN, Ledger
from skillopt.messages import Reply, Request, Usage
from skillopt.models.port import Model
from skillopt.models.prices import Price, cost

BYTES_PER_TOKEN = Fraction(3)
CALIBRATED_AFTER = 5
IMAGE_TOKENS = 2000


class Budgeted:
    """A model that pays from the ledger: reserve 1.3 x estimated input + the output cap, send, settle."""

    def __init__(self, inner: Model, ledger: Ledger, price: Price | None) -> None:
        self._inner = inner
        self._ledger = ledger
        self._price = price
        self._seen = 0
        self._densest = Fraction(0)
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        entry = await self.reserve(request)
        return await to_the_end(asyncio.ensure_future(self._send(request, entry)))

    async def reserve(self, request: Request) -> Entry:
        """Set aside what an attempt may cost."""
        read = self._estimate(_bytes(request), len(_images(request)))
        # All of the input may be written to a prompt cache, which costs more than reading it anew.
        need = self._amount(
            Usage(input_tokens=read, cache_write_tokens=read, output_tokens=request.max_tokens)
        )
        return await self._ledger.reserve(
            request.role,
            HEDGE_STAGE if request.hedge else request.stage,
            request.place,
            need,
            background=request.background,
        )

    def paid(self, entry: Entry, request: Request, reply: Reply) -> Reply:
        """Settle an attempt that was answered; the reply with its usage, if that can be believed."""
        size = _bytes(request)
        usage = self._settle(entry, reply.usage, said=bool(reply.text or reply.tool_calls))
        if usage is not None and size and not _images(request):
            self._seen += 1
            self._densest = max(self._densest, Fraction(usage.input_tokens, size))
        return replace(reply, usage=usage)

    def failed(self, entry: Entry, error: ModelError) -> None:
        """Settle an attempt that failed."""
        if error.refused:
            self._ledger.refuse(entry)
        else:  # it may have been worked on: charged as reported, else as reserved
            self._settle(
                entry,
                None
                if error.tokens is None
                else Usage(input_tokens=error.tokens[0], output_tokens=error.tokens[1]),
                said=False,
            )

    async def close(self) -> None:
        await self._inner.close()

    async def _send(self, request: Request, entry: Entry) -> Reply:
        began = time.monotonic()
        try:
            reply = await self._inner.complete(request)
        except ModelError as error:
            self.failed(entry, error)
            raise
        except BaseException:  # a bug or a dying loop: the attempt was sent, so it stays charged
            self._ledger.settle(entry, None, None)
            raise
        return replace(self.paid(entry, request, reply), seconds=round(time.monotonic() - began, 3))

    def _settle(self, entry: Entry, usage: Usage | None, *, said: bool) -> Usage | None:
        """Close an attempt; returns its usage, None where nothing that can be believed was reported."""
        if usage is None or not usage.credible(said_something=said):
            self._ledger.settle(entry, None, None)
            return None
        self._ledger.settle(entry, usage, self._amount(usage))
        return usage

    def _estimate(self, size: int, images: int) -> int:
        density = self._densest if self._seen >= CALIBRATED_AFTER else max(self._densest, 1 / BYTES_PER_TOKEN)
        return math.ceil(MARGIN * (density * size + IMAGE_TOKENS * images)) + 16

    def _amount(self, usage: Usage) -> Amount:
        return Amount(
            calls=1, tokens=usage.total, usd=None if self._price is None else cost(usage, self._price)
        )


def _bytes(request: Request) -> int:
    text = sum(
        len(message.content.encode()) + sum(len(call.arguments) for call in message.tool_calls)
        for message in request.messages
    )
    return text + sum(len(tool.description) + len(str(tool.parameters)) for tool in request.tools)


def _images(request: Request) -> list[object]:
    return [image for message in request.messages for image in message.images]
