"""Hedging: who is asked a second time and who is not, which reply counts, and what becomes of the other."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from models.test_recorded import Memory
from skillopt.errors import ModelError
from skillopt.messages import Message, Reply, Request, Usage
from skillopt.models.stack import hedged
from skillopt.models.stack.budgeted import Budgeted
from skillopt.models.stack.hedged import ENOUGH, FACTOR, FEW, FEWEST, HedgeAllowance, Hedged, LatencyStats
from skillopt.models.stack.limited import Limiter, Retry, Slots
from skillopt.money import HEDGE_STAGE, TEST_STAGE, Amount, Budget, Ledger

TYPICAL = 0.01
MANY = 20
"""Calls after which hedging is allowed."""
ASKED = Request(
    messages=(Message(role="user", content="?"),), max_tokens=8, role="target", stage="rollout", place="p"
)


@pytest.fixture(autouse=True)
def _in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated calls take milliseconds: here a slow one is slow at once."""
    monkeypatch.setattr(hedged, "SOONEST", 0.0)


class Tails:
    """Answers typically; a call whose place says `slow` waits for `answer`, unless it is asked again."""

    endpoint = "http://simulated:80"
    fingerprint: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.answer = asyncio.Event()
        self.again = asyncio.Event()
        self.again.set()
        self.asked, self.hedged = asyncio.Event(), asyncio.Event()
        self.fails: set[int] = set()

    async def complete(self, request: Request) -> Reply:
        number = self.sent.count(request.place)
        self.sent.append(request.place)
        if request.place.startswith("slow"):
            (self.hedged if number else self.asked).set()
            await (self.again if number else self.answer).wait()
            if number in self.fails:
                raise ModelError("unavailable", f"simulated {number}", refused=True)
        else:
            await asyncio.sleep(TYPICAL)
        return Reply(text=f"answer {number}", finish="stop", usage=Usage(input_tokens=5, output_tokens=2))

    async def close(self) -> None:
        """Nothing is open."""


class Stack:
    """A hedged model over a provider with tails, which has answered some calls."""

    def __init__(self, budget: Budget | None = None, slots: Slots | None = None) -> None:
        self.provider = Tails()
        self.ledger = Ledger(budget or Budget(), Memory())
        self.limiter = Limiter({"optimizer": 8}, Retry(attempts=1))
        self.spares: list[str] = []
        self.allowance = HedgeAllowance()
        self.model = Hedged(
            Budgeted(self.provider, self.ledger, None),
            self.limiter,
            allowance=self.allowance,
            slots=slots,
            keep_spare=lambda request, reply: self.spares.append(reply.text),
        )

    async def learn(self, calls: int) -> None:
        await asyncio.gather(*(self.model.complete(replace(ASKED, place=f"q{n}")) for n in range(calls)))

    async def ask(self, place: str = "slow") -> str:
        return (await self.model.complete(replace(ASKED, place=place))).text

    def hedges(self) -> int:
        return self.ledger.account.total(HEDGE_STAGE).calls


async def test_the_first_reply_is_the_reply_and_the_slower_one_is_charged_and_kept() -> None:
    stack = Stack()
    await stack.learn(MANY)
    assert await stack.ask() == "answer 1"
    assert not stack.spares
    stack.provider.answer.set()
    await stack.model.drain()
    assert stack.spares == ["answer 0"]
    assert stack.hedges() == 1
    assert stack.ledger.account.total().calls == MANY + 2
    assert not stack.ledger.account.open


async def test_the_second_asking_is_the_spare_where_the_first_still_wins() -> None:
    stack = Stack()
    stack.provider.again.clear()
    await stack.learn(MANY)
    asking = asyncio.ensure_future(stack.ask())
    await stack.provider.hedged.wait()
    stack.provider.answer.set()
    assert await asking == "answer 0"
    stack.provider.again.set()
    await stack.model.drain()
    assert stack.spares == ["answer 1"]


async def test_before_a_few_calls_nothing_counts_as_slow() -> None:
    stack = Stack()
    stack.allowance.calls = MANY
    await stack.learn(FEWEST - 1)
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * FACTOR * ENOUGH / FEWEST * TYPICAL)
    stack.provider.answer.set()
    assert await asking == "answer 0"
    assert stack.hedges() == 0


async def test_a_call_that_was_sent_before_anybody_could_say_what_is_slow_is_asked_again_too() -> None:
    stack = Stack()
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(0)
    await stack.learn(MANY)
    assert await asking == "answer 1"


