"""Several targets at once: one folder and budget for all, rows kept apart, and an outage that stays where it
is.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider, Misbehaviour, world_answers
from claims.promises._runs import QUICK, make_job
from skillopt import run as api
from skillopt.errors import BudgetSpent, ConfigError, ProviderDown
from skillopt.models.stack.limited import Retry
from skillopt.run import Job, Matrix, Target
from skillopt.skill.document import Document
from skillopt.testing import WorldRules

SKILLS = {"good": Document("# Good\n"), "bad": Document("# Bad\n")}
ONCE = Retry(attempts=1)


def job_of(name: str, provider: LoopbackProvider, *more: str) -> Job:
    model = f"compatible:{name}@{provider.base_url}"
    sizes = ("env.train_cases=16", "env.val_cases=12", "env.test_cases=12")
    return make_job([f"model.target={model}", f"model.optimizer={model}", *sizes, *more])


def both(one: LoopbackProvider, other: LoopbackProvider, *more: str) -> tuple[Job, list[Target]]:
    """A job that measures with model a of one provider and model b of the other."""
    jobs = [job_of("a", one, *more), job_of("b", other, *more)]
    return jobs[0], [Target.of(job.config) for job in jobs]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "eval_summary.json").read_text(encoding="utf-8"))
    return data


def cells(matrix: Matrix) -> list[tuple[str, str, int, int]]:
    return [(one.target, one.skill, one.n, one.invalid) for one in matrix.evaluations]


def down(status: int = 500) -> LoopbackProvider:
    return LoopbackProvider(world_answers(), behave=lambda call: Misbehaviour.status(status))


async def test_every_skill_is_measured_with_every_target_and_rows_are_kept_apart(tmp_path: Path) -> None:
    async with (
        LoopbackProvider(world_answers()) as one,
        LoopbackProvider(world_answers(WorldRules(noise=0.5))) as other,
    ):
        job, targets = both(one, other)
        found = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, against="bad", retry=QUICK)
        assert (one.calls, other.calls) == (24, 24)
    names = ["compatible:a", "compatible:b"]
    assert cells(found) == [(target, skill, 12, 0) for target in names for skill in SKILLS]
    assert found.evaluations[0].hard != found.evaluations[2].hard
    assert (
        len({(row["target"], row["skill"], row["task"]) for row in lines(tmp_path)})
        == len(lines(tmp_path))
        == 48
    )
    assert [(entry["target"], entry["skill"]) for entry in summary(tmp_path)["evaluations"]] == [
        (t, s) for t in names for s in SKILLS
    ]
    assert [
        (entry["target"], entry["skill"], entry["against"]) for entry in summary(tmp_path)["comparisons"]
    ] == [(name, "good", "bad") for name in names]


async def test_running_again_and_adding_a_target_pays_for_what_is_new(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as one, LoopbackProvider(world_answers()) as other:
        job, targets = both(one, other)
        await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets[:1], retry=QUICK)
        assert (one.calls, other.calls) == (24, 0)
        first = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=QUICK)
        assert (one.calls, other.calls) == (24, 24)
        assert await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=QUICK) == first
        assert (one.calls, other.calls) == (24, 24)


async def test_equal_texts_are_rolled_out_once_for_each_target(tmp_path: Path) -> None:
    twins = {"a.md": Document("# Same\n"), "b.md": Document("# Same\n")}
    async with (
        LoopbackProvider(world_answers(), latency=lambda call: 0.01) as one,
        LoopbackProvider(world_answers()) as other,
    ):
        job, targets = both(one, other)
        arrived: list[str] = []
        found = await api.matrix(
            job,
            twins,
            ["val"],
            tmp_path,
            targets=targets,
            sinks=[lambda event: arrived.append(event.type)],
            retry=QUICK,
        )
        assert (one.calls, other.calls) == (12, 12)
    assert arrived.count("arrived") == 24
    assert [one.skill for one in found.evaluations] == ["a.md", "b.md"] * 2
    assert found.evaluations[0].rows == found.evaluations[1].rows


@pytest.mark.parametrize(("unit", "limit"), [("calls", 20), ("tokens", 1000)])
async def test_the_budget_holds_over_all_targets_together(tmp_path: Path, unit: str, limit: int) -> None:
    settings = ("model.target.max_tokens=200", "env.workers=4")
    async with LoopbackProvider(world_answers()) as one, LoopbackProvider(world_answers()) as other:
        job, targets = both(one, other, *settings, f"budget.{unit}={limit}")
        found = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=QUICK)
        assert isinstance(found.stopped, BudgetSpent)
        assert (cells(found)[0], len(found.evaluations) + len(found.missing)) == (
            ("compatible:a", "good", 12, 0),
            4,
        )
        spending = summary(tmp_path)["spending"]
        assert spending[unit] <= limit
        assert spending["calls"] == one.calls + other.calls < 48
        job, targets = both(one, other, *settings)
        whole = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=QUICK)
        assert whole.stopped is None
        assert one.calls + other.calls == 48  # what the small budget paid is not paid again


@pytest.mark.parametrize(("status", "told"), [(500, "HTTP 500"), (401, "refuses the login")])
async def test_one_target_s_outage_costs_the_others_nothing(tmp_path: Path, status: int, told: str) -> None:
    async with down(status) as ill, LoopbackProvider(world_answers(), latency=lambda call: 0.02) as well:
        job, targets = both(ill, well, "env.workers=4")
        found = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, against="bad", retry=ONCE)
        assert well.calls == 24
    assert cells(found) == [("compatible:b", skill, 12, 0) for skill in SKILLS]
    assert [(one.target, one.skill) for one in found.missing] == [("compatible:a", skill) for skill in SKILLS]
    assert all(told in one.why for one in found.missing)
    assert isinstance(found.stopped, ProviderDown)
    assert str(found.stopped).startswith("compatible:a: ")
    with pytest.raises(ProviderDown):
        found.whole()
    assert {row["target"] for row in lines(tmp_path)} == {"compatible:b"}
    assert [one["target"] for one in summary(tmp_path)["missing"]] == ["compatible:a"] * 2
    assert [one["target"] for one in summary(tmp_path)["comparisons"]] == ["compatible:b"]


async def test_what_an_outage_left_open_is_all_that_is_asked_for_later(tmp_path: Path) -> None:
    ill = [True]

    def behave(call: Call) -> Misbehaviour | None:
        return Misbehaviour.status(500) if ill[0] and "# Bad" in call.text else None

    async with (
        LoopbackProvider(world_answers(), behave=behave) as one,
        LoopbackProvider(world_answers()) as other,
    ):
        job, targets = both(one, other)
        first = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=ONCE)
        assert ("compatible:b", "bad", 12, 0) in cells(first)
        assert [(one.target, one.skill) for one in first.missing][-1] == ("compatible:a", "bad")
        ill[0] = False
        calls, healthy = one.calls, other.calls
        again = await api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=QUICK)
        assert (again.stopped, again.missing) == (None, ())
        assert other.calls == healthy
        assert one.calls - calls <= 24 - sum(cell[0] == "compatible:a" for cell in cells(first)) * 12
    assert summary(tmp_path)["missing"] == []


async def test_a_cell_that_was_complete_when_somebody_stopped_it_is_kept(tmp_path: Path) -> None:
    async with (
        LoopbackProvider(world_answers()) as quick,
        LoopbackProvider(world_answers(), latency=lambda call: 3) as slow,
    ):
        job, targets = both(quick, slow, "env.workers=60")
        work = asyncio.ensure_future(api.matrix(job, SKILLS, ["val"], tmp_path, targets=targets, retry=ONCE))
        for _ in range(100):
            if quick.calls == 24:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # the last answers are under way
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert quick.calls == 24
    assert {row["target"] for row in lines(tmp_path)} == {"compatible:a"}
    assert {one["why"] for one in summary(tmp_path)["missing"]} == {"Interrupted."}


async def test_the_same_model_at_another_endpoint_is_another_target(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as one, LoopbackProvider(lambda call: "unknown") as other:
        targets = [Target.of(job_of("a", provider).config) for provider in (one, other)]
        found = await api.matrix(job_of("a", one), SKILLS, ["val"], tmp_path, targets=targets, retry=QUICK)
        assert one.calls == other.calls == 24
        names = [f"compatible:a@{provider.base_url}" for provider in (one, other)]
        assert [cell[:2] for cell in cells(found)] == [(name, skill) for name in names for skill in SKILLS]
        assert found.evaluations[0].hard > found.evaluations[2].hard == 0
        with pytest.raises(ConfigError, match="compatible:a is named more than once"):
            await api.matrix(job_of("a", one), SKILLS, ["val"], tmp_path, targets=targets[:1] * 2)


async def test_the_same_model_with_other_sampling_keeps_rows_of_its_own(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as provider:
        for more in ((), ("model.target.temperature=0.7",)):
            await api.evaluate(
                job_of("a", provider, *more), {"good": SKILLS["good"]}, ["val"], tmp_path, retry=QUICK
            )
        assert provider.calls == 24
    assert len({(row["target_digest"], row["task"]) for row in lines(tmp_path)}) == len(lines(tmp_path)) == 24
    assert len(summary(tmp_path)["evaluations"]) == 2
