"""Rollouts before their turn: only in empty slots, asked once, told by their step, and never where they could
cost somebody's budget.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from claims.promises._runs import assert_same_run, in_world, make_job, run
from gate._tables import Memory
from optimizer.test_stages import Quiz
from skillopt.config.schema import GateConfig
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.events import Arrived, Event, StageOpened
from skillopt.events.place import Place
from skillopt.events.step import Outbox, Step
from skillopt.gate.gate import Gate
from skillopt.harnesses.chat import Chat
from skillopt.messages import Reply, Request, Usage
from skillopt.run import open_run, trainer_of
from skillopt.skill.document import Document
from skillopt.tasks.task import Task
from skillopt.train.plan import Batch, EarlyBatch

WORKERS = 4
SMALL = ("env.train_cases=16", "env.val_cases=12", "env.test_cases=6", "train.batch_size=8")


class Held:
    """A target whose calls wait until they are let go."""

    endpoint = "held"
    fingerprint = {"provider": "held"}

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = asyncio.Event()

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request.place)
        await self.go.wait()
        return Reply(text="no", finish="stop", usage=Usage(input_tokens=1, output_tokens=1))

    async def close(self) -> None:
        """Nothing is open."""


class Scene:
    """Four slots, eight rows, and a batch that may run ahead."""

    def __init__(self, *, is_on: bool = True, policy: str = "strict") -> None:
        self.target = Held()
        self.evaluator = Evaluator(
            harness=Chat(),
            model=self.target,
            benchmark=Quiz(),
            rollouts=Memory(),
            workers=WORKERS,
            max_tokens=9,
        )
        tasks = [Task(id=f"t{n}", prompt=f"question {n}.", reference="gold") for n in range(8)]
        self.batch = Batch(
            epoch=1,
            step=1,
            step_in_epoch=1,
            seed=1,
            rows=tuple(rows_of(tasks)),
            limit=1,
            place=Place.of_step(1, 1),
        )
        gate = Gate(self.evaluator, self.batch.rows, GateConfig(policy=policy))
        self.ahead = EarlyBatch(gate, is_on=is_on)
        self.events: list[Event] = []

    def step(self, skill: str) -> Step:
        return Step(place=self.batch.place, emit=Outbox(self.events.append), skill=Document(skill))

    async def hear(self, *scores: float | None) -> int:
        """How many rollouts run ahead after the baseline's rows had these scores."""
        sink = self.ahead.beside_baseline(self.events.append, self.batch, Document("old"))
        for hard in scores:
            sink(
                Arrived(
                    stage="selection", hard=hard, invalid=None if hard is not None else "parse", resumed=False
                )
            )
        await asyncio.sleep(0.02)
        await self.ahead.withdraw()
        assert len(self.events) == len(scores)
        return len(self.target.asked)


@pytest.mark.parametrize(
    ("policy", "scores", "runs"),
    [
        ("strict", (1.0, None, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), False),
        ("strict", (1.0, 0.0), True),
        ("paired", (0.0, 0.0, 0.0, 0.0), False),
        ("paired", (0.0, 0.0, 0.0, 0.0, 1.0, 0.0), True),
    ],
)
async def test_the_first_batch_begins_once_a_candidate_could_win_whatever_the_rest_of_val_comes_to(
    policy: str, scores: tuple[float, ...], runs: bool
) -> None:
    scene = Scene(policy=policy)
    scene.target.go.set()
    assert bool(await scene.hear(*scores)) is runs


async def test_switched_off_nothing_runs_before_its_turn() -> None:
    scene = Scene(is_on=False)
    assert await scene.hear(0.0, 0.0) == 0


