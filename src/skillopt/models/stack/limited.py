"""When a call is sent: one limiter per endpoint for all roles. It keeps to what the provider says (headers,
`Retry-After`), keeps fewer calls open after a refusal, and sends again what may pass.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from skillopt.errors import TRANSIENT_KINDS, ModelError, ProviderDown, Stopped
from skillopt.messages import Reply, Request, Role
from skillopt.models.port import Model
from skillopt.models.stack.rate_limits import RateLimits

MAX_REASON = 120
LONGEST_TURN = 30.0
"""Seconds after which the next call is sent whatever the headers said: one that was read wrongly must come to
light.
"""
GROWTH = 0.25
"""How many more calls may be open for every round of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long a transient failure is tried again: whichever of attempts and seconds ends first."""

    attempts: int = 6
    seconds: float = 300.0
    first_delay: float = 0.5
    longest_delay: float = 30.0

    def pause(self, tries: int) -> float:
        """Seconds after so many tries: each time twice as long."""
        return min(self.longest_delay, self.first_delay * 2.0 ** min(tries - 1, 30))


class Slots:
    """A first-come semaphore whose size may change; background work gets only what nobody else waits for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._queues: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = (deque(), deque())
        self._closed: Stopped | None = None

    async def acquire(self, *, background: bool = False, first: bool = False) -> None:
        """Take a slot, waiting for it; `first` goes to the head of the queue (a retry keeps its place in
        line).
        """
        if self._closed is not None:
            raise self._closed
        if self.used < self.size and not self._queues[0] and not (background and self._queues[1]):
            self.used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._queues[1 if background else 0]
        (queue.appendleft if first else queue.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()
            raise

    def release(self) -> None:
        self.used -= 1
        self._admit()

    def close(self, reason: Stopped) -> None:
        """Nothing further is admitted; everyone waiting is told why."""
        self._closed = reason
        for queue in self._queues:
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_exception(reason)

    def _admit(self) -> None:
        for queue in self._queues:
            while queue and self.used < self.size:
                turn = queue.popleft()
                if not turn.done():
                    self.used += 1
                    turn.set_result(None)


class _Place:
    """A call's place in the line before an endpoint, the same for all its attempts."""

    __slots__ = ("_waker", "order")

    def __init__(self, order: tuple[bool, int]) -> None:
        self.order = order
        self._waker: asyncio.Future[None] | None = None

    async def sleep(self, seconds: float | None) -> None:
        """Until it is woken, or for so many seconds."""
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self.wake)
        try:
            await self._waker
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


def _order(place: _Place) -> tuple[bool, int]:
    return place.order


