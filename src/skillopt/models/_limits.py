"""Decides when a call is sent: one limiter per endpoint for all roles, slower after a 429, retries for what may pass."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skillopt.errors import TRANSIENT_KINDS, ModelError, ProviderDown, Stopped
from skillopt.messages import Reply, Request, Role
from skillopt.models._model import Model


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
        """Take a slot, waiting for it; `first` goes to the head of the queue (a retry keeps its place in line)."""
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
    """Adaptive concurrency of one endpoint: starts at its ceilings, halves on overload, grows back one slot per round of successes."""

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
        self._ceilings = dict(ceilings)
        self._slots = {role: Slots(size) for role, size in ceilings.items()}
        self._clock = clock
        self._jitter = jitter
        self._on_close = on_close
        self._closed: Stopped | None = None
        self._closing = asyncio.Event()
        self._halved_at = float("-inf")
        self._hold_until = float("-inf")

    def close(self, reason: Stopped) -> None:
        """Stop sending: whoever waits for a slot, a retry or the end of a hold is told why. Calls already sent run to their end."""
        if self._closed is None:
            self._closed = reason
            self._closing.set()
            for slots in self._slots.values():
                slots.close(reason)
            self._on_close(reason)

    async def run(self, model: Model, request: Request) -> Reply:
        """Send a request when its turn comes, again after what may pass; raises `ModelError` when it does not."""
        slots = self._slots[request.role]
        deadline = math.inf
        attempt = 0
        while True:
            await slots.acquire(background=request.background, first=attempt > 0)
            try:
                await self._wait_for_hold()
                sent = self._clock()
                if attempt == 0:
                    deadline = sent + self.retry.seconds  # from the first sending on: standing in line uses up no patience
                reply = await model.complete(request)
                self._grow(request.role)
                return reply
            except ModelError as error:
                attempt += 1
                pause = self._after(error, attempt, sent)
                if error.kind == "auth":
                    down = ProviderDown(
                        f"{model.endpoint} refuses the login: {error.detail}. Check the key, then run the same command again."
                    )
                    self.close(down)
                    raise down from error
                if error.kind not in TRANSIENT_KINDS or attempt >= self.retry.attempts or self._clock() + pause > deadline:
                    raise
            finally:
                slots.release()
            await self._sleep(pause)

    def _after(self, error: ModelError, attempt: int, sent: float) -> float:
        pause: float = min(self.retry.longest_delay, self.retry.first_delay * 2 ** (attempt - 1)) * (0.5 + self._jitter() / 2)
        if error.kind == "rate_limit":
            if sent > self._halved_at:  # one burst of refusals is one signal
                self._halved_at = self._clock()
                self._resize(self.scale / 2)
            if error.retry_after is not None:
                # Others wait no longer for it than they would try: a provider that is away for hours must end the run, not hang it.
                self._hold_until = max(self._hold_until, self._clock() + min(error.retry_after, self.retry.seconds))
                pause = max(pause, error.retry_after)
        return pause

    async def _wait_for_hold(self) -> None:
        while (wait := self._hold_until - self._clock()) > 0:  # it may be prolonged meanwhile
            await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless the limiter is closed first."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
        if self._closed is not None:
            raise self._closed

    def _grow(self, role: Role) -> None:
        if self.scale < 1.0:
            self._resize(min(1.0, self.scale + 1.0 / (self._ceilings[role] * max(1, self._slots[role].size))))

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
