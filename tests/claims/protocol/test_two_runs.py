"""Two runs in one process with different providers do not see each other.

The public system keeps backends, keys, models and counters in module globals and environment variables, so
that the second run of a process changes the first. Here everything belongs to an engine.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from claims._product import (
    Call,
    LoopbackProvider,
    Misbehaviour,
    ProviderDown,
    Stopped,
    WorldRules,
    api,
    open_run,
)
from claims.promises._runs import contents, facts, quick_folder
from claims.protocol._told import QUICK, Told, job_of, stage_of

KEYS = {"one": "sk-planted-0ne-77f0a1", "two": "sk-planted-tw0-19c2be"}
SETTINGS: dict[str, dict[str, Any]] = {
    "one": {"env__workers": 2, "gradient__analyst_workers": 1, "budget__calls": 5_000, "train__seed": 1},
    "two": {
        "env__workers": 7,
        "gradient__analyst_workers": 3,
        "budget__calls": 60,
        "optimizer__lr_scheduler": "constant",
    },
}
RULES = {"one": WorldRules(seed=1), "two": WorldRules(seed=2, harm=0.8)}


class Lane:
    """One run: its provider, its key, its settings, and all that happened to it."""

    def __init__(self, name: str, folder: Path, behave: Any = None) -> None:
        self.name = name
        self.told = Told(folder / name, rules=RULES[name])
        self.provider = LoopbackProvider(
            self.told.answer, api_key=KEYS[name], behave=behave, latency=lambda call: 0.01
        )
        self.error: Stopped | None = None
        self.spent: dict[str, Any] = {}

    async def go(self) -> Lane:
        keys = {f"model__{role}__api_key": KEYS[self.name] for role in ("target", "optimizer")}
        models = {
            f"model__{role}": f"compatible:model-{self.name}@{self.provider.base_url}"
            for role in ("target", "optimizer")
        }
        job = job_of(self.provider, {**SETTINGS[self.name], **keys, **models, "train__num_epochs": 1})
        async with open_run(job, self.told.folder, sinks=[self.told.events.append], retry=QUICK) as opened:
            try:
                self.told.result = await api.train(opened)
            except Stopped as reason:
                self.error = reason
            self.spent = opened.spending()
        return self

    def places(self) -> set[str]:
        """Where the replies that this run keeps were asked for."""
        with sqlite3.connect(self.told.folder / "run.db") as database:
            return {place for (place,) in database.execute("SELECT place FROM replies")}


async def side_by_side(folder: Path, **behave: Any) -> tuple[Lane, Lane]:
    one, two = Lane("one", folder, behave.get("one")), Lane("two", folder, behave.get("two"))
    async with one.provider, two.provider:
        await asyncio.gather(one.go(), two.go())
    return one, two


@pytest.fixture(scope="module")
def lanes():
    """Both runs at once, watched for writes to the environment."""
    written: list[Any] = []
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patch:
        before = dict(os.environ)
        patch.setattr(os, "putenv", lambda *change: written.append(change))
        patch.setattr(os, "unsetenv", lambda *change: written.append(change))
        one, two = asyncio.run(side_by_side(folder))
        assert dict(os.environ) == before and written == [], "an environment variable was written"
        yield one, two


@pytest.mark.slow
def test_both_ran_at_the_same_time(lanes):
    one, two = ([(entry.started, entry.ended) for entry in lane.provider.log] for lane in lanes)
    assert any(
        start < other_end and other_start < end for start, end in one for other_start, other_end in two
    )


def test_no_request_and_no_key_reaches_the_other_provider(lanes):
    for lane in lanes:
        assert lane.told.calls and {call.body["model"] for call in lane.told.calls} == {f"model-{lane.name}"}
        assert {call.headers["authorization"] for call in lane.told.calls} == {f"Bearer {KEYS[lane.name]}"}
        assert not [entry for entry in lane.provider.log if entry.status != 200]


def test_no_file_of_a_run_holds_a_key_or_an_address_of_the_other(lanes):
    for lane, other in zip(lanes, reversed(lanes), strict=True):
        for name, data in contents(lane.told.folder).items():
            assert KEYS["one"].encode() not in data and KEYS["two"].encode() not in data, name
            assert other.provider.url.encode() not in data and f"model-{other.name}".encode() not in data, (
                name
            )


def test_each_ledger_counts_its_own_calls_and_one_spent_budget_ends_one_run(lanes):
    one, two = lanes
    for lane in lanes:
        assert lane.spent["calls"] == lane.provider.calls == len(lane.told.calls)
        assert lane.spent["tokens"] == lane.provider.tokens
    assert (one.told.result.status, two.told.result.status) == ("finished", "budget")
    assert two.provider.calls <= 60 < one.provider.calls


def test_each_run_keeps_exactly_the_replies_to_its_own_questions(lanes):
    one, two = lanes
    for lane in lanes:
        assert lane.places() == {call.place for call in lane.told.calls}
    assert not {place for place in one.places() & two.places() if place.startswith("rollout/")}, (
        "keys hold the model's name"
    )


def test_each_limiter_has_its_own_ceilings(lanes):
    for lane in lanes:
        workers, analysts = (
            SETTINGS[lane.name]["env__workers"],
            SETTINGS[lane.name]["gradient__analyst_workers"],
        )
        assert lane.provider.max_in_flight <= workers + analysts
        assert lane.provider.max_in_flight >= workers


@pytest.mark.slow
async def test_a_run_beside_another_is_the_run_it_would_have_been_alone(lanes, folder):
    lane = Lane("one", folder)
    async with lane.provider:
        await lane.go()
    assert facts(lane.told.folder) == facts(lanes[0].told.folder)


@pytest.mark.slow
async def test_refusals_at_one_provider_slow_down_that_run_alone(folder):
    def storm(call: Call) -> Misbehaviour | None:
        return (
            Misbehaviour.status(429)
            if call.attempt == 0 and stage_of(call) == "rollout" and call.index % 3 == 0
            else None
        )

    one, two = await side_by_side(folder, one=storm)
    assert [
        entry for entry in one.provider.log if entry.status == 429
    ] and one.told.result.status == "finished"
    assert {entry.status for entry in two.provider.log} == {200} and two.provider.max_in_flight >= SETTINGS[
        "two"
    ]["env__workers"]


@pytest.mark.slow
async def test_a_dead_login_ends_one_run_and_the_other_goes_on(folder):
    one, two = await side_by_side(
        folder, two=lambda call: Misbehaviour.status(401) if call.index > 20 else None
    )
    assert isinstance(two.error, ProviderDown) and two.told.result is None
    assert one.error is None and one.told.result.status == "finished"
