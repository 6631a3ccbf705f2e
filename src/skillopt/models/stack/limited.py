"""Decides when a call is sent: one limiter per endpoint for all roles, slower after a 429, retries for what
may pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from skillopt.errors import TRANSIENT_KINDS, ModelError, ProviderDown, Stopped
from skillopt.messages import Reply, Request, Role
from skillopt.models.port import Model
from skillopt.models.stack.pace import Pace, Sent

MAX_REASON = 120
LONGEST_TURN = 30.0
"""Seconds after which the next call is sent whatever the pace says: one that was learned wrongly must come to
light.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long a transient failure is tried again: whichever of attempts and seconds ends first."""

    attempts: int = 6
    seconds: float = 300.0
    first_delay: float = 0.5
    longest_delay: float = 30.0


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

    def resize(self, size: int) -> None:
        self.size = size
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


class Limiter:
    """One endpoint: starts at its ceilings; refused calls halve how many are open and teach how many a second
    are taken.

    Both grow back: a slot with every success, the pace as `Pace` says. What is open is never halved below
    what the pace needs at the seconds that calls take, or a slow model behind a quota would be asked ever
    more rarely.
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
        self.retry = retry or Retry()
        self.scale = 1.0
        self.refusals = 0
        """Calls that were refused as too many."""
        self._ceilings = dict(ceilings)
        self._slots = {role: Slots(size) for role, size in ceilings.items()}
        self._turnstile = Slots(1)
        self._pace = Pace()
        self._clock = clock
        self._jitter = jitter
        self._on_close = on_close
        self._closed: Stopped | None = None
        self._closing = asyncio.Event()
        self._news = asyncio.Event()
        self._halved_at = float("-inf")
        self._hold_until = float("-inf")
        self._seconds = 0.0
        self._asked: set[Role] = set()
        self._reason = ""

    def close(self, reason: Stopped) -> None:
        """Stop sending: whoever waits for a slot, a retry or the end of a hold is told why. Calls already
        sent run to their end.
        """
        if self._closed is None:
            self._closed = reason
            self._closing.set()
            self._news.set()
            for slots in (*self._slots.values(), self._turnstile):
                slots.close(reason)
            self._on_close(reason)

    def slowed(self) -> str:
        """In words: how far below its ceilings it is, and why; empty when it is not."""
        sizes = [
            f"{self._slots[role].size} of {self._ceilings[role]} {role}"
            for role in self._ceilings
            if role in self._asked
        ]
        shown = [f"{' and '.join(sizes)} calls at once"] if self.scale < 1.0 else []
        for flow in self._pace.flows:
            if not math.isinf(flow.limit):
                shown.append(
                    f"{flow.rate:.1f} calls a second"
                    if flow.unit == "calls"
                    else f"{flow.rate * 60:,.0f} tokens a minute"
                )
        if self._hold_until > self._clock():
            shown.append(f"waiting {self._hold_until - self._clock():.0f} s as told")
        return f"{', '.join(shown)}, after {self.refusals} refused: {self._reason}" if shown else ""

    async def run(self, model: Model, request: Request) -> Reply:
        """Send a request when its turn comes, again after what may pass; raises `ModelError` when it does
        not.
        """
        slots = self._slots[request.role]
        self._asked.add(request.role)
        deadline = math.inf
        attempt = 0
        while True:
            await slots.acquire(background=request.background, first=attempt > 0)
            try:
                sent = await self._turn(request, attempt)
                if attempt == 0:
                    deadline = (
                        sent.at + self.retry.seconds
                    )  # from the first sending on: standing in line uses up no patience
                reply = await model.complete(request)
                self._arrived(request.role, sent, reply)
                return reply
            except ModelError as error:
                attempt += 1
                pause = self._after(error, attempt, sent)
                if error.kind == "auth":
                    down = ProviderDown(
                        f"{model.endpoint} refuses the login: {error.detail}. Check the key, then run the"
                        " same command again."
                    )
                    self.close(down)
                    raise down from error
                if (
                    error.kind not in TRANSIENT_KINDS
                    or attempt >= self.retry.attempts
                    or self._clock() + pause > deadline
                ):
                    raise
            finally:
                slots.release()
            await self._sleep(pause)

    async def _turn(self, request: Request, attempt: int) -> Sent:
        """Wait until the endpoint takes this request. One at a time waits for the pace, so that a large one
        is not overtaken for ever.
        """
        if self._pace.is_free and self._hold_until <= self._clock() and not self._turnstile.used:
            return self._pace.send(request, self._clock())
        await self._turnstile.acquire(background=request.background, first=attempt > 0)
        try:
            behind: int | None = None
            patient_until = self._clock() + min(LONGEST_TURN, self.retry.seconds)
            while True:
                with self._waiting_behind(None):
                    await self._wait_for_hold()
                seconds, flow = self._pace.wait(request, self._clock(), attempt)
                if seconds <= 0 or self._clock() >= patient_until:
                    return self._pace.send(request, self._clock(), behind)
                behind = flow
                with self._waiting_behind(flow):
                    await self._sleep(min(seconds, patient_until - self._clock()), self._news)
        finally:
            self._turnstile.release()

    @contextlib.contextmanager
    def _waiting_behind(self, flow: int | None) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            self._pace.waited(self._clock() - began, flow)

    def _arrived(self, role: Role, sent: Sent, reply: Reply) -> None:
        seconds = self._clock() - sent.at
        self._seconds = seconds if self._seconds == 0.0 else 0.8 * self._seconds + 0.2 * seconds
        self._pace.arrived(sent, reply.usage)
        if self.scale < 1.0:
            self._resize(min(1.0, self.scale + 1.0 / self._ceilings[role]))

    def _after(self, error: ModelError, attempt: int, sent: Sent) -> float:
        pause: float = min(self.retry.longest_delay, self.retry.first_delay * 2 ** (attempt - 1)) * (
            0.5 + self._jitter() / 2
        )
        if error.kind == "rate_limit":
            self.refusals += 1
            self._reason = (
                error.detail if len(error.detail) <= MAX_REASON else error.detail[: MAX_REASON - 1] + "…"
            )
            self._pace.refused(sent, error.detail, self._clock())
            self._news.set()  # whoever waits for the pace looks at it again
            self._news = asyncio.Event()
            if sent.at > self._halved_at:  # one burst of refusals is one signal
                self._halved_at = self._clock()
                self._resize(max(self.scale / 2, min(self.scale, self._needed())))
            if error.retry_after is not None:
                # Others wait no longer for it than they would try: a provider that is away for hours must end
                # the run, not hang it.
                self._hold_until = max(
                    self._hold_until, self._clock() + min(error.retry_after, self.retry.seconds)
                )
                pause = max(pause, error.retry_after)
        return pause

    def _needed(self) -> float:
        """The share of the ceilings that must be open to keep the pace up: calls a second times the seconds
        of a call.
        """
        rate = self._pace.calls_a_second()
        return 0.0 if math.isinf(rate) else 1.5 * rate * self._seconds / min(self._ceilings.values())

    async def _wait_for_hold(self) -> None:
        while (wait := self._hold_until - self._clock()) > 0:  # it may be prolonged meanwhile
            await self._sleep(wait)

    async def _sleep(self, seconds: float, until: asyncio.Event | None = None) -> None:
        """Sleep, unless something happens or the limiter is closed first."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for((until or self._closing).wait(), seconds)
        if self._closed is not None:
            raise self._closed

    def _resize(self, scale: float) -> None:
        self.scale = max(scale, 1.0 / max(self._ceilings.values()))
        for role, ceiling in self._ceilings.items():
            self._slots[role].resize(max(1, int(ceiling * self.scale)))


class Limited:
    """A model whose calls pass the limiter of its endpoint."""

    def __init__(self, inner: Model, limiter: Limiter) -> None:
        self._inner = inner
        self._limiter = limiter
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        return await self._limiter.run(self._inner, request)

    async def close(self) -> None:
        await self._inner.close()
