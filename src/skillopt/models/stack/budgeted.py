"""Reserves what an attempt may cost and settles what it did cost. What was sent is always settled, also when
its caller stopped waiting.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from skillopt.errors import ModelError, UsageError
from skillopt.messages import Reply, Request, Usage
from skillopt.models.port import Model
from skillopt.money import HEDGE_STAGE, MARGIN, Amount, Entry, Ledger, Price, cost
from skillopt.process.waiting import to_the_end

BYTES_PER_TOKEN = Fraction(3)
CALIBRATED_AFTER = 5
IMAGE_TOKENS = 2000
LEAST_CAP = 1024
"""Tokens: a cap is cut no further while it is not known how long replies of its kind are."""
SHORTEST_CAP = 128
"""Tokens: a cap is cut no further where that is known."""
QUANTILE = Fraction(98, 100)
"""Of the lengths of replies: with the margin on top, the usual cap."""


class Budgeted:
    """A model that pays from the ledger: reserve 1.3 x estimated input + the output cap, send, settle.

    Where the budget does not hold the whole cap many times, it is cut: to what replies of the kind take, or
    while that is not known to what is left, down to a floor. What a cut cap cuts off is not an answer: it is
    paid, dropped, and asked once more with a larger cap, or `BudgetSpent` is raised.
    """

    def __init__(
        self,
        inner: Model,
        ledger: Ledger,
        price: Price | None,
        *,
        has_fixed_cap: bool = False,
        may_reason: bool = True,
    ) -> None:
        """`has_fixed_cap`: another cap would be another question, so none is ever cut. `may_reason`: an
        answer may have cost more tokens than it has bytes.
        """
        self._inner = inner
        self._ledger = ledger
        self._price = price
        self._seen = 0
        self._densest = Fraction(0)
        self._lengths: defaultdict[str, list[int]] = defaultdict(list)
        """Output tokens of the replies of each kind, sorted."""
        self._has_fixed_cap = has_fixed_cap
        self._may_reason = may_reason
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        too_short = 0
        while True:
            read = self._estimate(request)
            entry = await self._reserve(request, read, *self._smaller_caps(request, too_short))
            cap = entry.reserved - read
            try:
                return await to_the_end(asyncio.ensure_future(self._send(request, entry, cap)))
            except _CutOff:
                too_short = cap

    async def _reserve(self, request: Request, read: int, usual: int | None, smaller: Sequence[int]) -> Entry:
        def need(cap: int) -> Amount:
            # All of the input may be written to a prompt cache, which costs more than reading it anew.
            return self._amount(Usage(input_tokens=read, cache_write_tokens=read, output_tokens=cap))

        return await self._ledger.reserve(
            request.role,
            HEDGE_STAGE if request.hedge else request.stage,
            request.place,
            need(request.max_tokens),
            usual=None if usual is None else need(usual),
            smaller=[need(cap) for cap in smaller],
            background=request.background,
        )

    def _paid(self, entry: Entry, request: Request, reply: Reply) -> Reply:
        """Settle an attempt that was answered; the reply with its usage, if that can be believed."""
        said = bool(reply.text or reply.tool_calls)
        usage = self._settle(entry, reply.usage, said=said, most=self._most(request, entry, reply))
        if usage is not None:
            insort(self._lengths[request.kind], usage.output_tokens)
            if (size := _bytes(request)) and not _images(request):
                self._seen += 1
                self._densest = max(self._densest, Fraction(usage.input_tokens, size))
        return replace(reply, usage=usage)

    def _failed(self, entry: Entry, error: ModelError) -> None:
        if error.refused:
            self._ledger.refuse(entry)
        elif error.tokens is None:  # it may have been worked on
            self._ledger.settle(entry, None, None)
        else:
            read, wrote = error.tokens
            self._settle(entry, Usage(input_tokens=read, output_tokens=wrote), said=False)

    def _most(self, request: Request, entry: Entry, reply: Reply) -> Amount | None:
        """An upper bound for an answer without usage: the input as estimated, and a token for each byte of
        the answer. None where there is no bound, as the model may think unseen.
        """
        if self._may_reason or reply.size is None or _images(request):
            return None
        read = self._estimate(request)
        most = self._amount(Usage(input_tokens=read, cache_write_tokens=read, output_tokens=reply.size))
        return most if most.tokens < entry.reserved else None

    async def close(self) -> None:
        await self._inner.close()

    async def _send(self, request: Request, entry: Entry, cap: int) -> Reply:
        began, is_cut = time.monotonic(), cap < request.max_tokens
        try:
            reply = await self._inner.complete(replace(request, max_tokens=cap) if is_cut else request)
        except ModelError as error:
            self._failed(entry, error)
            raise
        except UsageError:  # nothing was sent
            self._ledger.withdraw(entry)
            raise
        except BaseException:  # a bug or a dying loop: the attempt was sent, so it stays charged
            self._ledger.settle(entry, None, None)
            raise
        paid = self._paid(entry, request, reply)
        if is_cut and paid.usage is not None and paid.usage.output_tokens > cap:
            self._has_fixed_cap = True  # a server that keeps to no cap must not be promised a smaller one
        if is_cut and paid.finish == "length":
            raise _CutOff
        return replace(paid, seconds=round(time.monotonic() - began, 3))

    def _smaller_caps(self, request: Request, too_short: int) -> tuple[int | None, Sequence[int]]:
        """The usual cap of this kind of reply, or while that is unknown the caps to try. All are below the
        whole cap and above one that was too short.
        """
        whole, lengths = request.max_tokens, self._lengths[request.kind]
        if self._has_fixed_cap or request.hedge or not self._ledger.budget.is_limited:
            return None, ()
        if len(lengths) >= CALIBRATED_AFTER and not too_short:
            usual = max(SHORTEST_CAP, math.ceil(MARGIN * lengths[math.ceil(QUANTILE * len(lengths)) - 1]))
            return (usual, ()) if usual < whole else (None, ())
        least, caps = max(LEAST_CAP, 2 * too_short), list[int]()
        while (half := max(least, (caps or [whole])[-1] // 2)) < (caps or [whole])[-1]:
            caps.append(half)
        return None, caps

    def _settle(
        self, entry: Entry, usage: Usage | None, *, said: bool, most: Amount | None = None
    ) -> Usage | None:
        """Close an attempt; returns its usage. Where nothing that can be believed was reported that is None,
        and the attempt is charged at `most`, or as reserved where that is not known.
        """
        if usage is None or not usage.credible(said_something=said):
            self._ledger.settle(entry, None, most)
            return None
        self._ledger.settle(entry, usage, self._amount(usage))
        return usage

    def _estimate(self, request: Request) -> int:
        """Input tokens with the margin."""
        density = self._densest if self._seen >= CALIBRATED_AFTER else max(self._densest, 1 / BYTES_PER_TOKEN)
        return math.ceil(MARGIN * (density * _bytes(request) + IMAGE_TOKENS * _images(request))) + 16

    def _amount(self, usage: Usage) -> Amount:
        usd = None if self._price is None else cost(usage, self._price)
        return Amount(calls=1, tokens=usage.total, usd=usd)


class _CutOff(Exception):
    """A reply that a cut cap cut off."""


def _bytes(request: Request) -> int:
    text = sum(
        len(message.content.encode()) + sum(len(call.arguments) for call in message.tool_calls)
        for message in request.messages
    )
    return text + sum(len(tool.description) + len(str(tool.parameters)) for tool in request.tools)


def _images(request: Request) -> int:
    return sum(len(message.images) for message in request.messages)
