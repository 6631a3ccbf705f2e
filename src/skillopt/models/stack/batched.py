"""Asks questions that can wait in batches of the provider, at half price.

A batch is written down before it is sent and again when its id is known, so a run that is stopped or killed
takes up what the provider still works on. Rows that expire, or that the provider failed on, go into another
batch.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from skillopt.account import Entry
from skillopt.errors import TRANSIENT_KINDS, ModelError, ProviderDown, Stopped
from skillopt.ledger import Ledger
from skillopt.messages import Reply, Request
from skillopt.models.port import BatchApi, Model
from skillopt.models.stack.budgeted import Budgeted
from skillopt.models.stack.limited import Retry
from skillopt.models.stack.recorded import request_key
from skillopt.models.stack.scrubbed import Scrubbed

QUIET = 0.5
"""Seconds without a further question after which a batch is sent."""
MOST_BYTES = 50_000_000
"""Of one batch: providers take four times as much, within the time that a call may take."""
TRIES = 3
"""Batches that a question may be in."""
SKEW = 600.0
"""Seconds by which the provider's clock may differ from ours."""
T = TypeVar("T")


class SentBatch(BaseModel):
    """A batch as a run keeps it until all its rows are answered."""

    model_config = ConfigDict(frozen=True)

    token: str
    began: float
    """Seconds since 1970."""
    id: str | None = None
    """None until the provider told it: the batch may or may not have been sent."""
    entries: dict[str, int]
    """The ledger's entry of every row, by the key of its question."""


class BatchStore(Protocol):
    """Where batches are kept; what `keep_batch` returned from is there after `kill -9`."""

    def batches(self) -> list[SentBatch]: ...

    def keep_batch(self, batch: SentBatch) -> None: ...

    def forget_batch(self, token: str) -> None: ...

    def put(self, key: str, request: Request, reply: Reply) -> None: ...