async def test_a_step_takes_over_what_runs_and_no_row_is_asked_twice() -> None:
    scene = Scene()
    scene.ahead.start(scene.batch, Document("old"))
    await asyncio.sleep(0.02)
    assert len(scene.target.asked) == WORKERS
    assert not scene.events
    rollouts = scene.ahead.rollouts(scene.step("old"), scene.batch)
    await asyncio.sleep(0.02)
    assert len(scene.target.asked) == WORKERS  # they still hold all slots
    scene.target.go.set()
    outcomes = await rollouts.close()
    assert [row.task_id for row in outcomes] == [row.task.id for row in scene.batch.rows]
    assert sorted(scene.target.asked) == sorted(set(scene.target.asked))
    assert len(scene.target.asked) == 8
    assert isinstance(scene.events[0], StageOpened)
    assert len([event for event in scene.events if event.type == "arrived"]) == 8


async def test_rows_ahead_leave_every_slot_to_who_waits_for_one() -> None:
    scene = Scene()
    taken = [scene.evaluator.slots.acquire() for _ in range(WORKERS)]
    await asyncio.gather(*taken)
    scene.ahead.start(scene.batch, Document("old"))
    await asyncio.sleep(0.02)
    waiting = asyncio.ensure_future(scene.evaluator.slots.acquire())
    await asyncio.sleep(0)
    scene.evaluator.slots.release()
    await waiting
    assert not scene.target.asked
    await scene.ahead.withdraw()


async def test_a_step_with_another_skill_begins_anew() -> None:
    scene = Scene()
    scene.ahead.start(scene.batch, Document("old"))
    await asyncio.sleep(0.02)
    rollouts = scene.ahead.rollouts(scene.step("new"), scene.batch)
    scene.target.go.set()
    await rollouts.close()
    assert len(scene.target.asked) == WORKERS + 8


async def test_what_is_withdrawn_sends_nothing_further() -> None:
    scene = Scene()
    scene.ahead.start(scene.batch, Document("old"))
    await asyncio.sleep(0.02)
    scene.target.go.set()
    await scene.ahead.withdraw()
    assert len(scene.target.asked) == WORKERS


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ((), True),
        (("train.ahead=off",), False),
        (("budget.calls=1000",), False),
        (("budget.minutes=10",), False),
        (("gate.max_tokens_increase=0.5",), False),
    ],
)
async def test_nothing_runs_ahead_where_a_budget_could_end_earlier_for_it(
    options: tuple[str, ...], runs: bool, tmp_path: Path
) -> None:
    async with open_run(make_job([*in_world(), *SMALL, *options]), tmp_path) as opened:
        trainer, skill = trainer_of(opened), opened.job.skill
        sink = trainer.ahead.beside_baseline(lambda event: None, trainer.plan.first_batch, skill)
        sink(Arrived(stage="selection", hard=0.0, invalid=None, resumed=False))
        await asyncio.sleep(0.05)
        await trainer.ahead.withdraw()
        assert bool(list(opened.run.database.entries())) is runs


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers",
    [
        1,
        pytest.param(8, marks=pytest.mark.slow),
        pytest.param(24, marks=pytest.mark.slow),
        pytest.param(200, marks=pytest.mark.slow),
    ],
)
async def test_a_run_is_the_same_with_and_without(workers: int, tmp_path: Path) -> None:
    for ahead in ("auto", "off"):
        options = (*in_world(), *SMALL, f"env.workers={workers}", f"train.ahead={ahead}")
        await run(make_job(options), tmp_path / ahead)
    assert_same_run(tmp_path / "auto", tmp_path / "off")


async def test_rows_that_were_read_before_anybody_heard_that_they_are_done_leave_a_slot_for_the_next() -> (
    None
):
    scene = Scene()
    scene.target.go.set()
    rows = scene.batch.rows
    await Evaluation(scene.evaluator, scene.step("old"), "old", rows, stage="rollout").close()
    again = Evaluation(scene.evaluator, scene.step("old"), "old", rows, stage="rollout", ahead=1)
    read = 0
    while await again.next() is not None:  # known rows are done at once
        read += 1
        if read == 1:
            await asyncio.sleep(0)
    assert read == len(rows)
