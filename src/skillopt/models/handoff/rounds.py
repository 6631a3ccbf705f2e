"""Decides when a round of questions by hand is complete: when everything that is under way waits for an
answer.

Until then a question waits, so that a round holds all that can be asked; then the round is put on the desk
and the run stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from skillopt.errors import AnswersWanted
from skillopt.messages import Reply, Request
from skillopt.models.handoff.desk import Desk
from skillopt.models.port import Model

PAUSE = 0.02
CALM = 5
"""So many pauses without any news make a round complete: the steps between two calls take a few turns of the
event loop.
"""
MOST_NAMED = 20


@runtime_checkable
class ByHand(Protocol):
    """A model whose answers come from files."""

    desk: Desk


class Rounds:
    """What is under way in one run, and the questions that wait."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], tuple[Desk, Request]] = {}
        self._flights: list[Callable[[], int]] = []
        self._works = 0
        self._news = 0
        self._watcher: asyncio.Task[None] | None = None

    def watch(self, in_flight: Callable[[], int]) -> None:
        """Count these calls as under way."""
        self._flights.append(in_flight)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Something is under way that may ask a question later, such as a rollout with its scoring."""
        self._step(+1)
        try:
            yield
        finally:
            self._step(-1)

    @contextmanager
    def asking(self, request: Request) -> Iterator[None]:
        """A rollout does nothing by itself while it asks; the optimizer asks outside of any."""
        inside = 0 if request.role == "optimizer" else 1
        self._step(-inside)
        try:
            yield
        finally:
            self._step(+inside)

    async def wait(self, desk: Desk, request: Request) -> None:
        """Return when an answer is on the desk; raises `AnswersWanted` when the round is
        complete without it.
        """
        if isinstance(desk.look(request), Reply):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = (desk, request)
        self._news += 1
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.ensure_future(self._watch())
        try:
            await turn
        finally:
            self._waiting.pop(turn, None)
            self._news += 1

    def _step(self, by: int) -> None:
        self._works += by
        self._news += 1

    async def _watch(self) -> None:
        calm = 0
        while self._waiting:
            before = self._news
            await asyncio.sleep(PAUSE)
            idle = self._works <= 0 and sum(count() for count in self._flights) == len(self._waiting)
            calm = calm + 1 if idle and self._news == before else 0
            if calm >= CALM:
                self._close_round()
                return

    def _close_round(self) -> None:
        """Nothing more can be asked: publish, and tell everyone who waits. Answers that came meanwhile are
        taken instead.
        """
        answered = [
            turn for turn, (desk, request) in self._waiting.items() if isinstance(desk.look(request), Reply)
        ]
        for turn in answered:
            turn.set_result(None)
        if answered:
            self._watcher = asyncio.ensure_future(self._watch())
            return
        desks: dict[Desk, list[Request]] = {}
        for desk, request in self._waiting.values():
            desks.setdefault(desk, []).append(request)
        try:
            for desk, requests in desks.items():
                desk.publish(requests)
            wanted = _wanted(desks)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is: nobody awaits the watcher
            for turn in self._waiting:
                turn.set_exception(error)
            return
        for turn in self._waiting:
            turn.set_exception(wanted)


def _wanted(desks: Mapping[Desk, list[Request]]) -> AnswersWanted:
    total = sum(map(len, desks.values()))
    places = [place for desk, requests in desks.items() for place in desk.open_rounds(requests)]
    troubles = [
        str(said) for desk, requests in desks.items() for request in requests if (said := desk.look(request))
    ]
    troubles += [
        f"{path} answers no question; the index says which file each answer goes into"
        for desk in desks
        for path in desk.strays()
    ]
    lines = [
        f"{total} question{'s wait' if total != 1 else ' waits'} for an answer:",
        *(f"  {place}" for place in places),
    ]
    if troubles:
        lines += ["These cannot be used as they are:", *(f"  {trouble}" for trouble in troubles[:MOST_NAMED])]
        lines += [f"  ... and {len(troubles) - MOST_NAMED} more"] if len(troubles) > MOST_NAMED else []
    lines.append(
        "Write each answer beside its question, then run the same command again: it goes on from here."
    )
    return AnswersWanted("\n".join(lines))


class Handed:
    """A model whose questions wait for their round. It stands outside limiter and budget: only an answer
    costs.
    """

    def __init__(self, inner: Model, desk: Desk, rounds: Rounds) -> None:
        self._inner = inner
        self._desk = desk
        self._rounds = rounds
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        await self._rounds.wait(self._desk, request)
        return replace(
            await self._inner.complete(request), seconds=None
        )  # reading a file says nothing of how long the answer took

    async def close(self) -> None:
        await self._inner.close()


class Attended:
    """A model whose callers are known to be waiting while it works. `concurrency` is the provider's own, if
    it has one.
    """

    def __init__(self, inner: Model, rounds: Rounds, concurrency: int | None = None) -> None:
        self._inner = inner
        self._rounds = rounds
        self.concurrency = concurrency
        self.endpoint = inner.endpoint
        self.fingerprint: Mapping[str, Any] = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        with self._rounds.asking(request):
            return await self._inner.complete(request)

    async def close(self) -> None:
        await self._inner.close()
