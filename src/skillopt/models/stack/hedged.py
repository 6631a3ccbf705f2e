"""Asks a call that takes unusually long once more; the first reply is the reply of that place.

A provider answers a few calls in a hundred many times as slowly as the rest, and a stage ends with its
slowest call. The second asking takes a slot that nobody waits for, one attempt and money that is there; the
reply that comes second is charged and kept as a spare.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from skillopt.messages import Reply, Request
from skillopt.models.port import Model
from skillopt.models.stack.limited import Limiter, Slots
from skillopt.models.stack.rate_limits import RateLimits
from skillopt.money import TEST_STAGE

# Measured with `perf/slots.py`: 20 calls and 1.6 times the mean save half as much, since the share is then
# used up by calls that are merely a little slow.
FEWEST = 3
"""Calls of a kind that must have been answered before one of them counts as slow."""
ENOUGH = 8
"""Answers after which the mean of a kind is trusted. With half as many a call is slow after twice as long:
of a few analysts the last may be out for a minute.
"""
FACTOR = 2.0
"""A call is slow when it takes so many times the mean of its kind."""
SOONEST = 0.5
"""Seconds: a call that is out for less is never slow, however quick its kind is. A machine that is busy for a
moment would have calls asked twice, and nothing would be saved.
"""
FEW = 6
"""Calls that are waited for: with more of them out a slow rollout is not asked again yet, as it holds nobody
up. The share is then there for the one that a whole run waits for.
"""
SHARE = 0.05
"""Of all calls and of all tokens: the most that is asked a second time."""
EXPLAINED = 0.5
"""Of the variance of seconds: where the length of replies explains more, slow calls are long answers. Those
would be as slow again, and taking the quicker of two would favour short answers.
"""
TELLING = 20
"""Answers after which that share means something: of eight, one slow call that is long by chance makes it
1.
"""


@dataclass(slots=True)
class LatencyStats:
    """How long the calls of one kind took, and how far the length of their replies explains it."""

    calls: int = 0
    seconds: float = 0.0
    tokens: int = 0
    _said: float = 0.0
    _seconds_squared: float = 0.0
    _said_squared: float = 0.0
    _product: float = 0.0

    def take(self, reply: Reply) -> None:
        """Count a call that was answered."""
        if reply.seconds is None:
            return
        said = 0 if reply.usage is None else reply.usage.output_tokens
        self.calls += 1
        self.seconds += reply.seconds
        self.tokens += 0 if reply.usage is None else reply.usage.total
        self._said += said
        self._seconds_squared += reply.seconds**2
        self._said_squared += said**2
        self._product += reply.seconds * said

    @property
    def explained(self) -> float:
        """The share of the variance of seconds that output tokens explain: the squared correlation."""
        n = self.calls
        slow = n * self._seconds_squared - self.seconds**2
        long = n * self._said_squared - self._said**2
        both = n * self._product - self.seconds * self._said
        return both**2 / (slow * long) if slow > 0 and long > 0 else 0.0

    def patience(self) -> float | None:
        """Seconds after which a call of this kind is slow; None where nobody can say."""
        if self.calls < FEWEST or (self.calls >= TELLING and self.explained > EXPLAINED):
            return None
        return max(SOONEST, FACTOR * max(1.0, ENOUGH / self.calls) * self.seconds / self.calls)


@dataclass(slots=True)
class HedgeAllowance:
    """What the models of a run were asked in all, and how much of it a second time."""

    test_calls: int = 0
    """What the sealed test of a run asks at least; it counts from its first answer on."""
    tested: int = 0
    out: int = 0
    """Calls that somebody waits for."""
    slow: set[_Watch] = field(default_factory=set)
    """Those that would be asked again, were there a share for them and few others out."""
    calls: int = 0
    tokens: int = 0
    hedges: int = 0
    hedge_tokens: float = 0.0

    @property
    def is_within_share(self) -> bool:
        """Whether one more hedge keeps to the share of calls, and those so far to that of tokens: one call
        may go beyond it, since the first analysts of a run are larger than the share of all before them.
        """
        coming = max(0, self.test_calls - self.tested) if self.tested else 0
        whole = SHARE * (1 + coming / max(1, self.calls))
        return self.hedges + 1 <= whole * self.calls and self.hedge_tokens <= whole * self.tokens

    def look(self) -> None:
        """A call has ended: those that are slow are looked at again."""
        for watch in self.slow:
            watch.ring()
        self.slow.clear()


_Asking: TypeAlias = "asyncio.Task[Reply]"


class Hedged:
    """A model whose calls pass the limiter of its endpoint, as with `Limited`, and are asked once more where
    they are slow.
    """

    def __init__(
        self,
        inner: Model,
        limiter: Limiter,
        limits: RateLimits | None = None,
        *,
        allowance: HedgeAllowance,
        slots: Slots | None = None,
        keep_spare: Callable[[Request, Reply], None] = lambda request, reply: None,
    ) -> None:
        """`slots` are those of rollouts, whose calls the limiter does not count: a hedge holds one of them
        until both calls have ended.
        """
        self._inner = inner
        self._limiter = limiter
        self._ask = partial(limiter.run, inner, limits=limits)
        self._slots = slots
        self._keep_spare = keep_spare
        self._stats: defaultdict[str, LatencyStats] = defaultdict(LatencyStats)
        self._watches: defaultdict[str, set[_Watch]] = defaultdict(set)
        self._allowance = allowance
        self._slower: set[_Asking] = set()
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        if request.background:
            return self._count(request, await self._ask(request))
        watch = _Watch(self._stats[request.kind], self._allowance.slow)
        self._watches[request.kind].add(watch)
        self._allowance.out += 1
        asked: list[_Asking] = [asyncio.ensure_future(self._ask(request, sent=watch.sent))]
        try:
            while len(asked) == 1 and not asked[0].done():
                either: list[asyncio.Future[Any]] = [asked[0], watch.alarm]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not asked[0].done() and self._may_hedge(request):
                    asked.append(asyncio.ensure_future(self._again(request, asked[0])))
                elif not asked[0].done():
                    watch.wait()
            answered = await _first_answered(asked)
        except (
            asyncio.CancelledError
        ):  # what was sent is still answered, and whoever cancelled keeps the reply
            for task in asked:
                task.cancel()
            await asyncio.wait(asked)
            answered = await _first_answered(asked)
        finally:
            watch.stop()
            self._watches[request.kind].discard(watch)
            self._allowance.out -= 1
            self._allowance.look()
        for task in asked:
            if task is not answered:
                self._slower.add(task)
                task.add_done_callback(partial(self._spare, request))
                task.cancel()  # where it waits for its turn; what was sent runs to its end
        return self._count(request, answered.result())

    async def drain(self) -> None:
        """Wait for the slower of two calls, so that what they cost is known."""
        while self._slower:
            await asyncio.wait(self._slower)

    async def close(self) -> None:
        await self._inner.close()

    def _may_hedge(self, request: Request) -> bool:
        """Whether there is a share for it and it is worth one; an optimizer's call always holds others up."""
        is_waited_for = request.role == "optimizer" or self._allowance.out <= FEW
        return is_waited_for and self._allowance.is_within_share and not self._limiter.slowed()

    async def _again(self, request: Request, first: _Asking) -> Reply:
        """The second asking."""
        if self._slots is not None:
            await self._slots.acquire(background=True, first=True)
        pace = self._stats[request.kind]
        expected = pace.tokens / pace.calls
        self._allowance.hedges += 1
        self._allowance.hedge_tokens += expected
        try:
            reply = await self._ask(replace(request, background=True, hedge=True))
            if reply.usage is not None:
                self._allowance.hedge_tokens += reply.usage.total - expected
            return reply
        finally:
            slots = self._slots
            if slots is not None:
                first.add_done_callback(lambda ended: slots.release())

    def _count(self, request: Request, reply: Reply) -> Reply:
        kind = request.kind
        self._stats[kind].take(reply)
        if self._stats[kind].calls <= ENOUGH:  # what is slow was not known when these were sent
            for watch in self._watches[kind]:
                watch.set()
        self._allowance.calls += 1
        self._allowance.tested += request.stage == TEST_STAGE
        self._allowance.tokens += 0 if reply.usage is None else reply.usage.total
        self._allowance.look()
        return reply

    def _spare(self, request: Request, task: _Asking) -> None:
        self._slower.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._keep_spare(request, self._count(request, task.result()))


