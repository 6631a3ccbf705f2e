"""Hedged calls change when a run is done and never what comes of it: at any concurrency, killed or not, within
the budget as the provider counts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path

import pytest

from claims._product import (
    HEDGE_STAGE,
    SHARE,
    BudgetSpent,
    Call,
    Hedged,
    LoopbackProvider,
    find,
    gather,
    hedged,
    open_run,
    read_run,
    resolve_role,
    world_answers,
)
from claims.promises._providers import QUIET, hash_of, options, provider_of, train
from claims.promises._runs import (
    assert_same_run,
    committed,
    database_of,
    make_job,
    public_files,
    run,
    start_process,
)

MORE = ("env.val_cases=24", "env.test_cases=24", "gradient.minibatch_size=1")
USUAL, TAIL = 0.004, 0.5


@pytest.fixture(autouse=True)
def _in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated calls take milliseconds: here a slow one is slow at once."""
    monkeypatch.setattr(hedged, "SOONEST", 0.0)


def tails(call: Call) -> float:
    """Every twelfth question takes far longer than the others, unless it is asked again."""
    return TAIL if call.attempt == 0 and hash_of(call) % 12 == 0 else USUAL


def hedges(folder: Path) -> dict[str, int]:
    """Second askings by role."""
    with database_of(folder) as database:
        query = "SELECT role, COUNT(*) FROM spending WHERE stage = ? GROUP BY role"
        return dict(database.execute(query, (HEDGE_STAGE,)))


@pytest.fixture(scope="module")
def unhedged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in which nothing is slow and nothing is asked twice."""
    folder = tmp_path_factory.mktemp("unhedged")

    async def go() -> None:
        async with provider_of() as provider:
            off = ("model.target.hedge=off", "model.optimizer.hedge=off")
            await train(provider, folder, *MORE, *off)

    asyncio.run(go())
    assert not hedges(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 24])
async def test_a_hedged_run_is_the_run_without_hedges(workers: int, tmp_path: Path, unhedged: Path) -> None:
    speed = (f"env.workers={workers}", f"gradient.analyst_workers={workers}")
    async with provider_of(latency=tails) as provider:
        _, spending = await train(provider, tmp_path, *MORE, *speed)
        assert provider.calls == spending["calls"]
        assert max(entry.in_flight for entry in provider.log) <= 2 * workers  # both roles share the endpoint
    if workers > 1:
        assert hedges(tmp_path)["target"] > 0
        # the share, and in so short a run as much again for its head start
        assert sum(hedges(tmp_path).values()) <= 2 * SHARE * spending["calls"]
        told = [gather(run := read_run(tmp_path), find(run, step)).hedged for step in ("1", "2")]
        assert 0 < sum(told) <= sum(hedges(tmp_path).values())
    assert spending["attempts"] == {"settled": spending["calls"]}  # also of the slower ones
    assert_same_run(tmp_path, unhedged)
    assert public_files(tmp_path) == public_files(unhedged)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["target", "optimizer"])
async def test_a_role_whose_hedge_is_off_is_asked_once(role: str, tmp_path: Path) -> None:
    other = {"target": "optimizer", "optimizer": "target"}[role]
    async with provider_of(latency=tails) as provider:
        await train(provider, tmp_path, *MORE, "env.train_cases=48", f"model.{role}.hedge=off")
    assert role not in hedges(tmp_path)
    assert hedges(tmp_path)[other] > 0


def test_each_role_has_its_own_switch() -> None:
    config = make_job(["model.target=world", "model.judge=world", "model.judge.hedge=off"]).config
    assert [resolve_role(config, role).hedges for role in ("target", "optimizer", "judge")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("model", ["handoff", "world"])
async def test_answers_by_hand_and_in_this_process_are_never_asked_twice(model: str, tmp_path: Path) -> None:
    job = make_job([f"model.target={model}", f"model.optimizer={model}"])
    async with open_run(job, tmp_path) as opened:
        assert not isinstance(opened.models.of("target", job.target)._inner, Hedged)


@pytest.mark.parametrize("tokens", [9_000, pytest.param(24_000, marks=pytest.mark.slow)])
async def test_a_budget_holds_with_hedges_as_the_provider_counts(tokens: int, tmp_path: Path) -> None:
    async with provider_of(latency=tails) as provider:
        with contextlib.suppress(BudgetSpent):
            await train(provider, tmp_path, *MORE, f"budget.tokens={tokens}")
        assert sum(entry.input_tokens + entry.output_tokens for entry in provider.log) <= tokens


@pytest.mark.slow
def test_a_hedged_run_that_was_killed_goes_on_to_the_same_result(tmp_path: Path, unhedged: Path) -> None:
    def late(call: Call) -> float:  # in a process of its own a call is slow after half a second
        return 0.7 if tails(call) == TAIL else USUAL

    with LoopbackProvider.in_thread(world_answers(QUIET), latency=late) as provider:
        asked = options(provider, *MORE)
        for moment in (60, 130):
            process = start_process(tmp_path / "killed", asked)
            while provider.calls < moment and process.poll() is None:
                time.sleep(0.002)
            process.kill()
            _, told = process.communicate()
            assert process.returncode == -signal.SIGKILL, told
        kept, sent = committed(tmp_path / "killed"), provider.calls
        asyncio.run(run(make_job(asked), tmp_path / "killed"))
        assert not [entry for entry in provider.log[sent:] if (entry.place, entry.draw) in kept]
    assert_same_run(tmp_path / "killed", unhedged)
    if not hedges(tmp_path / "killed"):
        pytest.skip("this machine was so busy that no call stood out as slow: nothing was hedged")
