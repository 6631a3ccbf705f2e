"""The costliest promises once each, on a world small enough for `make test`; test_kill.py, test_concurrency.py
and test_outage.py hold them at every stage.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from claims._product import Call, LoopbackProvider, Misbehaviour, ProviderDown, seeded_latency, world_answers
from claims.promises._runs import (
    assert_same_run,
    committed,
    in_world,
    make_job,
    public_files,
    run,
    start_process,
)

SMALL = (
    "env.train_cases=8",
    "env.val_cases=8",
    "env.test_cases=6",
    "train.batch_size=8",
    "train.num_epochs=1",
    "evaluation.repeats=1",
)
STRATEGIES = pytest.mark.parametrize("strategy", ["train.strategy=paper", "train.strategy=proof"])


@STRATEGIES
def test_a_run_that_was_killed_goes_on_to_the_same_result_and_asks_nothing_twice(
    strategy: str, tmp_path: Path
) -> None:
    with LoopbackProvider.in_thread(world_answers(), latency=seeded_latency(1, 0.01, 0.03)) as provider:
        options = in_world(f"compatible:m@{provider.base_url}", *SMALL, strategy)
        asyncio.run(run(make_job(options), tmp_path / "undisturbed"))
        moment = provider.calls + (provider.calls * 2) // 3
        process = start_process(tmp_path / "killed", options)
        while provider.calls < moment and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        _, told = process.communicate()
        assert process.returncode == -signal.SIGKILL, told
        kept, sent = committed(tmp_path / "killed"), provider.calls
        asyncio.run(run(make_job(options), tmp_path / "killed"))
        assert kept
        assert not [entry for entry in provider.log[sent:] if (entry.place, entry.draw) in kept]
    assert_same_run(tmp_path / "killed", tmp_path / "undisturbed")


@STRATEGIES
async def test_a_run_is_the_same_with_1_and_8_calls_in_flight(strategy: str, tmp_path: Path) -> None:
    most = []
    async with LoopbackProvider(world_answers(), latency=seeded_latency(3, 0.0, 0.01)) as provider:
        for workers in (1, 8):
            before = provider.calls
            speed = (f"env.workers={workers}", f"gradient.analyst_workers={workers}")
            job = make_job(in_world(f"compatible:m@{provider.base_url}", *SMALL, strategy, *speed))
            await run(job, tmp_path / str(workers))
            most.append(max(entry.in_flight for entry in provider.log[before:]))
    assert most[0] <= 2 < most[1]
    assert_same_run(tmp_path / "8", tmp_path / "1")
    assert public_files(tmp_path / "8") == public_files(tmp_path / "1")


@STRATEGIES
async def test_an_outage_is_no_score_and_the_same_command_goes_on_to_the_undisturbed_result(
    strategy: str, tmp_path: Path
) -> None:
    is_down = False

    def behave(call: Call) -> Misbehaviour | None:
        return Misbehaviour.status(401) if is_down and (call.place or "").startswith("rollout/") else None

    async with LoopbackProvider(world_answers(), behave=behave) as provider:
        options = in_world(f"compatible:m@{provider.base_url}", *SMALL, strategy)
        await run(make_job(options), tmp_path / "undisturbed")
        is_down = True
        with pytest.raises(ProviderDown):
            await run(make_job(options), tmp_path / "run")
        is_down = False
        await run(make_job(options), tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")
