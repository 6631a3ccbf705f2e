"""The budget of a run whose target is an agent CLI, here a stand-in: what a rollout is allowed is set aside
before it starts.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from harnesses._stub import stub
from skillopt.config.load import load
from skillopt.errors import BudgetSpent, ConfigError
from skillopt.evaluation.runner import PlannedRow
from skillopt.events import Checkpoint
from skillopt.run import OpenRun, open_run, prepare, train
from skillopt.tasks.rollout import Scored

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")


def run_of(tmp_path: Path, *options: str) -> AbstractAsyncContextManager[OpenRun]:
    target = [
        "model.target=claude_code/anthropic:m@http://127.0.0.1:1",
        "model.target.api_key=sk-key-1",
        "model.optimizer=world",
    ]
    world = ["env.name=world", "env.train_cases=3", "env.val_cases=6", "env.test_cases=0"]
    path = f"model.target.agent.path={stub(tmp_path)}"
    job = prepare(load(None, flags={}, options=[*world, *target, path, *options], environ={}, cwd=tmp_path))
    return open_run(job, tmp_path / "run", {})


async def measured(made: OpenRun, number: int) -> bool:
    row = PlannedRow(task=made.job.splits.train[number])
    return isinstance(await made.evaluator.measure(made.job.skill.rendered, row, stage="rollout"), Scored)


async def test_tokens_are_set_aside_before_a_rollout_and_settled_after_it(tmp_path: Path) -> None:
    async with run_of(tmp_path, "budget.tokens=500", "budget.per_rollout.tokens=300") as made:
        assert await measured(made, 0)
        assert made.ledger.spent.tokens == 110
        assert await measured(made, 1)
        with pytest.raises(BudgetSpent):  # 220 are spent, and 300 more would not fit
            await measured(made, 2)


async def test_without_an_allowance_the_first_rollout_is_taken_to_be_large(tmp_path: Path) -> None:
    async with run_of(tmp_path, "budget.tokens=500") as made:
        with pytest.raises(BudgetSpent):
            await measured(made, 0)


async def test_a_dollar_budget_holds_by_the_allowance_where_no_price_is_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set budget\.per_rollout\.usd"):
        async with run_of(
            tmp_path, "budget.usd=1", "model.target.name=claude_code/anthropic:unheard-of@http://127.0.0.1:1"
        ):
            pass
    async with run_of(
        tmp_path,
        "budget.usd=1",
        "budget.per_rollout.usd=0.4",
        "model.optimizer.price.input=1",
        "model.optimizer.price.output=1",
    ) as made:
        assert await measured(made, 0)
        assert await measured(made, 1)
        with pytest.raises(BudgetSpent):
            await measured(made, 2)


async def test_a_measured_rollout_is_not_run_again(tmp_path: Path) -> None:
    async with run_of(tmp_path) as made:
        assert await measured(made, 0)
        calls = made.ledger.spent.calls
        assert await measured(made, 0)
        assert made.ledger.spent.calls == calls


@pytest.mark.slow
async def test_the_sealed_test_is_paid_by_the_allowance_and_not_by_an_output_cap_that_nobody_sends(
    tmp_path: Path,
) -> None:
    """The output cap (16,384 tokens and more) would have taken more than half of this budget, and the test
    with it.
    """
    settings = [
        "budget.tokens=20000",
        "budget.per_rollout.tokens=2000",
        "env.test_cases=4",
        "evaluation.eval_test=true",
        "evaluation.repeats=1",
        "train.num_epochs=1",
    ]
    target = [
        "model.target=claude_code/anthropic:m@http://127.0.0.1:1",
        "model.target.api_key=sk-key-1",
        "model.optimizer=world",
    ]
    world = [
        "env.name=world",
        "env.train_cases=3",
        "env.val_cases=6",
        f"model.target.agent.path={stub(tmp_path)}",
    ]
    job = prepare(load(None, flags={}, options=[*world, *target, *settings], environ={}, cwd=tmp_path))
    assert job.target.max_tokens > 10_000
    async with open_run(job, tmp_path / "run") as opened:
        result = await train(opened)
    (set_aside,) = {
        event.state.set_aside.tokens
        for event in opened.run.history()
        if isinstance(event, Checkpoint) and event.state.set_aside is not None
    }
    assert set_aside == 2 * 4 * 110 * 13 // 10 + 2000
    assert result.test is not None, result.summary["claim"]