class Batched:
    """A model that asks requests with `batch` in batches and all others as `live` does.

    A question that is in a batch of an earlier session waits for that batch, whatever it says itself. A batch
    that is with the provider is never waited for when a run stops.
    """

    def __init__(
        self,
        live: Model,
        api: BatchApi,
        *,
        paid: Budgeted,
        scrubbed: Scrubbed,
        ledger: Ledger,
        store: BatchStore,
        retry: Retry | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`paid` reserves and settles at the price of batches; `tell` hears of every batch that is sent."""
        self._live = live
        self._api = api
        self._paid = paid
        self._scrubbed = scrubbed
        self._ledger = ledger
        self._store = store
        self._retry = retry or Retry()
        self._tell = tell
        self.endpoint = live.endpoint
        self.fingerprint = live.fingerprint
        self._stopping: asyncio.Future[Stopped] = asyncio.get_running_loop().create_future()
        self._forming: _Batch | None = None
        self._batches: list[_Batch] = []
        self._rows: dict[str, _Batch] = {}
        """The batch that each question is in, by its key: of several the last."""
        # Those of other models too: no question to this one is in them, as a key tells who is asked.
        for sent in store.batches():
            batch = _Batch(sent.token, sent.began, sent.id, sent.entries)
            self._batches.append(batch)
            self._rows.update(dict.fromkeys(sent.entries, batch))

    async def complete(self, request: Request) -> Reply:
        if not request.batch and not self._rows:
            return await self._live.complete(request)
        key = request_key(self.fingerprint, request)
        if not request.batch and key not in self._rows:
            return await self._live.complete(request)
        for tries in itertools.count(1):
            batch, entry = await self._join(key, request)
            outcome = await self._outcome(batch, key, entry)
            if isinstance(outcome, Reply):
                reply = self._paid.paid(entry, request, self._scrubbed.reply(outcome))
                self._store.put(key, request, reply)
                self._done(batch, key)
                return reply
            error = self._scrubbed.error(outcome)
            self._paid.failed(entry, error)
            self._done(batch, key)
            if error.kind not in TRANSIENT_KINDS or tries == TRIES:
                raise error
        raise AssertionError("unreachable: the last try returns or raises")

    def stop(self, reason: Stopped) -> None:
        """Whoever waits is told why; batches that were sent stay with the provider and in the store."""
        if not self._stopping.done():
            self._stopping.set_result(reason)

    async def close(self) -> None:
        """Look after no batch any more."""
        tasks = [batch.task for batch in self._batches if batch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def waiting(self) -> str:
        """In words: which batches are out, and how many of their rows are answered."""
        return ", ".join(
            f"batch {batch.id}: {batch.answered} of {len(batch.entries)} answered after"
            f" {max(0.0, time.time() - batch.began) / 60:.0f} min"
            for batch in self._batches
            if batch.id is not None and batch.task is not None and not batch.task.done()
        )

    async def _join(self, key: str, request: Request) -> tuple[_Batch, Entry]:
        """The batch of a question, which may be one of an earlier session, and its entry in the ledger."""
        batch = self._rows.get(key)
        if batch is not None:
            entry = self._ledger.resume(batch.entries[key]) or await self._paid.reserve(request)
        else:
            size = len(json.dumps(self._api.row("", request)))
            entry = await self._paid.reserve(request)
            batch = self._forming
            if batch is None or batch.size + size > MOST_BYTES or len(batch.entries) >= self._api.most_rows:
                batch = self._forming = _Batch(f"skillopt-{uuid.uuid4().hex}", time.time())
                self._batches.append(batch)
            batch.unsent[key] = self._scrubbed.request(request)
            batch.entries[key] = entry.id
            batch.size += size
            batch.left.add(key)
            self._rows[key] = batch
        if batch.task is None:
            batch.task = asyncio.ensure_future(self._run(batch))
            batch.task.add_done_callback(_heard)
        return batch, entry

    async def _outcome(self, batch: _Batch, key: str, entry: Entry) -> Reply | ModelError:
        """What came of a row. One that is not sent when nobody waits for it any more is taken out."""
        assert batch.task is not None, "whoever joins starts it"
        either: Sequence[asyncio.Future[Any]] = (batch.task, self._stopping)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not batch.task.done():
                raise self._stopping.result()
        finally:
            if key in batch.unsent:
                del batch.unsent[key], batch.entries[key], self._rows[key]
                batch.left.discard(key)
                self._ledger.withdraw(entry)
        missing = ModelError("unavailable", f"batch {batch.id} has no answer to one of its rows")
        return batch.task.result().get(key, missing)

    def _done(self, batch: _Batch, key: str) -> None:
        """A row is answered, or asked again: its batch is kept no longer than it has others."""
        batch.left.discard(key)
        if self._rows.get(key) is batch:
            del self._rows[key]
        if not batch.left:
            self._store.forget_batch(batch.token)
            self._batches.remove(batch)

    async def _run(self, batch: _Batch) -> Mapping[str, Reply | ModelError]:
        """Send a batch when no further question comes, wait for its end, and return the outcomes by key."""
        known = -1
        while self._forming is batch and known < len(batch.entries):
            known = len(batch.entries)
            await asyncio.sleep(QUIET)
        if self._forming is batch:
            self._forming = None
        names = batch.names()
        if not names:
            self._batches.remove(batch)
            return {}
        try:
            if batch.id is None:
                await self._send(batch)
            found = await self._ended(batch, str(batch.id))
        except ModelError as error:  # no row of it was or will be asked
            return dict.fromkeys(names, error)
        return {key: found[name] for key, name in names.items() if name in found}

    async def _send(self, batch: _Batch) -> None:
        """Have a batch with the provider exactly once; raises `ModelError` where it surely is not there."""
        asked, batch.unsent = batch.unsent, {}
        if not asked:  # of an earlier session, which was killed before it knew the id
            if not await self._found(batch):
                raise ModelError("unavailable", f"the batch {batch.token} was never sent", refused=True)
            return
        self._store.keep_batch(batch.stored())
        names, deadline = batch.names(), time.monotonic() + self._retry.seconds
        for tries in itertools.count(1):
            try:
                rows = [self._api.row(names[key], request) for key, request in asked.items()]
                self._keep_id(batch, await self._api.create(batch.token, rows))
                break
            except ModelError as error:
                pause = self._retry.pause(tries) if error.retry_after is None else error.retry_after
                is_last = tries >= self._retry.attempts or time.monotonic() + pause > deadline
                may_be_there = not error.refused or error.kind in ("unavailable", "timeout")
                if error.kind == "auth" or (may_be_there and is_last):
                    raise self._down(batch, error) from error
                if error.kind not in TRANSIENT_KINDS or is_last:
                    raise
                await asyncio.sleep(pause)
                if may_be_there and await self._found(batch):
                    break
        self._tell(
            f"{len(names)} questions are with {self.endpoint} as batch {batch.id}, at half price and within"
            " 24 hours. Stopping loses nothing: the same command waits for the same batch."
        )

    async def _found(self, batch: _Batch) -> bool:
        """Look for a batch whose id never arrived; its rows have names that no other batch has."""
        names, since = set(batch.names().values()), batch.began - SKEW
        listed = await self._patiently(
            batch, lambda: self._api.sent_since(since, batch.token, len(batch.entries))
        )
        for id in listed:
            if not names.isdisjoint(await self._ended(batch, id)):
                self._keep_id(batch, id)
                return True
        return False

    def _keep_id(self, batch: _Batch, id: str) -> None:
        batch.id = id
        self._store.keep_batch(batch.stored())

    async def _ended(self, batch: _Batch, id: str) -> Mapping[str, Reply | ModelError]:
        """Wait until the batch with that id is over, and fetch what came of its rows."""
        for looks in itertools.count(1):
            progress = await self._patiently(batch, lambda: self._api.look(id))
            batch.answered = progress.done
            if progress.failure is not None:
                raise progress.failure
            if progress.is_over:
                break
            await asyncio.sleep(self._retry.pause(looks))
        return await self._patiently(batch, lambda: self._api.results(id))

    async def _patiently(self, batch: _Batch, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask what costs nothing, again after what may pass."""
        deadline = time.monotonic() + self._retry.seconds
        for tries in itertools.count(1):
            try:
                return await ask()
            except ModelError as error:
                pause = self._retry.pause(tries) if error.retry_after is None else error.retry_after
                is_last = tries >= self._retry.attempts or time.monotonic() + pause > deadline
                if error.kind not in TRANSIENT_KINDS or is_last:
                    raise self._down(batch, error) from error
                await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last try returns or raises")

    def _down(self, batch: _Batch, error: ModelError) -> ProviderDown:
        return ProviderDown(
            f"Batch {batch.id or batch.token} at {self.endpoint} cannot be reached:"
            f" {self._scrubbed.error(error).detail}. It is written down, and nothing of it is paid again. Run"
            " the same command when the cause is gone."
        )


class _Batch:
    """A batch that is being filled, or that is with the provider."""

    def __init__(
        self, token: str, began: float, id: str | None = None, entries: Mapping[str, int] | None = None
    ) -> None:
        self.token = token
        self.began = began
        self.id = id
        self.entries = dict(entries or {})
        self.unsent: dict[str, Request] = {}
        self.left = set(self.entries)
        """Rows whose outcome nobody has taken."""
        self.size = 0
        self.answered = 0
        self.task: asyncio.Task[Mapping[str, Reply | ModelError]] | None = None
        """Sends it and waits for its end; runs from the first question on that wants a row of it."""

    def names(self) -> dict[str, str]:
        """The name of every row, by the key of its question."""
        return {key: f"{self.token}-{number}" for number, key in enumerate(self.entries)}

    def stored(self) -> SentBatch:
        """The batch as it is kept."""
        return SentBatch(token=self.token, began=self.began, id=self.id, entries=self.entries)


def _heard(task: asyncio.Task[Mapping[str, Reply | ModelError]]) -> None:
    if not task.cancelled():
        task.exception()  # every row hears of it
