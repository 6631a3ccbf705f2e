"""What a run will cost, said before anything is sent; checked against simulated runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider
from claims.promises._runs import as_one_server
from cli._commands import SMALL as FEW
from cli._commands import run
from skillopt import run as api
from skillopt.config.load import load
from skillopt.events import Spending
from skillopt.messages import Reply, Request, Usage
from skillopt.models import PROVIDERS, Provider, per_million
from skillopt.money import Budget
from skillopt.run import Job, open_run, prepare
from skillopt.run.calls import NOTHING, Figure
from skillopt.run.estimation import Estimate, Speed, StageCost, advice_on, estimate, speeds_of
from train._world import SMALL, train

ROLES = ("target", "optimizer", "judge")
PRICES = (("input", 1.0), ("output", 4.0))


def job_of(folder: Path, **settings: Any) -> Job:
    given = {**SMALL, **{name.replace("__", "."): value for name, value in settings.items()}}
    options = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()
    ]
    return prepare(load(None, flags={}, options=options, environ={}, cwd=folder))


RUNS = [
    {},
    {"env__train_cases": 60, "env__val_cases": 100, "env__test_cases": 200, "train__num_epochs": 2},
    {"optimizer__skill_update_mode": "rewrite_from_suggestions"},
    {"optimizer__skill_update_mode": "full_rewrite_minibatch"},
    {"gradient__rollouts_per_task": 3},
    {"train__strategy": "proof"},
    {
        "train__strategy": "proof",
        "model__optimizer": "world:harm=0.9,seed=4",
        "model__target": "world:noise=0.3",
    },
    {"train__strategy": "proof", "gate__policy": "confirm", "evaluation__eval_test": True},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    RUNS,
    ids=lambda settings: ",".join(name.rpartition("__")[2] for name in settings) or "default",
)
def test_a_run_never_takes_more_than_the_bound_and_about_what_is_typical(tmp_path, settings):
    said = estimate(job_of(tmp_path, **settings))
    trained = train(tmp_path / "run", **settings)
    paid = trained.json("summary.json")["spending"]
    assert paid["calls"] <= said.calls.at_most and paid["tokens"] <= said.tokens.at_most
    assert paid["calls"] / 2 <= said.calls.typical <= 2 * paid["calls"]
    assert paid["tokens"] / 2.5 <= said.tokens.typical <= 2.5 * paid["tokens"]
    planned = [event.planned for event in trained.of(Spending) if event.planned]
    assert paid["calls"] / 2 <= planned[0] <= 2 * paid["calls"]
    assert said.simulated


@pytest.mark.parametrize("budget", ["100 calls", "5k tokens"])
def test_a_budget_is_a_bound(tmp_path, budget):
    found = estimate(job_of(tmp_path, budget=budget))
    assert (found.calls.at_most == 100) is (budget == "100 calls")
    assert (found.tokens.at_most == 5_000) is (budget == "5k tokens")


@pytest.mark.parametrize(
    ("settings", "stages"),
    [
        (
            {"train__strategy": "proof", "optimizer__skill_update_mode": "full_rewrite_minibatch"},
            {"proof", "control", "blame"},
        ),
        ({"optimizer__prune": True}, {"prune"}),
    ],
)
def test_what_nobody_limits_has_no_bound(tmp_path, settings, stages):
    found = estimate(job_of(tmp_path, **settings))
    assert {line.stage for line in found.lines if line.calls.at_most is None} == stages
    assert found.calls.at_most is None and found.tokens.at_most is None and found.calls.typical > 0


def priced(folder: Path) -> Job:
    """Two models with declared prices in place of the simulated ones."""
    settings: dict[str, Any] = {}
    for role, factor in (("target", 1.0), ("optimizer", 2.0)):
        settings |= {f"model__{role}": "openai:m", f"model__{role}__api_key": f"k-{role}"}
        settings |= {f"model__{role}__price__input": factor, f"model__{role}__price__output": 10 * factor}
    return job_of(folder, **settings)


@pytest.mark.slow
def test_dollars_follow_from_tokens_and_declared_prices(tmp_path):
    found = estimate(priced(tmp_path))
    assert found.usd is not None and found.usd.typical < found.usd.at_most
    baseline = next(line for line in found.lines if line.stage == "baseline")
    said = 300 * baseline.calls.typical
    asked = baseline.tokens.typical - said
    assert baseline.usd.typical == pytest.approx((asked * 1 + said * 10) / 1e6, rel=0.02)
    assert found.prices["target"].startswith("configuration")


@pytest.mark.slow
def test_an_unknown_price_is_unknown_and_not_zero(tmp_path):
    unpriced = {"model__optimizer": "openai:m", "model__optimizer__api_key": "k-1"}
    assert estimate(job_of(tmp_path, **unpriced)).usd is None


@pytest.mark.slow
def test_the_simulated_world_costs_nothing_and_fits_every_budget_in_dollars(tmp_path):
    found = estimate(job_of(tmp_path, budget="1 usd"))
    assert found.usd is not None and found.usd.at_most == 0 and "the whole run" in found.advice
    assert found.prices["target"].startswith("simulated")


class SlowModel:
    """Reads 100 and writes 10 tokens a second of its own clock; loading takes an hour of it."""

    endpoint, fingerprint = "here", {}

    def __init__(self) -> None:
        self.now, self.asked = 0.0, 0

    async def complete(self, request: Request) -> Reply:
        used = Usage(input_tokens=len(request.messages[0].content), output_tokens=request.max_tokens)
        self.now += used.input_tokens / 100 + used.output_tokens / 10 + (0 if self.asked else 3600)
        self.asked += 1
        return Reply(text="yes", finish="stop", usage=used)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.slow
async def test_three_calls_to_a_model_of_this_machine_tell_how_long_a_run_takes(tmp_path):
    model = SlowModel()
    here = Provider(open=lambda spec: model, on_this_machine=True, price=per_million(input=0, output=0))
    with PROVIDERS.lend("here", here):
        job = job_of(tmp_path, model__target="here:m", budget="30 minutes")
        unmeasured = estimate(job)
        assert unmeasured.seconds is None and "target works on this machine" in unmeasured.assumptions[-1]
        speeds = await speeds_of(job, clock=lambda: model.now)
        assert (model.asked, set(speeds)) == (3, {"target"})
        assert speeds["target"].read == pytest.approx(100, rel=0.05)
        assert speeds["target"].written == pytest.approx(10, rel=0.1)
        found = estimate(job, speeds={"target": Speed(read=100, written=10)})
    baseline = next(line for line in found.lines if line.stage == "baseline")
    said = 300 * baseline.calls.typical
    assert baseline.seconds.typical == pytest.approx((baseline.tokens.typical - said) / 100 + said / 10)
    assert baseline.seconds.typical < baseline.seconds.at_most
    assert found.seconds is not None and found.usd.at_most == 0
    assert all(line.seconds is None for line in found.lines if line.role == "optimizer")


@pytest.mark.slow
def test_the_command_measures_only_when_told_and_then_tells_the_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = SlowModel()
    with PROVIDERS.lend("here", Provider(open=lambda spec: model, on_this_machine=True)):
        words = ("estimate", "quickstart", "--target", "here:m", "--cfg-options", *FEW)
        said = " ".join(run(*words).out.split())
        assert "Time on this machine" not in said and "--measure makes three short ones" in said
        assert model.asked == 0
        said = " ".join(run(*words, "--measure").out.split())
        assert "Time on this machine, one call after the other: 0:0" in said and model.asked == 3
        assert "tokens a second, as just measured" in said and "--measure" not in said


@pytest.mark.parametrize(
    ("seconds", "words"),
    [((60, 600), "the whole run"), ((600, 2400), "about 2 of 4 steps"), ((60, None), "cannot be said")],
)
def test_a_budget_in_minutes_is_weighed_where_every_models_speed_is_known(seconds, words):
    took = [None if one is None else Figure(typical=one, at_most=one) for one in seconds]
    lines = [
        StageCost(stage=stage, role="target", calls=NOTHING, tokens=NOTHING, usd=None, seconds=one)
        for stage, one in zip(("baseline", "rollout"), took, strict=True)
    ]
    made = Estimate(lines=lines, steps=4, assumptions=(), simulated=False, budget=Budget(seconds=1800))
    assert words in advice_on(made, (0, ""))


@pytest.mark.slow
def test_replies_of_known_length_change_the_figures(tmp_path):
    short = estimate(job_of(tmp_path), reply_tokens={"target": 1})
    long = estimate(job_of(tmp_path), reply_tokens={"target": 1000})
    assert long.tokens.typical - short.tokens.typical > 999 * short.lines[0].calls.typical
    assert "1000 tokens" in long.assumptions[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("100000 calls", "the whole run"),
        ("450 calls", "of 6 steps"),
        ("30 calls", "hardly pay"),
        ("20k tokens", "hardly pay"),
    ],
)
def test_it_says_what_the_budget_buys(tmp_path, budget, words):
    assert words in estimate(job_of(tmp_path, budget=budget)).advice


def test_what_is_switched_off_costs_nothing(tmp_path):
    found = estimate(
        job_of(
            tmp_path,
            optimizer__use_slow_update=False,
            optimizer__use_meta_skill=False,
            evaluation__eval_test=False,
        )
    )
    assert not {line.stage for line in found.lines} & {"slow_update", "meta_skill", "slow rollouts", "test"}


POLITE = "Begin every letter with a greeting."


def letters(call: Call) -> Answer:
    """A simulated target whose letters are never the same twice, a judge that reads them, and an optimizer
    with an idea a step.
    """
    place = call.place or ""
    if place.startswith("rollout/"):
        drawn = hashlib.sha256(place.encode()).hexdigest()
        greeting = "Good morning! " if POLITE in call.text and int(drawn[0], 16) > 3 else ""
        return Answer(
            text=f"{greeting}Dear customer, {drawn[:6]} " + "we are glad to help. " * 20, output_tokens=100
        )
    if place.startswith("judge/"):
        greets = "Good morning" in call.text.partition("<work>")[2].partition("</work>")[0]
        found = [("Good morning" if greets else "", greets), ("Dear customer", True)]
        findings = [
            {"criterion": n, "evidence": words, "met": met} for n, (words, met) in enumerate(found, start=1)
        ]
        return Answer(text=json.dumps({"findings": findings}), output_tokens=120)
    content = POLITE if "e1/s1" in place else f"- Advice of {place}, kept short."
    edits = [{"op": "append", "content": content}]
    return Answer(
        text=json.dumps({"batch_size": 4, "edits": edits, "patch": {"reasoning": "r", "edits": edits}}),
        output_tokens=110,
    )


@pytest.mark.slow
async def test_the_judge_is_counted_within_a_quarter_of_what_a_simulated_run_takes(tmp_path):
    rubric = ["Greets the customer before anything else is said", "Names the customer"]
    rows = [
        {"id": f"i{n}", "prompt": f"Write to customer {n}, who asks where the parcel is.", "rubric": rubric}
        for n in range(100)
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(rows))
    async with LoopbackProvider(letters) as provider:
        models = [f"model.{role}=compatible:{role}@{provider.base_url}" for role in ROLES]
        prices = [f"model.{role}.price.{kind}={price}" for role in ROLES for kind, price in PRICES]
        given = [
            "env.name=own",
            "env.data_path=tasks.json",
            "env.scorer=judge",
            "train.strategy=paper",
            "train.batch_size=20",
            "train.num_epochs=2",
            "optimizer.salvage=false",
        ]
        resolved = load(None, flags={}, options=[*given, *models, *prices], environ={}, cwd=tmp_path)
        job = as_one_server(prepare(resolved))
        said = estimate(job, reply_tokens={"target": 100, "optimizer": 110})
        async with open_run(job, tmp_path / "run") as opened:
            paid = (await api.train(opened)).summary["spending"]
            judged = [entry for entry in opened.run.database.entries() if entry.role == "judge"]
    lines = [line for line in said.lines if line.role == "judge"]
    assert [line.stage for line in lines] == ["judge"]
    assert len(judged) / 2 <= lines[0].calls.typical <= 2 * len(judged) <= 2 * lines[0].calls.at_most
    for figure, spent in ((said.calls, "calls"), (said.tokens, "tokens"), (said.usd, "usd")):
        assert paid[spent] / 2 <= figure.typical <= 2 * paid[spent] <= 2 * figure.at_most
    assert "every answer is judged" in "; ".join(said.assumptions)


@pytest.mark.slow
def test_a_judge_of_pairs_is_asked_twice_and_its_unknown_price_is_unknown(tmp_path):
    rows = [{"id": f"i{n}", "prompt": f"Write {n}.", "reference": "A letter."} for n in range(20)]
    (tmp_path / "tasks.json").write_text(json.dumps(rows))
    models = [f"model.{role}=openai:m" for role in ("target", "optimizer")] + [
        f"model.{role}.api_key=k-1" for role in ROLES
    ]
    priced = [
        f"model.{role}.price.{kind}={price}" for role in ("target", "optimizer") for kind, price in PRICES
    ]
    given = [*models, "model.judge=openai:j", "env.name=own", "env.data_path=tasks.json", "env.scorer=judge"]

    def found(*more):
        return estimate(
            prepare(load(None, flags={}, options=[*given, *priced, *more], environ={}, cwd=tmp_path))
        )

    alone, pairs = found(), found("env.scorer_options={pairs: true}")
    assert [line.calls.typical for line in pairs.lines if line.role == "judge"] == [
        2 * line.calls.typical for line in alone.lines if line.role == "judge"
    ]
    assert alone.usd is None


@pytest.mark.slow
def test_inside_an_agent_every_turn_carries_what_the_agent_sends_itself(tmp_path):
    key = {f"model__{role}__api_key": "k-1" for role in ("target", "optimizer")}
    alone = estimate(job_of(tmp_path, model__target="anthropic:m", model__optimizer="openai:m", **key))
    inside = estimate(
        job_of(
            tmp_path,
            model__target="claude_code/anthropic:m",
            model__optimizer="openai:m",
            **key,
            budget="300k tokens",
        )
    )
    assert inside.tokens.typical > 10_000 * alone.lines[0].calls.typical
    assert "10,000 tokens of the agent's own" in "; ".join(inside.assumptions)


def test_a_rate_that_nobody_sets_for_whole_skills_costs_nothing(tmp_path):
    found = estimate(
        job_of(
            tmp_path,
            optimizer__skill_update_mode="full_rewrite_minibatch",
            optimizer__lr_control_mode="autonomous",
        )
    )
    assert not {line.stage for line in found.lines} & {"lr_autonomous", "ranking", "repair", "rewrite"}


@pytest.mark.slow
def test_a_budget_in_minutes_alone_is_not_blamed_on_a_price(tmp_path):
    assert "how long a call takes" in estimate(job_of(tmp_path, budget__minutes=5)).advice


@pytest.mark.slow
def test_a_budget_that_one_reservation_exceeds_is_said_to_pay_for_no_step(tmp_path):
    """An analyst by hand is told how long an answer may be: its whole output cap is set aside. Others make do
    with less, also for a rewrite.
    """
    small = {
        "optimizer__skill_update_mode": "rewrite_from_suggestions",
        "env__val_cases": 12,
        "env__test_cases": 4,
        "train__num_epochs": 1,
    }
    by_hand = {**small, "model__optimizer": "handoff", "budget": "50k tokens"}
    said = estimate(job_of(tmp_path, **by_hand)).advice
    assert "will not pay for a step" in said and "model.rewrite_max_completion_tokens" in said
    capped = estimate(job_of(tmp_path, **by_hand, model__rewrite_max_completion_tokens=4000))
    assert "should pay for" in capped.advice
    assert "the whole run" in estimate(job_of(tmp_path, **small, budget="50k tokens")).advice
    assert len(train(tmp_path / "run", **small, budget="50k tokens").json("history.json")) == 2
