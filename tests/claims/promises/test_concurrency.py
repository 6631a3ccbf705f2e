"""How much is in flight, and in which order answers come in, changes the speed of a run and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from claims._product import (
    Answer,
    Call,
    Logged,
    LoopbackProvider,
    Misbehaviour,
    StageClosed,
    TestMeasured,
    WorldRules,
    chance,
    seeded_latency,
    world_answers,
)
from claims.promises._runs import assert_same_run, events_of, in_world, make_job, public_files, run, verdicts

OPTIONS = (
    "env.train_cases=40",
    "env.val_cases=20",
    "env.test_cases=20",
    "train.batch_size=20",
    "train.num_epochs=3",
    "gradient.minibatch_size=3",
    "evaluation.repeats=2",
    "optimizer.slow_update_samples=10",
)
IN_FLIGHT = (1, 8, 200)
SEED = 9
CAP = 16384


def is_lost(call: Call, how: str, share: float) -> bool:
    """Some attempts at a rollout are lost for good, always the same ones; a later attempt at the same rollout
    may do better.
    """
    return call.place is not None and call.place.startswith("rollout/") and chance(how, call.place) < share


def refused(call: Call) -> Misbehaviour | None:
    return Misbehaviour.status(400, body="refused for good") if is_lost(call, "refused", 0.02) else None


def lost_in(folder: Path) -> set[str]:
    """The stages of a run that have invalid rows."""
    lost: set[str] = set()
    for event in events_of(folder):
        if isinstance(event, StageClosed) and any(row.invalid for row in event.rows):
            lost.add("baseline" if str(event.place) == "baseline" else event.stage)
        elif isinstance(event, TestMeasured) and any(
            row.invalid for rows in event.rows.values() for row in rows
        ):
            lost.add("test")
    return lost


async def train_with(runs: Mapping[int, Path], strategy: str, *, loses: bool) -> dict[int, list[Logged]]:
    """Train in a folder per number of calls in flight, on one endpoint with other latencies for each; returns
    what it was asked.
    """
    answers = world_answers(WorldRules(seed=SEED))
    in_flight = 1

    def answer(call: Call) -> str | Answer:
        if loses and is_lost(call, "cut", 0.02):
            return Answer(text="<answer>", finish="length", output_tokens=CAP)
        return answers(call)

    def latency(call: Call) -> float:
        return seeded_latency(in_flight, 0.0, 0.001 if in_flight == 1 else 0.03)(call)

    asked: dict[int, list[Logged]] = {}
    async with LoopbackProvider(answer, behave=refused if loses else None, latency=latency) as provider:
        for in_flight, folder in runs.items():
            before = provider.calls
            speed = (f"env.workers={in_flight}", f"gradient.analyst_workers={in_flight}")
            await run(
                make_job(in_world(f"compatible:m@{provider.base_url}", *OPTIONS, strategy, *speed)), folder
            )
            asked[in_flight] = provider.log[before:]
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["train.strategy=paper", "train.strategy=proof"])
@pytest.mark.parametrize("loses", [False, True], ids=["every row measured", "some rows lost"])
async def test_a_run_is_the_same_with_1_8_and_200_calls_in_flight(
    loses: bool, strategy: str, tmp_path: Path
) -> None:
    folders = {in_flight: tmp_path / str(in_flight) for in_flight in IN_FLIGHT}
    asked = await train_with(folders, strategy, loses=loses)
    for in_flight in IN_FLIGHT[1:]:
        assert_same_run(folders[in_flight], folders[1])
        assert public_files(folders[in_flight]) == public_files(folders[1])
    if strategy.endswith("paper"):
        seen = {verdict["action"] for verdict in verdicts(folders[1])}
        assert seen >= {"accept", "reject"}
        assert ("inconclusive" in seen) == loses
        assert lost_in(folders[1]) == ({"baseline", "rollout", "selection", "test"} if loses else set())
    assert bool(lost_in(folders[1])) == loses

    # The runs were as different as they could be: one call of each role at a time, many at once, and other
    # orders of arrival.
    one, some, many = (max(entry.in_flight for entry in log) for log in asked.values())
    assert one <= 2 < some <= 16 < many
    orders = {
        tuple(entry.place for entry in sorted(log, key=lambda entry: entry.ended or 0.0))
        for log in asked.values()
    }
    assert len(orders) == len(IN_FLIGHT)