class _Watch:
    """Rings when a call has been out for longer than its kind takes; each attempt starts anew."""

    def __init__(self, pace: LatencyStats, slow: set[_Watch]) -> None:
        self._pace = pace
        self._slow = slow
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.alarm: asyncio.Future[None] = self._loop.create_future()

    def sent(self) -> None:
        """From now on it is waited for."""
        self._since = self._loop.time()
        self._slow.discard(self)
        if self.alarm.done():
            self.alarm = self._loop.create_future()
        self.set()

    def set(self) -> None:
        """Set the timer, where it is known what is slow."""
        self.stop()
        patience = self._pace.patience()
        if patience is not None and self._since is not None:
            self._timer = self._loop.call_at(self._since + patience, self.ring)

    def wait(self) -> None:
        """It is slow, and may not be asked again yet: it is looked at when another call has ended."""
        self.alarm = self._loop.create_future()
        self._slow.add(self)

    def stop(self) -> None:
        self._slow.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def ring(self) -> None:
        if not self.alarm.done():
            self.alarm.set_result(None)


async def _first_answered(asked: Sequence[_Asking]) -> _Asking:
    """The first of a call's two askings that has a reply; where both failed, the first one."""
    waiting = set(asked)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in asked:
            if task.done() and not task.cancelled() and task.exception() is None:
                return task
    return asked[0]
