"""What an attempt reserves, and what it costs in the end, whoever stopped waiting for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from datetime import date
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest

from skillopt.errors import BudgetSpent, ModelError
from skillopt.messages import Image, Message, Reply, Request, Tool, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.stack.budgeted import Budgeted
from skillopt.money import Amount, Budget, Entry, Ledger, Price

PRICE = Price(
    input=Fraction(3, 10**6),
    output=Fraction(15, 10**6),
    cached=Fraction(3, 10**7),
    source="test",
    date=date(2026, 1, 1),
)


def question(text: str = "x" * 3000, cap: int = 100, **more: Any) -> Request:
    return Request(
        messages=(Message(role="user", content=text, **more),),
        max_tokens=cap,
        role="target",
        stage="rollout",
        place="p",
    )


class Journal:
    def __init__(self) -> None:
        self.opened: list[Amount] = []
        self.closed: list[tuple[str, Amount, Usage | None]] = []

    def open(self, role: str, stage: str, place: str, reserved: Amount) -> int:
        self.opened.append(reserved)
        return len(self.opened)

    def close(self, entry: int, state: str, charged: Amount, usage: Usage | None) -> None:
        self.closed.append((state, charged, usage))

    def entries(self) -> Iterable[Entry]:
        return []

    def keep_time(self, seconds: float) -> None:
        """Forgotten."""


class Provider:
    """Gives what it is told to, when it is told to."""

    endpoint = "simulated"
    fingerprint: Mapping[str, str] = MappingProxyType({})

    def __init__(self, outcome: Usage | BaseException | None) -> None:
        self.outcome = outcome
        self.ready = asyncio.Event()
        self.ready.set()
        self.sent = 0

    async def complete(self, request: Request) -> Reply:
        self.sent += 1
        await self.ready.wait()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return Reply(text="ok", finish="stop", usage=self.outcome)

    async def close(self) -> None:
        """Nothing is open."""


def paying(
    outcome: Usage | BaseException | None, budget: Budget | None = None, price: Price | None = PRICE
) -> tuple[Budgeted, Provider, Journal, Ledger]:
    journal, provider = Journal(), Provider(outcome)
    ledger = Ledger(budget or Budget(), journal)  # type: ignore[arg-type]
    return Budgeted(provider, ledger, price), provider, journal, ledger


def used(read: int, wrote: int, cached: int | None = None) -> Usage:
    return Usage(input_tokens=read, output_tokens=wrote, cached_tokens=cached)


async def test_it_reserves_the_input_with_a_margin_and_the_whole_cap_before_sending() -> None:
    model, provider, journal, _ = paying(used(900, 20))
    provider.ready.clear()
    asking = asyncio.ensure_future(model.complete(question()))
    await asyncio.sleep(0.001)
    assert provider.sent == 1
    (reserved,) = journal.opened
    estimate = math.ceil(1.3 * 1000) + 16  # three bytes a token
    assert reserved.tokens == estimate + 100
    assert reserved.calls == 1
    assert reserved.usd == estimate * PRICE.input + 100 * PRICE.output
    provider.ready.set()
    await asking


async def test_it_settles_at_what_the_provider_reports_with_its_cached_tokens() -> None:
    model, _, journal, ledger = paying(used(900, 20, cached=500))
    await model.complete(question())
    assert journal.closed[0][:2] == ("settled", ledger.spent)
    assert ledger.spent == Amount(
        calls=1, tokens=920, usd=400 * PRICE.input + 500 * PRICE.cached + 20 * PRICE.output
    )


async def test_non_ascii_text_is_counted_in_bytes() -> None:
    model, _, journal, _ = paying(used(1, 1))
    await model.complete(question("ü" * 300))
    assert journal.opened[0].tokens == math.ceil(1.3 * 200) + 16 + 100


async def test_tools_and_images_are_reserved_for() -> None:
    model, _, journal, _ = paying(used(1, 1))
    plain = question("")
    await model.complete(plain)
    await model.complete(question("", images=(Image(media_type="image/png", data="A" * 10),)))
    tool = Tool(name="t", description="d" * 3000, parameters={})
    await model.complete(
        Request(
            messages=plain.messages, tools=(tool,), max_tokens=100, role="target", stage="rollout", place="p"
        )
    )
    none, image, described = (reserved.tokens for reserved in journal.opened)
    assert image >= none + 2000
    assert described >= none + 1000


async def test_denser_text_raises_the_estimate_at_once_and_thinner_text_lowers_it_after_a_few_calls() -> None:
    dense, thin = math.ceil(1.3 * 1500) + 16 + 100, math.ceil(1.3 * 300) + 16 + 100
    model, provider, journal, _ = paying(used(300, 1))
    for read in (300, 1500, 300):
        provider.outcome = used(read, 1)
        await model.complete(question())
    assert [reserved.tokens for reserved in journal.opened] == [1416, 1416, dense]
    model, provider, journal, _ = paying(used(300, 1))
    for _ in range(6):
        await model.complete(question())
    assert [reserved.tokens for reserved in journal.opened] == [1416] * 5 + [thin]


@pytest.mark.parametrize(
    ("failure", "state", "tokens"),
    [
        (ModelError("rate_limit", "429", refused=True), "refused", 0),
        (ModelError("unavailable", "500", refused=True), "refused", 0),
        (ModelError("auth", "401", refused=True), "refused", 0),
        (ModelError("timeout", "no answer"), "unreported", 1416),
        (ModelError("unavailable", "reset"), "unreported", 1416),
        (ModelError("unavailable", "broke off", tokens=(0, 0)), "unreported", 1416),
        (ModelError("unavailable", "broke off", tokens=(900, 3)), "settled", 903),
        (RuntimeError("a bug"), "unreported", 1416),
        (None, "unreported", 1416),
    ],
    ids=str,
)
async def test_a_refused_call_costs_one_call_and_one_without_a_report_its_whole_reservation(
    failure: BaseException | None, state: str, tokens: int
) -> None:
    model, _, journal, ledger = paying(failure)
    if failure is None:
        await model.complete(question())
    else:
        with pytest.raises(type(failure)):
            await model.complete(question())
    assert journal.closed[0][0] == state
    assert (ledger.spent.calls, ledger.spent.tokens) == (1, tokens)
    assert ledger.in_flight == 0


@pytest.mark.parametrize("report", [(0, 0), (0, 20), (900, 0), (-5, 20), (900, -1)])
async def test_a_report_that_cannot_be_true_is_none_and_the_reservation_stays(
    report: tuple[int, int],
) -> None:
    model, _, journal, ledger = paying(used(*report))
    reply = await model.complete(question())
    assert (reply.text, reply.usage) == ("ok", None)
    assert journal.closed[0] == ("unreported", journal.opened[0], None)
    assert ledger.spent.tokens == 1416


async def test_more_than_reserved_is_counted_and_named() -> None:
    model, _, _, ledger = paying(used(5000, 100))
    await model.complete(question())
    assert ledger.spent.tokens == 5100
    assert ledger.overruns == ["p used 5100 tokens, 1416 were reserved"]


async def test_a_call_whose_caller_left_is_settled_and_its_answer_returned() -> None:
    model, provider, journal, ledger = paying(used(900, 20))
    provider.ready.clear()
    asking = asyncio.ensure_future(model.complete(question()))
    await asyncio.sleep(0.001)
    for _ in range(3):  # however often it is told to stop
        asking.cancel()
        await asyncio.sleep(0.001)
    assert not asking.done()
    assert ledger.in_flight == 1
    provider.ready.set()
    assert (await asking).text == "ok"
    assert journal.closed[0][0] == "settled"


async def test_a_call_whose_caller_left_and_that_failed_ends_as_cancelled() -> None:
    model, provider, journal, _ = paying(ModelError("timeout", "no answer"))
    provider.ready.clear()
    asking = asyncio.ensure_future(model.complete(question()))
    await asyncio.sleep(0.001)
    asking.cancel()
    await asyncio.sleep(0.001)
    provider.ready.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert journal.closed[0][0] == "unreported"


async def test_what_does_not_fit_is_not_sent() -> None:
    model, provider, journal, _ = paying(used(1, 1), Budget(tokens=1415))
    with pytest.raises(BudgetSpent):
        await model.complete(question())
    assert provider.sent == 0
    assert not journal.opened


async def test_twenty_four_at_once_never_reserve_more_than_there_is() -> None:
    model, provider, journal, ledger = paying(used(900, 20), Budget(tokens=20_000, usd=Fraction("0.05")))
    most: list[Amount] = []
    provider.ready.clear()

    async def watch() -> None:
        while True:
            most.append(ledger.spent)
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    asking = [asyncio.ensure_future(model.complete(question())) for _ in range(24)]
    await asyncio.sleep(0.01)
    provider.ready.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    watching.cancel()
    assert max(amount.tokens for amount in most) <= 20_000
    assert max(amount.usd or Fraction(0) for amount in most) <= Fraction("0.05")
    assert sum(isinstance(result, Reply) for result in results) == provider.sent == len(journal.opened)
    assert any(isinstance(result, BudgetSpent) for result in results)


async def test_without_a_price_dollars_are_unknown() -> None:
    model, _, _, ledger = paying(used(900, 20), price=None)
    await model.complete(question())
    assert ledger.spent.usd is None
    assert ledger.spent.tokens == 920


class Writer(Provider):
    """Writes as many tokens as it is told to, and stops at the cap unless it `ignores` it."""

    def __init__(self, *lengths: int, ignores: bool = False) -> None:
        super().__init__(None)
        self.lengths, self.caps, self.ignores = [*lengths], list[int](), ignores

    async def complete(self, request: Request) -> Reply:
        length = self.lengths[min(len(self.caps), len(self.lengths) - 1)]
        self.caps.append(request.max_tokens)
        await self.ready.wait()
        wrote = length if self.ignores else min(length, request.max_tokens)
        finish: Any = "stop" if wrote == length else "length"
        return Reply(text="x" * wrote, finish=finish, usage=used(1, wrote))


READ = 17  # what a question of one byte is taken to be


def writing(tokens: int, *lengths: int, **more: Any) -> tuple[Budgeted, Writer, Ledger]:
    writer = Writer(*lengths, ignores=more.pop("ignores", False))
    ledger = Ledger(Budget(tokens=tokens), Journal())  # type: ignore[arg-type]
    return Budgeted(writer, ledger, None, **more), writer, ledger


def short(cap: int = 16_000) -> Request:
    return question(text="x", cap=cap)


async def test_a_cap_is_cut_to_what_the_budget_leaves_but_not_below_the_floor() -> None:
    model, writer, ledger = writing(10_000, 900)
    for _ in range(3):
        await model.complete(short())
    assert writer.caps == [8_000, 8_000, 8_000]  # the largest halves that fit
    short_one, writer, _ = writing(1_000 + READ, 900)
    with pytest.raises(BudgetSpent, match=r"needs 1,0\d\d tokens, and 1,0\d\d is left"):
        await short_one.complete(short())
    assert writer.caps == []
    await short_one.complete(short(cap=1_000))  # the person's own cap may be smaller
    assert ledger.spent.tokens <= 10_000


async def test_what_replies_took_is_what_is_reserved_where_the_whole_cap_does_not_fit() -> None:
    model, writer, ledger = writing(18_000, 300)
    for _ in range(5):
        await model.complete(short())
    writer.ready.clear()
    asked = [asyncio.ensure_future(model.complete(short())) for _ in range(9)]
    await asyncio.sleep(0.001)
    assert writer.caps[5:] == [390] * 9  # at once, side by side
    writer.ready.set()
    await asyncio.gather(*asked)
    assert ledger.spent.tokens == 14 * 301 <= 18_000
    ample, writer, _ = writing(16 * (16_000 + READ) + 6 * 301, 300)
    for _ in range(7):
        await ample.complete(short())
    assert writer.caps[-2:] == [16_000, 390]  # whole while plenty is left


async def test_an_answer_that_a_cut_cap_cut_off_is_asked_again_with_a_larger_one() -> None:
    model, writer, ledger = writing(9_000, 3_000)
    writer.lengths = [100] * 5 + [700]
    for _ in range(5):
        await model.complete(short(cap=9_000))
    reply = await model.complete(short(cap=9_000))
    assert writer.caps[5:] == [130, 4_500] and len(reply.text) == 700 and reply.finish == "stop"
    assert ledger.spent.tokens == 5 * 101 + 131 + 701  # what was cut off is paid


async def test_an_answer_that_no_cap_within_the_budget_holds_is_none_and_ends_the_budget() -> None:
    model, writer, ledger = writing(5_000, 20_000)
    with pytest.raises(BudgetSpent, match="does not go further"):
        await model.complete(short())
    assert writer.caps == [4_000] and ledger.spent.tokens == 4_001 and ledger.in_flight == 0


async def test_an_answer_that_the_whole_cap_cuts_off_is_the_models_own() -> None:
    model, writer, _ = writing(50_000, 20_000)
    assert (await model.complete(short())).finish == "length"
    assert writer.caps == [16_000]


async def test_no_cap_is_cut_where_it_is_part_of_the_question_or_where_nobody_keeps_to_it() -> None:
    fixed, writer, _ = writing(10_000, 100, has_fixed_cap=True)
    with pytest.raises(BudgetSpent):
        await fixed.complete(short())
    assert writer.caps == []
    deaf, writer, _ = writing(25_000, 9_000, ignores=True)
    await deaf.complete(short())
    with pytest.raises(BudgetSpent):  # 8,000 were promised for the second call, and 9,000 taken
        for _ in range(2):
            await deaf.complete(short(cap=15_999))
    assert len(writer.caps) == 2


async def test_nothing_is_asked_again_for_one_who_stopped_waiting() -> None:
    model, writer, ledger = writing(10_000, 9_000)
    writer.ready.clear()
    asking = asyncio.ensure_future(model.complete(short()))
    await asyncio.sleep(0.001)
    asking.cancel()
    await asyncio.sleep(0.001)
    writer.ready.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert writer.caps == [8_000] and ledger.in_flight == 0


def silent(size: int | None, **more: Any) -> tuple[Budgeted, Ledger]:
    """A model whose endpoint reports no usage, with answers of so many bytes."""

    class Silent(Provider):
        async def complete(self, request: Request) -> Reply:
            return Reply(text="ok", finish="stop", usage=None, size=size)

    ledger = Ledger(Budget(), Journal())  # type: ignore[arg-type]
    return Budgeted(Silent(None), ledger, PRICE, **more), ledger


async def test_an_answer_without_usage_costs_what_its_bytes_can_be_at_most() -> None:
    model, ledger = silent(40, may_reason=False)
    await model.complete(question(cap=16_384))
    read = math.ceil(1.3 * 1000) + 16
    assert ledger.spent == Amount(calls=1, tokens=read + 40, usd=read * PRICE.input + 40 * PRICE.output)
    assert ledger.account.total().states == {"unreported": 1}
    assert ledger.account.total().output_tokens is None  # what nobody reported stays unknown


@pytest.mark.parametrize(
    ("size", "more"),
    [(40, {"may_reason": True}), (None, {"may_reason": False}), (20_000, {"may_reason": False})],
    ids=["it may think unseen", "its size is not known", "it is longer than the cap"],
)
async def test_it_stays_at_its_reservation_where_that_is_not_known(
    size: int | None, more: dict[str, bool]
) -> None:
    model, ledger = silent(size, **more)
    await model.complete(question(cap=16_384))
    assert ledger.spent.tokens == math.ceil(1.3 * 1000) + 16 + 16_384


@pytest.mark.parametrize(
    "name", ["o3", "gpt-5.4-mini", "deepseek-ai/DeepSeek-R1", "qwq-32b", "Qwen/Qwen3-8B"]
)
def test_models_that_think_unseen_are_known_by_their_names(name: str) -> None:
    assert ModelSpec(provider="compatible", name=name).may_reason
    assert not ModelSpec(provider="compatible", name=name, reasoning_effort="none").may_reason


@pytest.mark.parametrize(
    "name", ["m", "gpt-4o-mini", "Qwen2.5-7B-Instruct", "llama-3.3-70b", "mistral-small"]
)
def test_others_are_not_taken_to_think_unless_they_are_asked_to(name: str) -> None:
    assert not ModelSpec(provider="compatible", name=name).may_reason
    assert ModelSpec(provider="compatible", name=name, reasoning_effort="low").may_reason
