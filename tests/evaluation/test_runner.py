"""Stages that fail take their siblings back; an analyst that fails ends the batch."""

from __future__ import annotations

import asyncio

import pytest

from gate._tables import Memory
from optimizer.test_stages import Quiz, at, optimizer
from skillopt.errors import ModelError, ProviderDown
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.executors.port import WorkerLost
from skillopt.harnesses.chat import Chat
from skillopt.messages import Reply, Request, Usage
from skillopt.process.waiting import together
from skillopt.tasks.task import Task
from steps import step_at


async def test_the_first_failure_takes_the_others_back():
    ended = []

    async def fails():
        await asyncio.sleep(0)
        raise ValueError("lost")

    async def works():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("withdrawn")

    with pytest.raises(ValueError, match="lost"):
        await together(works(), fails(), works())
    assert ended == ["withdrawn"] * 2


async def test_nothing_at_all_is_an_answer_too():
    assert await together() == []


class Slow:
    """A target that answers one call at a time and counts them."""

    endpoint = "slow"
    fingerprint = {"provider": "slow"}

    def __init__(self):
        self.calls = 0

    async def complete(self, request: Request) -> Reply:
        self.calls += 1
        await asyncio.sleep(0.002)
        return Reply(text="no", finish="stop", usage=Usage(input_tokens=1, output_tokens=1))

    async def close(self):
        pass


@pytest.mark.slow
async def test_a_dead_optimizer_ends_the_step_before_the_rest_of_the_batch_is_paid():
    def dead(request: Request) -> str:
        raise ModelError("auth", "the key is dead")

    slow = Slow()
    tasks = [Task(id=f"t{n:03d}", prompt=f"question {n}", reference="gold") for n in range(200)]
    evaluator = Evaluator(
        harness=Chat(),
        model=slow,
        benchmark=Quiz(),
        rollouts=Memory(),
        workers=1,
        max_tokens=9,
    )
    asked, _ = optimizer(dead, minibatch_size=1)
    with pytest.raises(ProviderDown, match="the key is dead"):
        await asked.reflect(
            at("p"), Evaluation(evaluator, step_at("p"), "skill", rows_of(tasks), stage="rollout")
        )
    paid = slow.calls
    assert paid < 200
    await asyncio.sleep(0.05)
    assert slow.calls <= paid + 1


async def test_a_slow_row_leaves_no_slot_empty_and_no_more_than_half_as_many_rows_again_run_ahead_of_it():
    class FirstIsSlow(Slow):
        answer, six = asyncio.Event(), asyncio.Event()

        async def complete(self, request: Request) -> Reply:
            reply = await super().complete(request)
            if self.calls == 6:
                self.six.set()
            if "question 0" in request.messages[-1].content:
                await self.answer.wait()
            return reply

    slow = FirstIsSlow()
    evaluator = Evaluator(
        harness=Chat(), model=slow, benchmark=Quiz(), rollouts=Memory(), workers=4, max_tokens=9
    )
    rows = rows_of([Task(id=f"t{n:03d}", prompt=f"question {n}.", reference="gold") for n in range(20)])
    stage = Evaluation(evaluator, step_at("p"), "skill", rows, stage="selection", ahead=4)
    reading = asyncio.ensure_future(stage.next())
    await asyncio.wait_for(slow.six.wait(), 30)
    await asyncio.sleep(0.02)
    assert slow.calls == 6
    slow.answer.set()
    await reading
    stage.conclude()
    sent = slow.calls
    await asyncio.sleep(0.02)
    assert slow.calls == sent < 20


async def test_nothing_is_sent_while_known_rows_are_read():
    slow = Slow()
    evaluator = Evaluator(
        harness=Chat(), model=slow, benchmark=Quiz(), rollouts=Memory(), workers=4, max_tokens=9
    )
    rows = rows_of([Task(id=f"t{n:03d}", prompt=f"question {n}.", reference="gold") for n in range(20)])
    await Evaluation(evaluator, step_at("p"), "skill", rows[:6], stage="selection").close()
    stage = Evaluation(evaluator, step_at("p"), "skill", rows, stage="selection", ahead=4)
    for _ in range(6):
        await stage.next()
        await asyncio.sleep(0.01)
    assert slow.calls == 6, "the verdict may be there with what is known"
    seventh = await stage.next()
    assert seventh is not None and seventh.task_id == "t006" and slow.calls >= 10
    stage.conclude()


@pytest.mark.parametrize(("lost", "kind"), [(2, None), (3, "spawn")])
async def test_a_rollout_whose_worker_is_lost_is_run_again(lost: int, kind: str | None):
    class Fragile(Chat):
        runs = 0

        async def run(self, *arguments):
            self.runs += 1
            if self.runs <= lost:
                raise WorkerLost("simulated")
            return await super().run(*arguments)

    evaluator = Evaluator(
        harness=Fragile(), model=Slow(), benchmark=Quiz(), rollouts=Memory(), workers=1, max_tokens=9
    )
    (row,) = rows_of([Task(id="t", prompt="question", reference="gold")])
    outcome = await evaluator.measure("skill", row, stage="rollout")
    assert getattr(outcome, "kind", None) == kind
    assert evaluator.slots.used == 0