async def test_a_slow_call_waits_for_the_share_that_answers_of_others_make() -> None:
    stack = Stack()
    await stack.learn(ENOUGH)
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * TYPICAL)
    assert stack.provider.sent.count("slow") == 1
    await stack.learn(MANY)
    assert await asking == "answer 1"


async def test_a_slow_call_is_asked_again_as_soon_as_there_is_a_share_for_it() -> None:
    stack = Stack()
    await stack.learn(MANY)
    stack.allowance.hedges = 1
    asking = asyncio.ensure_future(stack.ask())
    await stack.provider.asked.wait()  # a busy machine sends it late
    await asyncio.sleep(5 * TYPICAL)
    assert stack.provider.sent.count("slow") == 1
    stack.allowance.hedges = 0
    stack.allowance.look()  # as after any answer
    assert await asking == "answer 1"


async def test_a_slow_rollout_is_asked_again_when_few_others_are_out_and_an_optimizer_s_call_at_once() -> (
    None
):
    stack = Stack()
    await stack.learn(10 * MANY)
    stack.allowance.out = FEW
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * TYPICAL)
    assert stack.hedges() == 0
    for number in range(ENOUGH):
        await stack.model.complete(replace(ASKED, place=f"o{number}", role="optimizer", stage="ranking"))
    analyst = replace(ASKED, place="slow analyst", role="optimizer", stage="ranking")
    assert (await stack.model.complete(analyst)).text == "answer 1"
    assert stack.provider.sent.count("slow") == 1
    stack.allowance.out -= FEW
    await stack.learn(1)
    assert await asking == "answer 1"


async def test_a_test_that_has_begun_counts_as_asked() -> None:
    extra = HedgeAllowance(test_calls=400, calls=100, tokens=10_000, hedges=5, hedge_tokens=500)
    assert not extra.is_within_share
    stack = Stack()
    stack.model._allowance = extra
    await stack.model.complete(replace(ASKED, stage=TEST_STAGE, background=True))
    assert extra.tested == 1
    assert extra.is_within_share
    extra.hedges = 25
    assert not extra.is_within_share


async def test_a_hedge_goes_before_background_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hedged, "FACTOR", 0.0)  # every call is slow at once
    slots = Slots(1)
    stack = Stack(slots=slots)
    stack.provider.answer.set()
    await stack.learn(MANY)
    stack.provider.answer.clear()
    await slots.acquire()
    background = asyncio.ensure_future(slots.acquire(background=True))
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * TYPICAL)
    slots.release()
    assert await asking == "answer 1"
    assert not background.done()
    stack.provider.answer.set()
    await background


async def test_the_reply_is_the_seconds_where_the_first_fails() -> None:
    stack = Stack()
    stack.provider.fails = {0}
    stack.provider.again.clear()
    await stack.learn(MANY)
    asking = asyncio.ensure_future(stack.ask())
    await stack.provider.hedged.wait()
    stack.provider.answer.set()
    await asyncio.sleep(0.01)
    stack.provider.again.set()
    assert await asking == "answer 1"


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_of_two_askings_that_end_at_once_the_second_is_looked_at_too(is_cancelled: bool) -> None:
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    for fails, spares in (set[int](), ["answer 1"]), ({1}, []):
        stack = Stack()
        stack.provider.fails = fails
        stack.provider.again.clear()
        await stack.learn(MANY)
        asking = asyncio.ensure_future(stack.ask())
        await stack.provider.hedged.wait()
        if is_cancelled:
            asking.cancel()
            await asyncio.sleep(0)
        stack.provider.answer.set()
        stack.provider.again.set()
        assert await asking == "answer 0"
        await stack.model.drain()
        assert stack.spares == spares
        del asking, stack
        gc.collect()
    assert unheard == []


async def test_where_both_fail_it_is_the_first_failure_that_is_told() -> None:
    stack = Stack()
    stack.provider.fails = {0, 1}
    await stack.learn(MANY)
    asking = asyncio.ensure_future(stack.ask())
    await stack.provider.hedged.wait()
    stack.provider.answer.set()
    with pytest.raises(ModelError, match="simulated 0"):
        await asking


async def test_a_hedge_that_the_budget_does_not_hold_is_not_sent_and_spoils_nothing() -> None:
    stack = Stack(Budget(calls=MANY + 1))
    await stack.learn(MANY)
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * TYPICAL)
    stack.provider.answer.set()
    assert await asking == "answer 0"
    assert stack.ledger.spent == Amount(calls=MANY + 1, tokens=7 * (MANY + 1), usd=None)


