"""What a run will cost, said before anything is sent; checked against simulated runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillopt.build import Job, prepare
from skillopt.config import load
from skillopt.estimate import estimate
from train._world import SMALL, train


def job_of(folder: Path, **settings: Any) -> Job:
    given = {**SMALL, **{name.replace("__", "."): value for name, value in settings.items()}}
    options = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()]
    return prepare(load(None, flags={}, options=options, environ={}, cwd=folder))


RUNS = [
    {},
    {"env__train_cases": 80, "env__val_cases": 60, "train__batch_size": 40, "train__num_epochs": 4},
    {"env__train_cases": 60, "env__val_cases": 100, "env__test_cases": 200, "train__num_epochs": 2},
    {"model__optimizer": "world:harm=0.6,seed=4", "train__num_epochs": 4},
    {"optimizer__skill_update_mode": "rewrite_from_suggestions"},
    {"optimizer__skill_update_mode": "full_rewrite_minibatch"},
    {"optimizer__salvage": False, "train__num_epochs": 4},
]


@pytest.mark.parametrize("settings", RUNS, ids=lambda settings: ",".join(name.rpartition("__")[2] for name in settings) or "default")
def test_calls_and_tokens_are_within_a_quarter_of_what_a_simulated_run_takes(tmp_path, settings):
    said = estimate(job_of(tmp_path, **settings))
    paid = train(tmp_path / "run", **settings).json("summary.json")["spending"]
    assert said.calls.likely == pytest.approx(paid["calls"], rel=0.25)
    assert said.tokens.likely == pytest.approx(paid["tokens"], rel=0.25)
    assert said.calls.low <= paid["calls"] <= said.calls.high
    assert said.tokens.low <= paid["tokens"] <= said.tokens.high
    assert said.simulated


def priced(folder: Path) -> Job:
    """Two models with declared prices in place of the simulated ones."""
    settings: dict[str, Any] = {}
    for role, factor in (("target", 1.0), ("optimizer", 2.0)):
        settings |= {f"model__{role}": "openai:m", f"model__{role}__api_key": f"k-{role}"}
        settings |= {f"model__{role}__price__input": factor, f"model__{role}__price__output": 10 * factor}
    return job_of(folder, **settings)


def test_dollars_follow_from_tokens_and_declared_prices(tmp_path):
    found = estimate(priced(tmp_path))
    assert found.usd is not None and found.usd.low < found.usd.likely < found.usd.high
    baseline = next(line for line in found.lines if line.stage == "baseline")
    said = 300 * baseline.calls.likely
    asked = baseline.tokens.likely - said
    assert baseline.usd.likely == pytest.approx((asked * 1 + said * 10) / 1e6, rel=0.02)
    assert found.prices["target"].startswith("configuration")


def test_an_unknown_price_is_unknown_and_not_zero(tmp_path):
    assert estimate(job_of(tmp_path)).usd is None


def test_replies_of_known_length_change_the_figures(tmp_path):
    short = estimate(job_of(tmp_path), reply_tokens={"target": 1})
    long = estimate(job_of(tmp_path), reply_tokens={"target": 1000})
    assert long.tokens.likely - short.tokens.likely > 999 * short.lines[0].calls.likely
    assert "1000 tokens" in long.assumptions[0]


@pytest.mark.parametrize(
    ("budget", "words"),
    [("100000 calls", "the whole run"), ("450 calls", "of 6 steps"), ("30 calls", "hardly pay"), ("20k tokens", "hardly pay")],
)
def test_it_says_what_the_budget_buys(tmp_path, budget, words):
    assert words in estimate(job_of(tmp_path, budget=budget)).advice


def test_what_is_switched_off_costs_nothing(tmp_path):
    found = estimate(job_of(tmp_path, optimizer__use_slow_update=False, optimizer__use_meta_skill=False, evaluation__eval_test=False))
    assert not {line.stage for line in found.lines} & {"slow_update", "meta_skill", "slow rollouts", "test"}


@pytest.mark.parametrize(
    ("mode", "paid", "said"),
    [
        ("rewrite_from_suggestions", ("rewrite",), ("rewrite",)),
        ("full_rewrite_minibatch", ("analyst_failure", "analyst_success", "merge"), ("analyst", "merge")),
    ],
)
def test_a_rewrite_is_as_long_as_the_skill_it_writes(tmp_path, mode, paid, said):
    seed = tmp_path / "long.md"
    seed.write_text(
        "# House rules for cases\n\n"
        + "A paragraph that is kept as it is.\n" * 600
        + "\n## Rules\n\n- Read the whole case before answering.\n"
    )
    settings = {"optimizer__skill_update_mode": mode, "env__skill_init": str(seed), "train__num_epochs": 1, "env__test_cases": 4}
    lines = [line for line in estimate(job_of(tmp_path, **settings)).lines if line.stage in said]
    stages = train(tmp_path / "run", **settings).json("summary.json")["spending"]["stages"]
    tokens = sum(stages[stage]["total_tokens"] for stage in paid if stage in stages)
    assert sum(line.tokens.low for line in lines) <= tokens <= sum(line.tokens.high for line in lines)
    assert sum(line.tokens.likely for line in lines) == pytest.approx(tokens, rel=0.35)


def test_a_rate_that_nobody_sets_for_whole_skills_costs_nothing(tmp_path):
    found = estimate(job_of(tmp_path, optimizer__skill_update_mode="full_rewrite_minibatch", optimizer__lr_control_mode="autonomous"))
    assert not {line.stage for line in found.lines} & {"lr_autonomous", "ranking", "repair", "rewrite"}


def test_a_budget_in_minutes_alone_is_not_blamed_on_a_price(tmp_path):
    assert "how long a call takes" in estimate(job_of(tmp_path, budget__minutes=5)).advice


def test_a_budget_that_one_reservation_exceeds_is_said_to_pay_for_no_step(tmp_path):
    """Each call sets its whole output cap aside, and a rewrite may be long: the run would end in its first step."""
    small = {"optimizer__skill_update_mode": "rewrite_from_suggestions", "env__val_cases": 12, "env__test_cases": 4, "train__num_epochs": 1}
    said = estimate(job_of(tmp_path, **small, budget="50k tokens")).advice
    assert "will not pay for a step" in said and "model.rewrite_max_completion_tokens" in said
    assert train(tmp_path / "run", **small, budget="50k tokens").json("history.json") == []
    assert "the whole run" in estimate(job_of(tmp_path, **small, budget="50k tokens", model__rewrite_max_completion_tokens=4000)).advice
