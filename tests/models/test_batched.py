"""Questions in batches, against a provider that has them as OpenAI and Anthropic do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from _api.batches import BatchProvider, BatchRules, LoggedRow
from skillopt.account import Budget
from skillopt.errors import Interrupted, ModelError, ProviderDown
from skillopt.ledger import Ledger
from skillopt.messages import Message, Reply, Request
from skillopt.models import provider as declaration
from skillopt.models.port import ModelSpec
from skillopt.models.prices import per_million
from skillopt.models.stack import batched
from skillopt.models.stack.batched import Batched, SentBatch
from skillopt.models.stack.budgeted import Budgeted
from skillopt.models.stack.limited import Retry
from skillopt.models.stack.scrubbed import Scrubbed
from skillopt.redact import Scrubber
from skillopt.runs.database import Database
from skillopt.testing import Call, Misbehaviour

QUICK = Retry(attempts=3, seconds=5.0, first_delay=0.005, longest_delay=0.02)
MODELS = {"openai": "gpt-5.4", "openai-responses": "gpt-5-pro", "anthropic": "claude-sonnet-4-6"}
VENDORS = pytest.mark.parametrize("vendor", list(MODELS))
FULL = per_million(input=8, output=16)("m", None, date(2026, 1, 1))
SECRET = "sk-batch-0123456789abcdef"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "QUIET", 0.01)


class Session:
    """One process with a run folder: what it asks, what it was told and what it paid."""

    def __init__(self, model: Batched, ledger: Ledger, database: Database, told: list[str]) -> None:
        self.model, self.ledger, self.database, self.told = model, ledger, database, told

    async def ask(self, *words: str, batch: bool = True) -> list[Any]:
        asked = (self.model.complete(question(word, batch)) for word in words)
        return [
            one.text if isinstance(one, Reply) else one
            for one in await asyncio.gather(*asked, return_exceptions=True)
        ]

    @property
    def spent(self) -> tuple[int, int, Fraction | None]:
        total = self.ledger.account.total()
        return total.calls, total.tokens, total.usd


def question(word: str, batch: bool = True) -> Request:
    return Request(
        messages=(Message(role="system", content="Say it."), Message(role="user", content=word)),
        max_tokens=64,
        role="target",
        stage="eval",
        place=f"rollout/{word}/a0/t0",
        batch=batch,
    )


def echo(call: Call) -> str:
    return call.text.split("\n")[-1].upper()


def word_of(call: Call) -> str:
    return call.text.split("\n")[-1]


@asynccontextmanager
async def session(
    server: BatchProvider, folder: Path, vendor: str, *, budget: Budget | None = None
) -> AsyncIterator[Session]:
    name = vendor.partition("-")[0]
    url = server.url if name == "anthropic" else server.base_url
    spec = ModelSpec(provider=name, name=MODELS[vendor], base_url=url, api_key=SECRET)
    provider: Any = declaration(name)(spec)
    database = Database(folder / "run.db", alone=True)
    ledger, told = Ledger(budget or Budget(), database), list[str]()
    scrubbed = Scrubbed(provider, Scrubber([SECRET]))
    assert FULL is not None
    model = Batched(
        Budgeted(scrubbed, ledger, FULL),
        provider.batches,
        paid=Budgeted(scrubbed, ledger, FULL.in_batches()),
        scrubbed=scrubbed,
        ledger=ledger,
        store=database,
        retry=QUICK,
        tell=told.append,
    )
    try:
        yield Session(model, ledger, database, told)
    finally:
        await model.close()
        await provider.close()
        database.shut()


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came about")


async def killed(server: BatchProvider, folder: Path, vendor: str, words: Sequence[str]) -> None:
    """A session that ends while its batch is with the provider."""
    before = len(server.batches.made)
    async with session(server, folder, vendor) as one:
        asking = asyncio.ensure_future(one.ask(*words))
        await until(lambda: len(server.batches.made) > before and one.told != [])
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@VENDORS
async def test_questions_are_one_batch_at_half_price_and_others_pass(vendor: str, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(30)]
    async with BatchProvider(echo, api_key=SECRET) as server, session(server, tmp_path, vendor) as one:
        assert await one.ask(*words) == [word.upper() for word in words]
        assert [len(made.rows) for made in server.batches.made] == [30]
        billed = [(entry.input_tokens, entry.output_tokens) for entry in server.log]
        assert one.spent == (30, server.tokens, sum(Fraction(8 * i + 16 * o, 2_000_000) for i, o in billed))
        assert await one.ask("now", batch=False) == ["NOW"]
        assert [isinstance(entry, LoggedRow) for entry in server.log] == [True] * 30 + [False]
        assert not one.database.batches()
        assert "30 questions" in one.told[0] and server.batches.made[0].id in one.told[0]


@VENDORS
async def test_rows_that_failed_or_expired_are_asked_again_and_nothing_is_charged_for_them(
    vendor: str, tmp_path: Path
) -> None:
    seen: list[str] = []

    def row(call: Call) -> Any:
        word = word_of(call)
        seen.append(word)
        ending = {"e": "errored", "x": "expired", "i": "invalid"}.get(word[0])
        return ending if seen.count(word) == 1 or word.endswith("ever") else None

    async with (
        BatchProvider(echo, batches=BatchRules(row=row)) as server,
        session(server, tmp_path, vendor) as one,
    ):
        good, once, late, wrong, never = await one.ask("good", "error", "x-late", "invalid", "x-forever")
        assert (good, once, late) == ("GOOD", "ERROR", "X-LATE")
        assert isinstance(wrong, ModelError) and wrong.kind == "contract"
        assert isinstance(never, ModelError) and never.kind == "unavailable"
        assert [len(made.rows) for made in server.batches.made] == [5, 3, 1]
        assert one.spent[:2] == (9, server.tokens)
        assert not one.database.batches()


@VENDORS
async def test_a_batch_is_written_down_before_it_is_sent(vendor: str, tmp_path: Path) -> None:
    written: list[list[SentBatch]] = []

    def create(number: int) -> None:
        reader = Database.reading(tmp_path / "run.db")
        written.append(reader.batches())
        reader.shut()

    async with (
        BatchProvider(echo, batches=BatchRules(create=create)) as server,
        session(server, tmp_path, vendor) as one,
    ):
        await one.ask("a", "b")
        ((sent,),) = written
        assert sent.id is None and len(sent.entries) == 2
        assert {row["custom_id"] for row in server.batches.made[0].rows} == {
            f"{sent.token}-0",
            f"{sent.token}-1",
        }


@VENDORS
async def test_a_creation_that_is_refused_waits_as_told(vendor: str, tmp_path: Path) -> None:
    def create(number: int) -> Misbehaviour | None:
        return Misbehaviour.status(429, retry_after=0.02) if number < 2 else None

    async with (
        BatchProvider(echo, batches=BatchRules(create=create)) as server,
        session(server, tmp_path, vendor) as one,
    ):
        assert await one.ask("a", "b") == ["A", "B"]
        assert len(server.batches.made) == 1


@VENDORS
async def test_a_batch_that_was_created_without_an_answer_is_found_and_not_sent_again(
    vendor: str, tmp_path: Path
) -> None:
    rules = BatchRules(create=lambda number: Misbehaviour.reset() if number == 1 else None)
    async with (
        BatchProvider(echo, batches=rules) as server,
        session(server, tmp_path, vendor) as one,
    ):
        assert await one.ask("other", "batches") == ["OTHER", "BATCHES"]
        assert await one.ask("a", "b") == ["A", "B"]
        assert [len(made.rows) for made in server.batches.made] == [2, 2]
        assert one.spent[:2] == (4, server.tokens)


@VENDORS
@pytest.mark.parametrize("batch", [True, False])
async def test_a_killed_session_is_taken_up_and_pays_once(vendor: str, batch: bool, tmp_path: Path) -> None:
    async with BatchProvider(echo, batches=BatchRules(looks=4)) as server:
        await killed(server, tmp_path, vendor, ["a", "b", "c"])
        async with session(server, tmp_path, vendor) as again:
            assert again.spent[0] == 3  # as reserved
            assert await again.ask("a", "b", "c", batch=batch) == ["A", "B", "C"]
            assert again.spent[:2] == (3, server.tokens)
            assert again.database.get("nothing") is None and not again.database.batches()
        assert len(server.batches.made) == 1


@VENDORS
async def test_a_session_killed_before_it_knew_the_id_pays_once(vendor: str, tmp_path: Path) -> None:
    async with BatchProvider(echo, batches=BatchRules(looks=4)) as server:
        await killed(server, tmp_path, vendor, ["another", "batch", "of", "mine"])
        await killed(server, tmp_path, vendor, ["a", "b", "c", "d"])
        async with session(server, tmp_path, vendor) as again:
            for sent in again.database.batches():
                again.database.keep_batch(sent.model_copy(update={"id": None}))
        async with session(server, tmp_path, vendor) as again:
            assert await again.ask("a", "b", "c", "d") == ["A", "B", "C", "D"]
            assert await again.ask("of") == ["OF"]
        assert len(server.batches.made) == 2


@VENDORS
async def test_a_session_killed_before_it_sent_anything_asks_anew(vendor: str, tmp_path: Path) -> None:
    async with BatchProvider(echo, batches=BatchRules(looks=4)) as server:
        await killed(server, tmp_path, vendor, ["a", "b"])
        server.batches.made.clear()  # as if it had never come
        async with session(server, tmp_path, vendor) as again:
            for sent in again.database.batches():
                again.database.keep_batch(sent.model_copy(update={"id": None}))
        async with session(server, tmp_path, vendor) as again:
            assert await again.ask("a", "b") == ["A", "B"]
        assert len(server.batches.made) == 1


@VENDORS
async def test_an_outage_while_waiting_stops_the_run_and_loses_nothing(vendor: str, tmp_path: Path) -> None:
    async with BatchProvider(echo, batches=BatchRules(looks=4)) as server:
        await killed(server, tmp_path, vendor, ["a", "b"])
        handle = server.batches.handle
        server.batches.handle = lambda *_: (  # type: ignore[method-assign]
            {},
            Misbehaviour.status(503),
        )
        async with session(server, tmp_path, vendor) as down:
            first, second = await down.ask("a", "b")
            assert isinstance(first, ProviderDown) and isinstance(second, ProviderDown)
            assert "cannot be reached" in str(first)
        server.batches.handle = handle  # type: ignore[method-assign]
        async with session(server, tmp_path, vendor) as again:
            assert await again.ask("a", "b") == ["A", "B"]
            assert again.spent[:2] == (2, server.tokens)
        assert len(server.batches.made) == 1


@VENDORS
async def test_a_run_that_stops_waits_for_no_batch(
    vendor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with BatchProvider(echo, batches=BatchRules(seconds=3600)) as server:
        async with session(server, tmp_path, vendor) as one:
            asking = asyncio.ensure_future(one.ask("sent"))
            await until(lambda: one.told != [])
            assert "of 1 answered" in one.model.waiting()
            monkeypatch.setattr(batched, "QUIET", 60.0)
            later = asyncio.ensure_future(one.ask("not sent"))
            await until(lambda: one.spent[0] == 2)
            one.model.stop(Interrupted("Ctrl-C"))
            assert all(isinstance(said, Interrupted) for said in (*await asking, *await later))
            assert one.spent[0] == 1  # what was not sent costs nothing
        assert len(server.batches.made) == 1


@pytest.mark.parametrize(("code", "kind"), [("token_limit_exceeded", "rate_limit"), ("invalid", "contract")])
async def test_a_batch_that_fails_as_a_whole_costs_nothing(code: str, kind: str, tmp_path: Path) -> None:
    async with (
        BatchProvider(echo, batches=BatchRules(fails=lambda number: code)) as server,
        session(server, tmp_path, "openai") as one,
    ):
        (said,) = await one.ask("a")
        assert isinstance(said, ModelError) and said.kind == kind and code in said.detail
        assert one.spent[1] == 0
        assert not one.database.batches()


@VENDORS
async def test_what_the_budget_does_not_hold_waits_for_the_first_batch(vendor: str, tmp_path: Path) -> None:
    async with (
        BatchProvider(echo) as server,
        session(server, tmp_path, vendor, budget=Budget(tokens=240)) as one,
    ):
        assert await one.ask("a", "b", "c", "d") == ["A", "B", "C", "D"]
        assert [len(made.rows) for made in server.batches.made] == [2, 2]
        assert one.spent[1] == server.tokens <= 240


@VENDORS
async def test_a_dead_login_stops_the_run(vendor: str, tmp_path: Path) -> None:
    async with BatchProvider(echo, api_key="another") as server, session(server, tmp_path, vendor) as one:
        (said,) = await one.ask("a")
        assert isinstance(said, ProviderDown)
        assert SECRET not in str(said)


@VENDORS
async def test_credentials_stay_out_of_batches_and_their_answers(vendor: str, tmp_path: Path) -> None:
    async with (
        BatchProvider(lambda call: f"{len(call.text)} {SECRET}") as server,
        session(server, tmp_path, vendor) as one,
    ):
        (said,) = await one.ask(f"the key is {SECRET}")
        assert SECRET not in said
        assert SECRET not in str(server.batches.made[0].rows)


async def test_batches_of_another_model_are_left_alone(tmp_path: Path) -> None:
    database = Database(tmp_path / "run.db", alone=True)
    other = SentBatch(token="skillopt-x", began=0.0, id="batch_9", entries={"k": 1})
    database.keep_batch(other)
    database.shut()
    async with BatchProvider(echo) as server, session(server, tmp_path, "openai") as one:
        assert await one.ask("a") == ["A"]
        assert one.database.batches() == [other]


async def test_a_batch_holds_no_more_rows_than_the_provider_takes(tmp_path: Path) -> None:
    async with BatchProvider(echo) as server, session(server, tmp_path, "openai") as one:
        one.model._api.most_rows = 4
        assert await one.ask(*"abcdefghij") == list("ABCDEFGHIJ")
        assert sorted(len(made.rows) for made in server.batches.made) == [2, 4, 4]


def test_the_price_of_batches_is_half_of_every_price() -> None:
    assert FULL is not None
    half = replace(FULL, cache_write=Fraction(3)).in_batches()
    assert (half.input, half.output, half.cached) == (FULL.input / 2, FULL.output / 2, FULL.cached / 2)
    assert half.cache_write == Fraction(3, 2)