async def test_a_hedge_takes_no_slot_that_a_rollout_waits_for_and_holds_its_own_until_both_have_ended() -> (
    None
):
    slots = Slots(1)
    stack = Stack(slots=slots)
    await stack.learn(MANY)
    await slots.acquire()
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * TYPICAL)
    waiting = asyncio.ensure_future(slots.acquire())  # after the hedge, and still before it
    await asyncio.sleep(0)
    assert stack.provider.sent.count("slow") == 1
    slots.release()
    await waiting
    assert stack.provider.sent.count("slow") == 1
    slots.release()
    assert await asking == "answer 1"
    assert slots.used == 1
    stack.provider.answer.set()
    await stack.model.drain()
    await asyncio.sleep(0)
    assert slots.used == 0


async def test_an_endpoint_that_slowed_down_is_not_asked_twice() -> None:
    stack = Stack()
    await stack.learn(MANY)
    stack.limiter.window = 3.0
    asking = asyncio.ensure_future(stack.ask())
    await asyncio.sleep(5 * TYPICAL)
    stack.provider.answer.set()
    assert await asking == "answer 0"
    assert stack.hedges() == 0


async def test_a_call_that_was_sent_is_answered_also_when_nobody_waits_any_more() -> None:
    stack = Stack()
    stack.provider.again.clear()
    await stack.learn(MANY)
    asking = asyncio.ensure_future(stack.ask())
    await stack.provider.hedged.wait()
    asking.cancel()
    await asyncio.sleep(0)
    stack.provider.answer.set()
    stack.provider.again.set()
    assert await asking == "answer 0"
    await stack.model.drain()
    assert not stack.ledger.account.open


async def test_background_work_is_never_hedged() -> None:
    stack = Stack()
    await stack.learn(MANY)
    asking = asyncio.ensure_future(stack.model.complete(replace(ASKED, place="slow", background=True)))
    await asyncio.sleep(5 * TYPICAL)
    stack.provider.answer.set()
    assert (await asking).text == "answer 0"
    assert stack.hedges() == 0


def reply(seconds: float | None, output: int = 10) -> Reply:
    return Reply(text="", finish="stop", usage=Usage(input_tokens=5, output_tokens=output), seconds=seconds)


def test_patience_is_a_multiple_of_the_mean_and_longer_while_few_calls_are_known() -> None:
    pace = LatencyStats()
    for _ in range(FEWEST):
        assert pace.patience() is None
        pace.take(reply(1.5))
    assert pace.patience() == pytest.approx(FACTOR * 1.5 * ENOUGH / FEWEST)
    for number in range(FEWEST, ENOUGH):
        pace.take(reply(1.0 + number % 2, output=number // 2))
    assert pace.patience() == pytest.approx(FACTOR * pace.seconds / ENOUGH)


def test_a_reply_that_nobody_timed_teaches_nothing() -> None:
    pace = LatencyStats()
    for _ in range(2 * ENOUGH):
        pace.take(reply(None))
    assert pace.patience() is None


def test_slow_calls_that_are_long_answers_are_not_asked_again() -> None:
    long, tails = LatencyStats(), LatencyStats()
    for number in range(100):
        long.take(reply(0.1 + 0.02 * number, output=10 + 2 * number))
        tails.take(reply(8.0 if number % 20 == 0 else 1.0, output=10 + number % 7))
    assert long.explained == pytest.approx(1.0)
    assert long.patience() is None
    assert tails.explained < 0.1
    assert tails.patience() is not None


def test_one_slow_call_of_a_few_that_is_long_by_chance_explains_nothing() -> None:
    pace = LatencyStats()
    for number in range(ENOUGH):
        pace.take(reply(8.0 if number == 5 else 1.0, output=60 if number == 5 else 50))
    assert pace.explained == pytest.approx(1.0)
    assert pace.patience() is not None


@pytest.mark.parametrize(
    ("calls", "tokens", "hedges", "hedge_tokens", "allowed"),
    [
        (0, 0, 0, 0, False),
        (20, 2000, 0, 0, True),
        (19, 1900, 0, 0, False),
        (40, 4000, 1, 200, True),
        (40, 4000, 2, 100, False),
        (40, 4000, 1, 201, False),
        (40, 0, 0, 0, True),
    ],
)
def test_hedges_stay_within_their_share_of_calls_and_but_for_one_of_tokens(
    calls: int, tokens: int, hedges: int, hedge_tokens: float, allowed: bool
) -> None:
    extra = HedgeAllowance(calls=calls, tokens=tokens, hedges=hedges, hedge_tokens=hedge_tokens)
    assert extra.is_within_share is allowed
