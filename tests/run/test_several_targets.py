"""One skill trained for several targets: who is asked what, what decides, and what is told of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider, world_answers
from claims.promises._runs import with_same_model
from skillopt.config.load import load
from skillopt.errors import ConfigError
from skillopt.events import Judged, RunStarted, StageClosed, TestMeasured
from skillopt.models.world.rules import CASE, SEED_SKILL, code_of
from skillopt.run import Job, Result, open_run, prepare, train
from skillopt.run.estimation import estimate
from skillopt.runs.explain import find, replay
from skillopt.runs.log import read_events
from skillopt.runs.reader import read_run

Say = Callable[[Call], str]


def stubborn(call: Call) -> str:
    """A target that solves every fifth case with the skill it knows, and none once anything is added."""
    case = CASE.search(call.text)
    knows = call.text.partition("## Skill\n\n")[2].startswith(f"{SEED_SKILL.strip()}\n\nAnswer with")
    solves = case is not None and int(case[0][-1]) % 5 == 0 and knows
    return f"<answer>{code_of(case[0]) if case and solves else 'unknown'}</answer>"


def settings(folder: Path, targets: str, optimizer: str, **more: Any) -> Any:
    flags = {
        "env": "world",
        "targets": targets,
        "optimizer_model": f"compatible:o@{optimizer}",
        "num_epochs": 1,
        "batch_size": 12,
        "repeats": 1,
        "eval_test": "true",
        "out_root": str(folder / "run"),
        **more,
    }
    cases = {"env.train_cases": 12, "env.val_cases": 10, "env.test_cases": 8, "gradient.minibatch_size": 4}
    options = [f"{key}={value}" for key, value in cases.items() if key not in more]
    told = {name: value for name, value in flags.items() if value is not None}
    return load(None, flags=told, options=options, environ={}, cwd=folder)


async def trained(folder: Path, *answers: Say, **more: Any) -> tuple[Result, Job, list[LoopbackProvider]]:
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(LoopbackProvider(say)) for say in (*answers, world_answers())]
        *providers, optimizer = made
        names = ",".join(
            f"compatible:{name}@{one.base_url}" for name, one in zip("abc", providers, strict=False)
        )
        job = with_same_model(prepare(settings(folder, names, optimizer.base_url, **more)), folder / "run")
        async with open_run(job, folder / "run") as opened:
            result = await train(opened)
    return result, job, made


async def test_every_target_is_measured_on_every_val_and_test_task(tmp_path: Path) -> None:
    result, job, (first, second, _) = await trained(tmp_path, world_answers(), world_answers())
    names = ["compatible:a", "compatible:b"]
    assert [one.name for one in job.targets] == names
    events = list(read_events(result.folder / "events.jsonl"))
    started = next(one for one in events if isinstance(one, RunStarted))
    assert started.target == "compatible:a, compatible:b"
    baseline = next(one for one in events if isinstance(one, StageClosed))
    assert [row.target for row in baseline.rows] == names * 10
    (test,) = [one for one in events if isinstance(one, TestMeasured)]
    assert {(row.task, row.target) for row in test.rows["best"]} == {
        (task.id, name) for task in job.splits.test for name in names
    }
    # Train tasks are divided: what is studied costs what it costs with one target.
    (rollout,) = [one for one in events if isinstance(one, StageClosed) and one.stage == "rollout"]
    whose = {row.task: row.target for row in rollout.rows}
    assert len(rollout.rows) == 12 and [whose[task.id] for task in job.splits.train] == names * 6
    assert len(first.log) == len(second.log) > 0
    told = result.summary["test"]
    assert set(told["targets"]) == set(names) and told["comparison"]["n"] == 8
    pooled = [told["targets"][name]["after"] for name in names]
    assert told["comparison"]["after"] == pytest.approx(sum(pooled) / 2)
    assert "By target: compatible:a" in result.claim
    assert result.summary["spending"]["calls"] == sum(len(one.log) for one in (first, second, _))


@pytest.mark.parametrize("rule", ["mean", "none_worse"])
async def test_no_target_has_to_get_worse_for_the_others(tmp_path: Path, rule: str) -> None:
    more = {
        "gate.targets": rule,
        "salvage": False,
        "env.train_cases": 40,
        "batch_size": 20,
        "env.val_cases": 20,
    }
    result, _, _ = await trained(tmp_path, world_answers(), world_answers(), stubborn, num_epochs=2, **more)
    judged = [one for one in read_events(result.folder / "events.jsonl") if isinstance(one, Judged)]
    refused = [one for one in judged if one.decided_by == "targets"]
    assert bool(refused) is (rule == "none_worse")
    assert (result.summary["total_accepts"] > 0) is (rule == "mean")
    if refused:
        assert "target 3 of 3 got worse, from 0.2000 to 0.0000 (gate.targets)" in refused[0].why
    run = read_run(result.folder)
    for one in (one for one in judged if one.place.step):
        again = replay(run, find(run, str(one.place.step)))
        assert again.agrees and again.decided_by == one.decided_by


async def test_a_finished_run_of_several_targets_asks_nobody_again(tmp_path: Path) -> None:
    first, _, _ = await trained(tmp_path, world_answers(), world_answers())
    again, _, asked = await trained(tmp_path, world_answers(), world_answers())
    assert again.best_skill == first.best_skill and not any(one.log for one in asked)


async def test_the_strategy_proof_tries_an_edit_with_the_target_that_failed(tmp_path: Path) -> None:
    result, job, _ = await trained(tmp_path, world_answers(), world_answers(), strategy="proof")
    names = {task.id: job.targets[place % 2].name for place, task in enumerate(job.splits.train)}
    for event in read_events(result.folder / "events.jsonl"):
        for trial in getattr(event, "trials", ()):
            assert all(row.target == names[row.task] for row in trial.rows if row.task in names)
    assert result.status == "finished"


def test_what_cannot_be_several_targets_is_refused(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    both = f"compatible:a@{url},compatible:b@{url}"
    for targets, more, said in (
        (f"compatible:a@{url},compatible:a@{url}", {}, "is named more than once"),
        (both, {"gate.confirm_draws": 3}, "cannot be divided among 2 targets"),
        (both, {"model.target.api_key": "sk-1"}, "belongs to one target, and 2 are named"),
    ):
        with pytest.raises(ConfigError, match=said):
            prepare(settings(tmp_path, targets, url, **more))
    alone = prepare(settings(tmp_path, f"compatible:a@{url}", url))
    assert alone.targets == () and alone.target.name == "a"
    assert "each of the 2 targets" in " ".join(estimate(prepare(settings(tmp_path, both, url))).assumptions)
