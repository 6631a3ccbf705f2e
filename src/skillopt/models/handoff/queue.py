"""Questions by hand wait here until their round is complete.

A round is complete when everything under way in the run waits for an answer: only then it is written to its
folder, with all that can be asked, and the run stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from skillopt.errors import AnswersWanted
from skillopt.messages import Reply, Request
from skillopt.models.handoff.folder import QuestionFolder
from skillopt.models.port import Model
from skillopt.models.stack.recorded import Recorded

PAUSE = 0.02
CALM = 5
"""Pauses without a change that make a round complete: between two calls the event loop turns a few times."""
MOST_NAMED = 20


@runtime_checkable
class ByHand(Protocol):
    """A model whose answers come from files."""

    questions: QuestionFolder


class HandoffQueue:
    """The questions of one run that wait. What else is under way is looked up in counters that the models and
    evaluators keep anyway, and only while a question waits.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], tuple[QuestionFolder, Request]] = {}
        self._models: list[Recorded] = []
        self._in_rollouts: list[Recorded] = []
        self._rollouts: list[Callable[[], int]] = []
        self._watcher: asyncio.Task[None] | None = None

    def watch_model(self, model: Recorded, *, in_rollouts: bool) -> None:
        """Count the calls of this model as under way. `in_rollouts`: a rollout only waits while it asks."""
        self._models.append(model)
        if in_rollouts:
            self._in_rollouts.append(model)

    def watch_rollouts(self, under_way: Callable[[], int]) -> None:
        """Count these rollouts as under way, with their scoring: they may ask something later."""
        self._rollouts.append(under_way)

    async def wait(self, folder: QuestionFolder, request: Request) -> None:
        """Return when there is an answer; raises `AnswersWanted` when the round is complete without it."""
        if isinstance(folder.look(request), Reply):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = (folder, request)
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.ensure_future(self._watch())
        try:
            await turn
        finally:
            self._waiting.pop(turn, None)

    async def _watch(self) -> None:
        calm = 0
        before: tuple[int, ...] = ()
        while self._waiting:
            await asyncio.sleep(PAUSE)
            flights = sum(model.in_flight for model in self._models)
            busy = sum(count() for count in self._rollouts) - sum(one.callers for one in self._in_rollouts)
            now = (flights, busy, len(self._waiting), *(model.asked for model in self._models))
            is_idle = busy <= 0 and flights == len(self._waiting)
            calm, before = calm + 1 if is_idle and now == before else 0, now
            if calm >= CALM:
                self._close_round()
                return

    def _close_round(self) -> None:
        """Nothing more can be asked: publish and tell who waits, or take answers that came meanwhile."""
        answered = [
            turn
            for turn, (folder, request) in self._waiting.items()
            if isinstance(folder.look(request), Reply)
        ]
        for turn in answered:
            turn.set_result(None)
        if answered:
            self._watcher = asyncio.ensure_future(self._watch())
            return
        folders: dict[QuestionFolder, list[Request]] = {}
        for folder, request in self._waiting.values():
            folders.setdefault(folder, []).append(request)
        ended: Exception
        try:
            for folder, requests in folders.items():
                folder.publish(requests)
            ended = _wanted(folders)
        except Exception as error:  # noqa: BLE001 - nobody awaits this task, so those who wait must hear of it
            ended = error
        for turn in self._waiting:
            turn.set_exception(ended)


def _wanted(folders: Mapping[QuestionFolder, list[Request]]) -> AnswersWanted:
    asked = [(folder, request) for folder, requests in folders.items() for request in requests]
    troubles = [str(said) for folder, request in asked if (said := folder.look(request))]
    troubles += [
        f"{path} answers no question; the index says which file each answer goes into"
        for folder in folders
        for path in folder.strays()
    ]
    lines = [
        f"{len(asked)} question{'s wait' if len(asked) != 1 else ' waits'} for an answer:",
        *(f"  {place}" for folder, requests in folders.items() for place in folder.open_rounds(requests)),
    ]
    if troubles:
        lines += ["These cannot be used as they are:", *(f"  {trouble}" for trouble in troubles[:MOST_NAMED])]
        lines += [f"  ... and {len(troubles) - MOST_NAMED} more"] if len(troubles) > MOST_NAMED else []
    lines.append(
        "Write each answer beside its question, then run the same command again: it goes on from here."
    )
    return AnswersWanted("\n".join(lines))


class AnsweredByHand:
    """A model that a person answers: questions wait in a queue; limiter and budget see only answers."""

    def __init__(self, inner: Model, questions: QuestionFolder, queue: HandoffQueue) -> None:
        self._inner = inner
        self._questions = questions
        self._queue = queue
        self.endpoint = inner.endpoint
        self.fingerprint = inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        await self._queue.wait(self._questions, request)
        reply = await self._inner.complete(request)
        return replace(reply, seconds=None)  # reading a file says nothing of how long the answer took

    async def close(self) -> None:
        await self._inner.close()
