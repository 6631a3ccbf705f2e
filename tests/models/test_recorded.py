"""The records: asked once, stored before it is used, withdrawn only while unsent, and found again by
everything that matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from skillopt.errors import ModelError
from skillopt.messages import Image, Message, Reply, Request, Tool, Usage
from skillopt.models.stack.budgeted import Budgeted
from skillopt.models.stack.limited import Limited, Limiter, Retry
from skillopt.models.stack.recorded import Recorded, request_key
from skillopt.money import Budget, Ledger
from skillopt.runs.database import Database

USAGE = Usage(input_tokens=3, output_tokens=2)
BASE = Request(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hello")),
    max_tokens=64,
    role="optimizer",
    stage="merge",
    place="e1/s1/merge/0/a0",
)
PRINT: Mapping[str, Any] = {"provider": "p", "model": "m", "temperature": 0.5}


class Notes:
    """Records in memory; `order` shows that an answer is stored before anybody has it."""

    def __init__(self, order: list[str] | None = None) -> None:
        self.kept: dict[str, Reply] = {}
        self.order = order if order is not None else []

    def get(self, key: str) -> Reply | None:
        return self.kept.get(key)

    def put(self, key: str, request: Request, reply: Reply) -> None:
        self.order.append("stored")
        self.kept[key] = reply


class Slow:
    """A provider that answers when it is told to."""

    endpoint = "simulated"
    fingerprint = PRINT

    def __init__(self) -> None:
        self.sent = 0
        self.answer = asyncio.Event()
        self.fails: list[ModelError] = []

    async def complete(self, request: Request) -> Reply:
        self.sent += 1
        await self.answer.wait()
        if self.fails:
            raise self.fails.pop(0)
        return Reply(text=f"answer {self.sent}", finish="stop", usage=USAGE)

    async def close(self) -> None:
        """Nothing is open."""


class Memory:
    """A journal that nobody reads."""

    def open(self, *_: object) -> int:
        self.last = getattr(self, "last", 0) + 1
        return self.last

    def close(self, *_: object) -> None:
        """Forgotten."""

    def entries(self) -> list[Any]:
        return []

    def keep_time(self, seconds: float) -> None:
        """Forgotten."""


def stack(provider: Slow, notes: Notes, workers: int = 8, budget: Budget | None = None) -> Recorded:
    """The whole stack of a run."""
    ledger = Ledger(budget or Budget(), Memory())
    retry = Retry(attempts=3, first_delay=0.0, longest_delay=0.0)
    return Recorded(
        Limited(Budgeted(provider, ledger, None), Limiter({"optimizer": workers, "target": workers}, retry)),
        notes,
    )


async def ticks(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_was_answered_once_is_never_asked_again() -> None:
    provider, notes = Slow(), Notes()
    provider.answer.set()
    first = await stack(provider, notes).complete(BASE)
    assert await stack(provider, notes).complete(BASE) == first
    assert provider.sent == 1


async def test_an_answer_is_stored_before_it_is_used() -> None:
    order: list[str] = []
    provider = Slow()
    provider.answer.set()

    async def use() -> None:
        await stack(provider, Notes(order)).complete(BASE)
        order.append("used")

    await use()
    assert order == ["stored", "used"]


async def test_two_who_ask_the_same_at_the_same_time_share_one_call() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes)
    asking = [asyncio.ensure_future(recorded.complete(BASE)) for _ in range(3)]
    await ticks()
    asking[0].cancel()  # the others still wait
    await ticks()
    provider.answer.set()
    assert (await asking[1]) == (await asking[2])
    assert provider.sent == 1
    assert notes.order == ["stored"]


async def test_a_failure_is_told_to_all_who_share_it_and_is_not_kept() -> None:
    provider, notes = Slow(), Notes()
    provider.fails = [ModelError("contract", "simulated")]
    recorded = stack(provider, notes)
    asking = [asyncio.ensure_future(recorded.complete(BASE)) for _ in range(2)]
    await ticks()
    provider.answer.set()
    assert [type(result) for result in await asyncio.gather(*asking, return_exceptions=True)] == [
        ModelError,
        ModelError,
    ]
    assert not notes.kept
    assert (await recorded.complete(BASE)).text == "answer 2"


async def test_a_question_nobody_waits_for_is_withdrawn_while_it_is_unsent() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes, workers=1)
    first = asyncio.ensure_future(recorded.complete(BASE))
    second = asyncio.ensure_future(recorded.complete(replace(BASE, place="e1/s1/merge/1/a0")))
    await ticks()
    second.cancel()
    await ticks()
    provider.answer.set()
    await first
    await recorded.drain()
    assert provider.sent == 1


async def test_a_question_that_waits_for_the_budget_is_withdrawn_too() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes, budget=Budget(calls=1))
    first = asyncio.ensure_future(recorded.complete(BASE))
    second = asyncio.ensure_future(recorded.complete(replace(BASE, place="other")))
    await ticks()
    second.cancel()
    provider.answer.set()
    await first
    await recorded.drain()
    assert provider.sent == 1


async def test_a_question_that_was_sent_runs_to_its_end_and_is_stored_though_nobody_waits() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes)
    asking = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking  # at once: the caller need not wait for it
    assert not notes.kept
    provider.answer.set()
    await recorded.drain()
    assert [reply.text for reply in notes.kept.values()] == ["answer 1"]
    assert (await recorded.complete(BASE)).text == "answer 1"
    assert provider.sent == 1


async def test_a_sent_question_whose_attempt_fails_is_not_repeated_for_nobody() -> None:
    provider, notes = Slow(), Notes()
    provider.fails = [ModelError("unavailable", "simulated")]
    recorded = stack(provider, notes)
    asking = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    asking.cancel()
    provider.answer.set()
    await recorded.drain()
    assert provider.sent == 1
    assert not notes.kept


async def test_one_who_comes_while_an_unsent_question_is_withdrawn_gets_an_answer_all_the_same() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes, workers=1)
    blocking = asyncio.ensure_future(recorded.complete(replace(BASE, place="before")))
    leaving = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    leaving.cancel()
    coming = asyncio.ensure_future(recorded.complete(BASE))  # meets the withdrawal on its way
    provider.answer.set()
    assert (await asyncio.wait_for(coming, 2)).finish == "stop"
    await blocking
    assert provider.sent == 2


async def test_one_who_comes_while_a_sent_question_has_no_one_waiting_shares_it() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes)
    leaving = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    leaving.cancel()
    await ticks()
    coming = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    provider.answer.set()
    assert (await coming).text == "answer 1"
    assert provider.sent == 1


async def test_one_who_comes_while_an_abandoned_attempt_fails_asks_anew() -> None:
    provider, notes = Slow(), Notes()
    provider.fails = [ModelError("unavailable", "simulated")]
    recorded = stack(provider, notes)
    leaving = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    leaving.cancel()
    await ticks()
    coming = asyncio.ensure_future(recorded.complete(BASE))
    await ticks()
    provider.answer.set()
    assert (await asyncio.wait_for(coming, 2)).text == "answer 2"


async def test_draining_waits_for_all_that_was_sent() -> None:
    provider, notes = Slow(), Notes()
    recorded = stack(provider, notes)
    asking = [asyncio.ensure_future(recorded.complete(replace(BASE, place=f"p{n}"))) for n in range(5)]
    await ticks()
    for task in asking:
        task.cancel()
    asyncio.get_running_loop().call_later(0.01, provider.answer.set)
    await recorded.drain()
    assert len(notes.kept) == 5


TOOL = Tool(name="add", description="Adds.", parameters={"type": "object"})
CHANGES: dict[str, Request] = {
    "a word": replace(BASE, messages=(BASE.messages[0], Message(role="user", content="Hello!"))),
    "the speaker": replace(BASE, messages=(BASE.messages[0], Message(role="assistant", content="Hello"))),
    "one message less": replace(BASE, messages=BASE.messages[1:]),
    "an image": replace(
        BASE,
        messages=(
            BASE.messages[0],
            Message(role="user", content="Hello", images=(Image(media_type="image/png", data="AA=="),)),
        ),
    ),
    "a tool": replace(BASE, tools=(TOOL,)),
    "a tool's schema": replace(BASE, tools=(replace(TOOL, parameters={"type": "array"}),)),
    "the schema": replace(BASE, schema={"type": "object"}),
    "the cap": replace(BASE, max_tokens=65),
    "the place": replace(BASE, place="e1/s1/merge/0/a1"),
    "the draw": replace(BASE, draw=1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_part_of_a_question_is_part_of_its_key(change: str) -> None:
    assert request_key(PRINT, CHANGES[change]) != request_key(PRINT, BASE)


def test_all_changed_questions_have_keys_of_their_own() -> None:
    assert len({request_key(PRINT, request) for request in CHANGES.values()}) == len(CHANGES)


@pytest.mark.parametrize(
    "other",
    [
        {**PRINT, "model": "n"},
        {**PRINT, "temperature": 0.6},
        {**PRINT, "seed": 1},
        {"provider": "p", "model": "m"},
    ],
)
def test_every_part_of_the_fingerprint_is_part_of_the_key(other: Mapping[str, Any]) -> None:
    assert request_key(other, BASE) != request_key(PRINT, BASE)


def test_how_urgent_a_question_is_does_not_change_its_key_nor_does_the_order_of_a_dictionary() -> None:
    assert request_key(PRINT, replace(BASE, background=True)) == request_key(PRINT, BASE)
    assert request_key(dict(reversed(PRINT.items())), BASE) == request_key(PRINT, BASE)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="", finish="length", usage=None),
        Reply(text="nö 😀", finish="refusal", usage=USAGE, model="m-1"),
    ],
)
async def test_the_database_gives_back_what_it_was_given_also_a_cut_or_refused_reply(
    reply: Reply, tmp_path: Any
) -> None:
    database = Database(tmp_path / "run.db")
    database.put("key", BASE, reply)
    database.shut()
    again = Database(tmp_path / "run.db")
    assert again.get("key") == reply
    assert again.get("other") is None
    again.shut()
