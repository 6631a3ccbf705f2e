"""A run that is scored by a judge: what it costs is told apart, paid once, set aside for the test, and its
failure is never a zero.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from cli._commands import run as command
from skillopt import run as api
from skillopt.config.load import load
from skillopt.errors import ConfigError, ProviderDown
from skillopt.events import Checkpoint, Event
from skillopt.models.stack.limited import Retry
from skillopt.run import open_run, prepare
from skillopt.runs.database import Database
from skillopt.skill.document import Document

POLITE = "Begin with a greeting."
QUICK = Retry(attempts=2, seconds=2.0, first_delay=0.01, longest_delay=0.02)


def rows(count: int = 24) -> list[dict[str, Any]]:
    return [
        {
            "id": f"i{n}",
            "prompt": f"Write to customer {n}.",
            "rubric": ["Greets the customer", "Names the customer"],
        }
        for n in range(count)
    ]


def says(call: Call) -> str:
    """A target that greets once the skill says so, an analyst that finds that out, and a judge that reads the
    answer.
    """
    place = call.place or ""
    if place.startswith("rollout/"):
        number = call.text.rpartition("customer ")[2].rstrip(".")
        return f"{'Good morning! ' if POLITE in call.text else ''}Dear customer {number}"
    if place.startswith("judge/"):
        work = call.text.partition("<work>\n")[2].partition("\n</work>")[0]
        greets = "Good morning" in work
        found = [("Good morning" if greets else "", greets), ("Dear customer", True)]
        return json.dumps(
            {
                "findings": [
                    {"criterion": n, "evidence": e, "met": met} for n, (e, met) in enumerate(found, start=1)
                ]
            }
        )
    return json.dumps(
        {"batch_size": 4, "patch": {"reasoning": "r", "edits": [{"op": "append", "content": POLITE}]}}
    )


def options(url: str, *more: str) -> list[str]:
    models = [f"model.target=compatible:t@{url}", f"model.optimizer=compatible:o@{url}"]
    return [
        *models,
        "env.name=own",
        "env.data_path=tasks.jsonl",
        "env.scorer=judge",
        "train.folds=1",
        "train.num_epochs=1",
        "train.batch_size=10",
        *more,
    ]


async def train(folder: Path, url: str, *more: str, name: str = "run") -> tuple[api.Result, list[Event]]:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    events: list[Event] = []
    job = prepare(load(None, flags={}, options=options(url, *more), environ={}, cwd=folder))
    async with open_run(job, folder / name, sinks=[events.append], retry=QUICK) as opened:
        return await api.train(opened), events


def judge_calls(provider: LoopbackProvider) -> list[Any]:
    return [one for one in provider.log if (one.place or "").startswith("judge/")]


async def test_the_skill_is_trained_on_what_the_judge_says_and_the_judge_is_paid_under_its_own_role(
    tmp_path: Path,
) -> None:
    async with LoopbackProvider(says) as provider:
        result, _ = await train(tmp_path, provider.base_url)
        paid = judge_calls(provider)
    assert POLITE in result.best_skill
    assert result.summary["baseline_test_hard"] == 0 and result.summary["test_hard"] == 1
    entries = [
        entry for entry in Database.reading(tmp_path / "run" / "run.db").entries() if entry.role == "judge"
    ]
    assert len(entries) == len(paid)
    assert {entry.stage for entry in entries} == {"rollout", "proof", "selection", "test"}


@pytest.mark.slow
async def test_no_judgement_is_paid_twice(tmp_path: Path) -> None:
    async with LoopbackProvider(says) as provider:
        await train(tmp_path, provider.base_url)
        asked = judge_calls(provider)
        assert len({one.digest for one in asked}) == len(asked)  # equal answers were asked about once
        (tmp_path / "run" / "events.jsonl").unlink()  # all is decided anew, from what the database holds
        await train(tmp_path, provider.base_url)
        assert len(judge_calls(provider)) == len(asked)


@pytest.mark.slow
async def test_another_judge_is_another_score_and_pays_no_rollout_again(tmp_path: Path) -> None:
    async with LoopbackProvider(says) as provider:
        url = provider.base_url
        await train(tmp_path, url, f"model.judge=compatible:j1@{url}", "cache.path=shared.db")
        before, judged = len(provider.log), len(judge_calls(provider))
        await train(
            tmp_path,
            url,
            f"model.judge=compatible:j1@{url}",
            "cache.path=shared.db",
            "train.seed=7",
            name="same-judge",
        )
        assert not [
            one for one in provider.log[before:] if (one.place or "").startswith(("judge/", "rollout/"))
        ]
        before = len(provider.log)
        await train(
            tmp_path, url, f"model.judge=compatible:j2@{url}", "cache.path=shared.db", name="another-judge"
        )
        later = provider.log[before:]
    assert len([one for one in later if (one.place or "").startswith("judge/")]) == judged > 0
    assert not [one for one in later if (one.place or "").startswith("rollout/")]


async def test_a_judge_that_talks_nonsense_stops_the_run_and_makes_no_zero(tmp_path: Path) -> None:
    def nonsense(call: Call) -> str:
        return "Looks good!" if (call.place or "").startswith("judge/") else says(call)

    async with LoopbackProvider(nonsense) as provider:
        with pytest.raises(ProviderDown, match="judge: the judge's replies about task"):
            await train(tmp_path, provider.base_url)


async def test_an_outage_of_the_judge_costs_rows_and_never_a_score(tmp_path: Path) -> None:
    def down(call: Call) -> Misbehaviour | None:
        is_one = (call.place or "").startswith("judge/") and "customer 3." in call.text
        return Misbehaviour(status=503) if is_one else None

    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    async with LoopbackProvider(says, behave=down) as provider:
        job = prepare(load(None, flags={}, options=options(provider.base_url), environ={}, cwd=tmp_path))
        (train_split,) = await api.evaluate(
            job, {"seed": Document("Nothing.")}, ["train"], tmp_path / "eval", retry=QUICK
        )
        (val_split,) = await api.evaluate(
            job, {"seed": Document("Nothing.")}, ["val"], tmp_path / "eval", retry=QUICK
        )
    invalid = [row for one in (train_split, val_split) for row in one.rows if row.invalid is not None]
    scored = [row for one in (train_split, val_split) for row in one.rows if row.invalid is None]
    assert {(row.task, row.invalid, row.hard) for row in invalid} <= {("i3", "judge", None)}
    assert {(row.hard, row.soft) for row in scored} == {(0.0, 0.5)}


@pytest.mark.slow
async def test_what_judging_the_test_will_cost_is_set_aside(tmp_path: Path) -> None:
    def big(call: Call) -> Answer:
        is_judge = (call.place or "").startswith("judge/")
        return Answer(text=says(call), input_tokens=1_000 if is_judge else 100, output_tokens=10)

    async with LoopbackProvider(big) as provider:
        _, events = await train(tmp_path, provider.base_url)
    state = next(
        event.state for event in events if isinstance(event, Checkpoint) and event.kind == "baseline"
    )
    # Seed and best on 5 test tasks each: 10 x 110 tokens for the target and 10 x 1,010 for the judge, 30 % on
    # top, and one reservation.
    assert state.set_aside.calls == 13 + 1 + 13
    assert state.set_aside.tokens == 1_430 + 13_130 + (130 + 1_024)


def test_eval_is_judged_by_the_optimizer_and_never_by_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    (tmp_path / "skill.md").write_text(POLITE)
    asked: list[tuple[str, str]] = []

    def answer(call: Call) -> str:
        asked.append(((call.place or "").partition("/")[0], str(call.body["model"])))
        return says(call)

    with LoopbackProvider.in_thread(answer) as provider:
        settings = options(provider.base_url)
        measure = ("eval", "--skill", "skill.md", "--split", "val", "--json", "--quiet")
        ran = command(*measure, "--cfg-options", *settings)
        named = command(
            *measure,
            "--out_root",
            "two",
            "--judge",
            f"compatible:j@{provider.base_url}",
            "--cfg-options",
            *settings,
        )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["evaluations"][0]["hard"] == 1
    assert named.code == 0, named.err
    assert set(asked) == {("rollout", "t"), ("judge", "o"), ("judge", "j")}


async def test_a_dollar_budget_needs_the_judges_price(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    prices = [
        f"model.{role}.price.{part}=1.0" for role in ("target", "optimizer") for part in ("input", "output")
    ]
    given = options(
        "http://127.0.0.1:9/v1", *prices, "budget=$1", "model.judge=compatible:j@http://127.0.0.1:9/v1"
    )
    job = prepare(load(None, flags={}, options=given, environ={}, cwd=tmp_path))
    with pytest.raises(ConfigError, match="price for the judge 'j'"):
        async with open_run(job, tmp_path / "run"):
            pass


def test_the_simulated_world_cannot_judge_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    given = ["env.name=own", "env.data_path=tasks.jsonl", "env.scorer=judge", "model.target=world"]
    with pytest.raises(ConfigError, match="the simulated world judges none"):
        prepare(load(None, flags={}, options=given, environ={}, cwd=tmp_path))
