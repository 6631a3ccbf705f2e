"""Whole simulated runs under the policies: the same facts however fast they run, and wherever they stop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider, seeded_latency, world_answers
from claims.promises._runs import (
    QUICK,
    assert_same_run,
    database_of,
    events_of,
    facts,
    in_world,
    make_job,
    public_files,
    quick_folder,
    run,
    start_process,
)
from skillopt.errors import Interrupted
from skillopt.events import Checkpoint, Event, Judged, Spending, StageClosed, StageOpened
from skillopt.models.world.rules import WorldRules
from skillopt.run import Job, open_run, train

SMALL = (
    *(
        "env.train_cases=20",
        "env.val_cases=14",
        "env.test_cases=6",
        "train.batch_size=10",
        "train.num_epochs=3",
    ),
    *(
        "gradient.minibatch_size=3",
        "optimizer.slow_update_samples=8",
        "evaluation.repeats=1",
        "env.workers=6",
    ),
)
NOISY = "world:seed=20,noise=0.12"
OTHERS = ("no_regression", "paired", "size_capped")
OPTIONS = {
    "confirm": ("gate.confirm_draws=2",),
    "paired": ("gate.alpha=0.2",),
    "size_capped": ("gate.max_chars=500",),
}


def job_of(policy: str, *options: str, model: str = NOISY) -> Job:
    return make_job(in_world(model, *SMALL, f"gate.policy={policy}", *OPTIONS.get(policy, ()), *options))


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


async def run_until(job: Job, folder: Path, at: int) -> None:
    """Train until the `at`-th event; then ask the run to stop."""
    seen = 0
    async with open_run(job, folder, sinks=[lambda event: watch(event)], retry=QUICK) as opened:

        def watch(event: Event) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                opened.stop(Interrupted("stopped by the test"))

        with pytest.raises(Interrupted):
            await train(opened)


async def told(job: Job, folder: Path) -> list[Event]:
    """Every event of a run, also the live ones."""
    events: list[Event] = []
    await run(job, folder, sinks=[events.append])
    return events


def second_readings(events: Sequence[Event]) -> list[range]:
    """Where in the events a confirmation is under way: from its second opening to its verdict."""
    spans: list[range] = []
    opened: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        if isinstance(event, StageOpened) and event.stage == "selection":
            opened.setdefault(str(event.place), []).append(at)
        elif isinstance(event, Judged) and len(opened.get(str(event.place), ())) == 2:
            spans.append(range(opened[str(event.place)][1], at))
    return spans


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", ["confirm", *(pytest.param(name, marks=pytest.mark.real) for name in OTHERS)]
)
async def test_a_run_is_the_same_with_1_8_and_200_calls_in_flight(policy: str, tmp_path: Path) -> None:
    answers = world_answers(WorldRules(seed=5, noise=0.12))
    workers = 1

    def latency(call: Call) -> float:
        return seeded_latency(workers, 0.0, 0.001 if workers == 1 else 0.02)(call)

    async with LoopbackProvider(answers, latency=latency) as provider:
        for workers in (1, 8, 200):
            speed = (f"env.workers={workers}", f"gradient.analyst_workers={workers}")
            await run(
                job_of(policy, *speed, model=f"compatible:m@{provider.base_url}"), tmp_path / str(workers)
            )
    for workers in (8, 200):
        assert_same_run(tmp_path / str(workers), tmp_path / "1")
        assert public_files(tmp_path / str(workers)) == public_files(tmp_path / "1")
    verdicts = [event for event in events_of(tmp_path / "1") if isinstance(event, Judged)]
    assert {event.policy for event in verdicts} == {policy}
    assert {event.action for event in verdicts} > {"reject"}


@pytest.mark.slow
async def test_a_run_stopped_in_the_middle_of_a_confirmation_goes_on_to_the_same_facts(quick: Path) -> None:
    events = await told(job_of("confirm"), quick / "undisturbed")
    spans = second_readings(events)
    actions = {
        event.action for event in events if isinstance(event, Judged) and event.decided_by == "confirmation"
    }
    assert actions == {"accept", "reject"}
    stops = [at for span in spans for at in (span[0], span[len(span) // 2])]
    for number, at in enumerate(stops):
        folder = quick / str(at)
        await run_until(job_of("confirm"), folder, at + 1)
        await run(job_of("confirm", f"env.workers={1 + number}"), folder)
        assert_same_run(folder, quick / "undisturbed")
        with database_of(folder) as database:
            assert not database.execute(
                "SELECT place, COUNT(*) FROM spending GROUP BY place HAVING COUNT(*) > 1"
            ).fetchall()


@pytest.mark.real  # four processes
def test_a_run_killed_in_a_confirmation_goes_on_to_the_same_facts(tmp_path: Path) -> None:
    answers = world_answers(WorldRules(seed=5, noise=0.12))
    trained, further = threading.Event(), threading.Semaphore(0)

    def answer(call: Call) -> str | Answer:
        if not str(call.place).startswith("rollout/"):
            trained.set()
        elif call.draw and trained.is_set():  # a further draw after the baseline: a confirmation
            further.release()
        return answers(call)

    with LoopbackProvider.in_thread(answer, latency=seeded_latency(1, 0.002, 0.01)) as provider:
        model = f"compatible:m@{provider.base_url}"
        asyncio.run(run(job_of("confirm", model=model), tmp_path / "undisturbed"))
        options = in_world(model, *SMALL, "gate.policy=confirm", *OPTIONS["confirm"])
        trained.clear()
        for seen in (3, 12, 30):
            while further.acquire(blocking=False):
                pass
            process = start_process(tmp_path / "killed", options)
            for _ in range(seen):
                assert further.acquire(timeout=30), process.communicate(timeout=30)
            process.kill()
            process.communicate(timeout=30)
        asyncio.run(run(job_of("confirm", model=model), tmp_path / "killed"))
    assert_same_run(tmp_path / "killed", tmp_path / "undisturbed")


@pytest.mark.slow
async def test_a_budget_that_ends_in_a_confirmation_leaves_it_open_and_a_larger_one_decides_it(
    quick: Path,
) -> None:
    options = ("evaluation.eval_test=false",)
    events = await told(job_of("confirm", *options, "budget.calls=100000"), quick / "undisturbed")
    for number, span in enumerate(second_readings(events)[:4]):
        spent = [event.calls for event in events[: span[len(span) // 2]] if isinstance(event, Spending)][-1]
        folder = quick / str(number)
        ended = await run(job_of("confirm", *options, f"budget.calls={spent}"), folder)
        assert ended.summary["status"] != "finished"
        told_before = facts(folder)
        assert not any(fact["type"] == "judged" and fact["action"] == "inconclusive" for fact in told_before)
        assert len(told_before) < len(facts(quick / "undisturbed"))
        await run(job_of("confirm", *options, "budget.calls=100000"), folder)
        assert_same_run(folder, quick / "undisturbed")


@pytest.mark.slow
async def test_the_score_of_every_incumbent_is_the_mean_of_all_its_draws(quick: Path) -> None:
    await run(job_of("confirm"), quick / "run")
    events = events_of(quick / "run")
    rows = {
        str(event.place): event.rows
        for event in events
        if isinstance(event, StageClosed) and event.stage == "selection"
    }
    score = sum(row.hard or 0.0 for row in rows["baseline"]) / len(rows["baseline"])
    assert len(rows["baseline"]) == 14 * 3
    for event in events:
        if isinstance(event, Judged) and event.decided_by:
            assert event.incumbent == pytest.approx(score)
            assert event.rows_total in (14, 42)
            if event.action == "accept":
                score = sum(row.hard or 0.0 for row in rows[str(event.place)]) / 42
                assert event.candidate == pytest.approx(score)
        elif isinstance(event, Checkpoint):
            assert event.state.score == pytest.approx(score)


@pytest.mark.slow
async def test_the_draws_of_a_confirmation_serve_nothing_else(quick: Path) -> None:
    await run(job_of("confirm"), quick / "run")
    with database_of(quick / "run") as database:
        stages = dict(
            database.execute(
                "SELECT draw, group_concat(DISTINCT stage) FROM replies WHERE role = 'target' GROUP BY draw"
            )
        )
    assert {draw: set(names.split(",")) for draw, names in stages.items() if draw > 0} == {
        1: {"selection"},
        2: {"selection"},
    }


async def test_a_slow_update_that_is_not_gated_is_measured_on_all_draws_too(quick: Path) -> None:
    job = job_of("confirm", "optimizer.slow_update_gate_with_selection=false")
    await run(job, quick / "run")
    ends = [
        event
        for event in events_of(quick / "run")
        if isinstance(event, Judged) and str(event.place).endswith("/end")
    ]
    assert ends
    assert all(event.rows_used == 42 and event.candidate is not None for event in ends)
    history = json.loads((quick / "run" / "history.json").read_text())
    assert len(history) == 6
