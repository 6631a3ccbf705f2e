"""One piece of work at a place of a run: what it builds on, and a sink of its own for what it reports."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from skillopt.events import Event, Sink
from skillopt.events.place import Place
from skillopt.events.records import StageTokens
from skillopt.events.state import MemoryEntry
from skillopt.messages import Usage
from skillopt.skill.document import Document

T = TypeVar("T")


class Outbox:
    """An event sink that may hold facts back, to pass on in order or to drop; live events never wait."""

    def __init__(self, sink: Sink, *, holds: bool = False) -> None:
        self._sink = sink
        self._holds = holds
        self._held: list[Event] = []

    def __call__(self, event: Event) -> None:
        if self._holds and event.id is not None:
            self._held.append(event)
        else:
            self._sink(event)

    def commit(self) -> None:
        """Pass on what was held, and hold no longer."""
        held, self._held, self._holds = self._held, [], False
        for event in held:
            self._sink(event)

    def drop(self) -> None:
        """Forget what was held."""
        self._held = []


class TokenTally:
    """Usage of exactly the stored replies that a record used, by public stage name."""

    def __init__(self) -> None:
        self._stages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(self, stage: str, calls: int, usage: Usage | None) -> None:
        """Count calls of a stage; both kinds of analysts are one."""
        row = self._stages["analyst" if stage.startswith("analyst_") else stage]
        row[0] += calls
        if usage is not None:
            row[1] += usage.input_tokens
            row[2] += usage.output_tokens

    def as_record(self) -> dict[str, StageTokens]:
        """The counts as a record holds them."""
        return {
            stage: StageTokens(calls=calls, prompt_tokens=sent, completion_tokens=got)
            for stage, (calls, sent, got) in sorted(self._stages.items())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Made by whoever decides what is done next, and handed to every stage that takes part.

    Besides the steps of training these are the baseline, the end of an epoch and the sealed test: whatever
    has a place. `seed` is that of its shuffles, `limit` how many edits it may apply.
    """

    place: Place
    emit: Outbox
    skill: Document
    """The skill it starts from."""
    memory: tuple[MemoryEntry, ...] = ()
    meta_skill: str = ""
    seed: int = 0
    limit: int = 0
    tokens: TokenTally = field(default_factory=TokenTally)
    timing: dict[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def at(self, place: Place, *, holds: bool = False) -> Step:
        """A part of it at another place; with `holds` its facts wait until they are committed."""
        return replace(self, place=place, emit=Outbox(self.emit, holds=holds))

    async def timed_stages(self, stages: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        """Pass on the stages as they end, and write down how long each took."""
        async with aclosing(stages):
            since = self.clock()
            async for stage in stages:
                self.timing[stage] = self.clock() - since
                yield stage
                since = self.clock()

    async def timed(self, stage: str, work: Awaitable[T]) -> T:
        """Wait for a stage and write down how long it took."""
        since = self.clock()
        result = await work
        self.timing[stage] = self.clock() - since
        return result