class Limiter:
    """One endpoint. Before the first refusal every role has its ceiling and nothing is held back.

    A refused call leaves no more calls open than the endpoint has taken at that moment, and nothing is sent
    before the time that the provider names or, where it names none, before a pause that doubles. Answers
    let one more call be open by and by.
    """

    def __init__(
        self,
        ceilings: Mapping[Role, int],
        retry: Retry | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        on_close: Callable[[Stopped], None] = lambda reason: None,
    ) -> None:
        """A role without a ceiling is held back by nothing here: whoever asks for it has one."""
        self.retry = retry or Retry()
        self.window = math.inf
        """How many calls may be open."""
        self.refusals = 0
        """Calls that were refused as too many."""
        self._slots = {role: Slots(size) for role, size in ceilings.items()}
        self._line: list[_Place] = []
        self._calls = 0
        self._open = 0
        self._most_open = 0
        self._answers = 0
        self._refused_in_a_row = 0
        self._hold_until = self._sent_at = -math.inf
        self._gap = 0.0
        self._clock = clock
        self._jitter = jitter
        self._on_close = on_close
        self._closed: Stopped | None = None
        self._closing = asyncio.Event()
        self._reason = ""

    def close(self, reason: Stopped) -> None:
        """Stop sending: whoever waits for a slot, a retry or the end of a hold is told why. Calls already
        sent run to their end.
        """
        if self._closed is None:
            self._closed = reason
            self._closing.set()
            for slots in self._slots.values():
                slots.close(reason)
            for place in self._line:
                place.wake()
            self._on_close(reason)

    def slowed(self) -> str:
        """In words: how far it slowed down, and why; empty when it did not."""
        shown = [] if math.isinf(self.window) else [f"at most {int(self.window)} calls at once"]
        if self._hold_until > self._clock():
            shown.append(f"waiting {self._hold_until - self._clock():.0f} s as told")
        return f"{', '.join(shown)}, after {self.refusals} refused: {self._reason}" if shown else ""

    async def run(
        self,
        model: Model,
        request: Request,
        limits: RateLimits | None = None,
        sent: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request when its turn comes, again after what may pass; raises `ModelError` when it does
        not. `sent` is called whenever an attempt leaves. A hedge is sent once.
        """
        slots = self._slots.get(request.role)
        deadline, retried, tries, answers = math.inf, False, 0, self._answers
        counted_at = -math.inf
        self._calls += 1
        place = _Place((request.background, self._calls))
        while True:
            if slots is not None:
                await slots.acquire(background=request.background, first=retried)
            try:
                await self._turn(request, limits, place)
                # Patience counts from the first sending on: standing in line uses up none.
                deadline = min(deadline, self._clock() + self.retry.seconds)
                self._sent()
                if sent is not None:
                    sent()
                try:
                    reply = await model.complete(request)
                finally:
                    self._open -= 1
                    self._wake()
                self._answered(request, reply, limits)
                return reply
            except ModelError as error:
                if error.again:  # the provider has found another way to ask
                    pause = 0.0
                else:
                    # A refusal while others are worked on is no outage: the endpoint is only busy.
                    is_busy = error.kind == "rate_limit" and (self._answers > answers or self._open > 0)
                    answers, now = self._answers, self._clock()
                    if is_busy:
                        tries = 0
                    elif error.retry_after is None or now >= counted_at + self.retry.pause(tries):
                        tries, counted_at = tries + 1, now
                    # else others with the same key were quicker: a short wait that is told uses up no try
                    pause = self._after(error, tries)
                    if error.kind == "auth":
                        raise self._dead_login(model, error) from error
                    is_last = tries >= self.retry.attempts or self._clock() + pause > deadline
                    is_last |= request.hedge
                    if error.kind not in TRANSIENT_KINDS or is_last:
                        raise
                    if error.kind == "rate_limit":
                        pause = 0.0  # it waits at the head of the line
            finally:
                if slots is not None:
                    slots.release()
            retried = True
            await self._sleep(pause)

    async def _turn(self, request: Request, limits: RateLimits | None, place: _Place) -> None:
        """Wait until the endpoint takes this request. Requests go in the order in which they were first asked
        for: neither a large one nor one that was refused is overtaken for ever.
        """
        if self._line or self._seconds_to_wait(request, limits) > 0:
            bisect.insort(self._line, place, key=_order)
            try:
                patient_until = self._clock() + LONGEST_TURN
                not_before = -math.inf
                while self._closed is None:
                    now, wait = self._clock(), self._seconds_to_wait(request, limits)
                    is_first = self._line[0] is place
                    if is_first and now >= max(patient_until, self._hold_until):
                        break
                    if is_first and wait > 0 and now >= not_before and limits is not None and limits.is_known:
                        not_before = now + wait + self._courtesy(wait, limits.room(request))
                    wait = max(wait, not_before - now)
                    if is_first and wait <= 0:
                        break
                    await place.sleep(max(0.001, min(wait, LONGEST_TURN)) if is_first else None)
            finally:
                self._line.remove(place)
                self._wake()
        if self._closed is not None:
            raise self._closed
        if limits is not None:
            limits.send(request)

    def _seconds_to_wait(self, request: Request, limits: RateLimits | None) -> float:
        until = self._hold_until
        if limits is not None and limits.is_known:
            return max(limits.wait(request), until - self._clock())
        if self._open >= self.window:
            # After as long as the provider last asked to wait it takes one more, however many are open: else
            # a slow model would be asked ever more rarely.
            until = max(until, self._sent_at + self._gap)
        return until - self._clock()

    def _courtesy(self, wait: float, room: float) -> float:
        """Seconds left to others with the same key: by chance, at most half of the wait and of the time in
        which nothing that fills up meanwhile is lost. Who is always the first to send when there is enough
        again leaves nothing to anybody else.
        """
        return self._jitter() * min(wait, room) / 2

    def _sent(self) -> None:
        self._open += 1
        self._most_open = max(self._most_open, self._open)
        self.window = max(self.window, float(self._open))
        self._sent_at = self._clock()

    def _answered(self, request: Request, reply: Reply, limits: RateLimits | None) -> None:
        self._answers += 1
        self._refused_in_a_row = 0
        if limits is not None:
            limits.learn(request, reply.usage)
        self.window += GROWTH / self.window
        if self.window > self._most_open:
            self.window = math.inf

    def _after(self, error: ModelError, tries: int) -> float:
        """Seconds that the failed call has to wait; a refusal holds back all others too."""
        if error.kind != "rate_limit":
            return self._pause(tries)
        now = self._clock()
        self.refusals += 1
        self._reason = (
            error.detail if len(error.detail) <= MAX_REASON else error.detail[: MAX_REASON - 1] + "…"
        )
        self.window = max(1.0, min(self.window, self._open))
        if error.retry_after is not None:
            pause = error.retry_after
        elif self._hold_until > now:  # one burst of refusals is one signal
            pause = self._hold_until - now
        else:
            self._refused_in_a_row = 1 if self._open else self._refused_in_a_row + 1
            pause = self._pause(self._refused_in_a_row)
        # Others wait no longer for it than they would try: a provider that is away for hours must end the
        # run, not hang it.
        self._hold_until = max(self._hold_until, now + min(pause, self.retry.seconds))
        self._gap = min(pause, LONGEST_TURN)
        return pause

    def _pause(self, tries: int) -> float:
        return self.retry.pause(tries) * (0.5 + self._jitter() / 2)

    def _dead_login(self, model: Model, error: ModelError) -> ProviderDown:
        down = ProviderDown(
            f"{model.endpoint} refuses the login: {error.detail}. Check the key, then run the same command"
            " again."
        )
        self.close(down)
        return down

    def _wake(self) -> None:
        if self._line:
            self._line[0].wake()

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless the limiter is closed before."""
        if seconds > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)
        if self._closed is not None:
            raise self._closed


class Limited:
    """A model whose calls pass the limiter of its endpoint and keep to the limits its provider names."""

    def __init__(self, inner: Model, limiter: Limiter, limits: RateLimits | None = None) -> None:
        self._inner = inner
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint
        self.complete: Callable[[Request], Coroutine[Any, Any, Reply]] = partial(
            limiter.run, inner, limits=limits
        )

    async def close(self) -> None:
        await self._inner.close()
