"""Evaluating and comparing skills: what is paired, what is left out, what is paid, and what the
folder keeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider, Misbehaviour, world_answers
from claims.promises._runs import QUICK, make_job
from skillopt.benchmarks.own import OwnBenchmark
from skillopt.errors import ProviderDown
from skillopt.events import Row
from skillopt.models.stack.limited import Retry
from skillopt.run import Evaluated, Job, Versus, comparisons, evaluate
from skillopt.skill.document import Document
from skillopt.testing import WorldRules

SKILLS = {"good": Document("# Good\n"), "bad": Document("# Bad\n")}


def scores(skill: str, *tasks: tuple[float | None, ...], soft: float | None = None) -> Evaluated:
    """An evaluation with these hard scores, one tuple of draws a task; None is a lost row."""
    rows = [
        (
            Row(task=f"t{number:02d}", draw=draw, invalid="parse")
            if hard is None
            else Row(task=f"t{number:02d}", draw=draw, hard=hard, soft=hard if soft is None else soft)
        )
        for number, draws in enumerate(tasks)
        for draw, hard in enumerate(draws)
    ]
    return Evaluated(
        target="m",
        target_digest="m",
        skill=skill,
        digest=skill,
        split="val",
        repeats=len(tasks[0]),
        rows=tuple(rows),
    )


def only(before: Evaluated, after: Evaluated) -> Versus:
    [versus] = comparisons([after, before], before.skill, graded=False)
    return versus


def job_of(provider: LoopbackProvider, *more: str) -> Job:
    model = f"compatible:m@{provider.base_url}"
    sizes = ("env.train_cases=16", "env.val_cases=12", "env.test_cases=12")
    return make_job([f"model.target={model}", f"model.optimizer={model}", *sizes, *more])


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "eval_summary.json").read_text(encoding="utf-8"))
    return data


def losing(strikes: Callable[[Call], bool]) -> LoopbackProvider:
    """The simulated world with a provider that fails for some calls."""
    return LoopbackProvider(
        world_answers(), behave=lambda call: Misbehaviour.status(500) if strikes(call) else None
    )


def test_a_comparison_goes_from_the_other_skill_to_the_named_one() -> None:
    versus = only(
        scores("old", (0.0,), (0.0,), (1.0,), (1.0,)), scores("new", (1.0,), (1.0,), (0.0,), (1.0,))
    )
    assert (versus.skill, versus.against) == ("new", "old")
    assert versus.comparison is not None
    assert (versus.comparison.before, versus.comparison.after) == (0.5, 0.75)
    assert (versus.comparison.fixed, versus.comparison.broken) == (("t00", "t01"), ("t02",))


def test_the_task_is_the_unit_of_repeated_draws() -> None:
    versus = only(
        scores("old", (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)), scores("new", (1.0, 0.0), (1.0, 1.0), (1.0, 0.0))
    )
    assert versus.comparison is not None
    # one task moved; six independent rows would claim more
    assert (versus.comparison.n, versus.comparison.p) == (
        3,
        1.0,
    )
    assert versus.comparison.delta == pytest.approx(0.5 / 3)
    assert (versus.comparison.fixed, versus.comparison.broken) == (("t00",), ())


def test_a_pair_with_a_lost_arm_is_left_out_by_name_and_never_a_zero() -> None:
    old, new = [(1.0, 1.0)] * 10, [(1.0, 1.0)] * 10
    new[3] = (1.0, None)  # type: ignore[assignment]
    versus = only(scores("old", *old), scores("new", *new))
    assert versus.left_out == ("t03",)
    assert versus.comparison is not None
    assert (versus.comparison.n, versus.comparison.after, versus.comparison.broken) == (9, 1.0, ())


def test_with_more_than_a_tenth_lost_the_comparison_is_not_measured() -> None:
    old: list[tuple[float | None]] = [(1.0,)] * 10
    new = list(old)
    old[0], new[4] = (None,), (None,)
    versus = only(scores("old", *old), scores("new", *new))
    assert versus.comparison is None
    assert versus.left_out == ("t00", "t04")
    assert "2 of 10 val tasks could not be measured: t00, t04" in versus.why


@pytest.mark.parametrize(
    ("graded", "soft", "metrics"), [(False, 0.5, 1), (True, 1.0, 2), (None, 0.5, 2), (None, 1.0, 1)]
)
def test_soft_is_compared_where_the_scorer_gives_partial_credit(
    graded: bool | None, soft: float, metrics: int
) -> None:
    found = comparisons([scores("old", (1.0,)), scores("new", (1.0,), soft=soft)], "old", graded=graded)
    assert [one.metric for one in found] == ["hard", "soft"][:metrics]


async def test_repeats_are_draws_and_running_again_pays_nothing(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as provider:
        job = job_of(provider)
        first = await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", retry=QUICK)
        assert provider.calls == 2 * 12
        thrice = await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", repeats=3, retry=QUICK)
        assert provider.calls == 2 * 12 * 3  # draw 0 is shared
        assert {entry.draw for entry in provider.log} == {0, 1, 2}
        again = await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", repeats=3, retry=QUICK)
        assert provider.calls == 2 * 12 * 3
    assert thrice == again
    assert [(one.n, one.repeats, len(one.rows)) for one in thrice] == [(12, 3, 36)] * 2
    assert [row for row in thrice[0].rows if row.draw == 0] == list(first[0].rows)


async def test_another_evaluation_in_the_same_folder_adds_to_what_is_there(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as provider:
        job = job_of(provider)
        await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", repeats=2, retry=QUICK)
        before = lines(tmp_path)
        compared = summary(tmp_path)["comparisons"]
        assert [(one["skill"], one["against"], one["split"], one["comparison"]["n"]) for one in compared] == [
            ("good", "bad", "val", 12)
        ]
        await evaluate(job, {"third": Document("# Third\n")}, ["test"], tmp_path, retry=QUICK)
        assert lines(tmp_path)[: len(before)] == before
        assert [(row["skill"], row["split"]) for row in lines(tmp_path)[len(before) :]] == [
            ("third", "test")
        ] * 12
        assert summary(tmp_path)["comparisons"] == compared
        assert [one["skill"] for one in summary(tmp_path)["evaluations"]] == ["good", "bad", "third"]
        # the public fields are the last command's
        assert (summary(tmp_path)["skill"], summary(tmp_path)["n_items"]) == (
            "third",
            12,
        )
        # fewer draws than before
        await evaluate(job, {"good": SKILLS["good"]}, ["val"], tmp_path, retry=QUICK)
        assert len(lines(tmp_path)) == len(before) + 12
    assert {(one["skill"], one["repeats"]) for one in summary(tmp_path)["evaluations"]} == {
        ("good", 2),
        ("bad", 2),
        ("third", 1),
        ("good", 1),
    }


async def test_the_public_fields_are_one_skill_s_over_all_splits(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as provider:
        await evaluate(job_of(provider), SKILLS, ["val", "test"], tmp_path, against="bad", retry=QUICK)
    told, good = summary(tmp_path), [row for row in lines(tmp_path) if row["skill"] == "good"]
    assert (told["skill"], told["split"], told["n_items"]) == ("good", "all", 24)
    assert told["hard"] == sum(row["hard"] for row in good) / 24
    assert all(row["id"] in row["question"] and row["predicted_answer"] for row in good)


async def test_a_changed_text_under_the_same_name_is_another_skill(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as provider:
        for text in ("# One\n", "# Two\n"):
            await evaluate(job_of(provider), {"skill.md": Document(text)}, ["val"], tmp_path, retry=QUICK)
    assert len({(row["digest"], row["task"]) for row in lines(tmp_path)}) == len(lines(tmp_path)) == 24


async def test_equal_skills_are_paid_once_and_compare_as_equal(tmp_path: Path) -> None:
    twins = {"a": Document("# Same\n"), "b": Document("# Same\n")}
    async with LoopbackProvider(world_answers(WorldRules(noise=0.4))) as provider:
        job = job_of(provider)
        results = await evaluate(job, twins, ["val"], tmp_path, against="a", retry=QUICK)
        assert provider.calls == 12
    [versus] = comparisons(results, "a", graded=job.benchmark.graded)
    assert versus.comparison is not None
    assert (versus.comparison.delta, versus.comparison.test) == (0.0, "no task changed")
    assert [one["skill"] for one in summary(tmp_path)["evaluations"]] == ["a", "b"]


async def test_a_row_lost_to_the_provider_leaves_its_pair_out_and_is_asked_again_later(
    tmp_path: Path,
) -> None:
    ill = [True]
    async with losing(lambda call: ill[0] and "# Bad" in call.text and "W003005" in call.text) as provider:
        job = job_of(provider)
        results = await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", retry=Retry(attempts=1))
        [versus] = summary(tmp_path)["comparisons"]
        assert (versus["left_out"], versus["comparison"]["n"]) == (["W003005"], 11)
        assert [(one.n, one.invalid) for one in results] == [(12, 0), (11, 1)]
        ill[0] = False
        calls = provider.calls
        await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", retry=QUICK)
        assert provider.calls == calls + 1
    [versus] = summary(tmp_path)["comparisons"]
    assert (versus["left_out"], versus["comparison"]["n"]) == ([], 12)
    assert not [row for row in lines(tmp_path) if "invalid" in row]


async def test_an_outage_takes_nothing_from_the_folder_and_names_what_is_missing(tmp_path: Path) -> None:
    ill = [False]
    async with losing(lambda call: ill[0]) as provider:
        job = job_of(provider)
        await evaluate(job, {"good": SKILLS["good"]}, ["val"], tmp_path, retry=QUICK)
        before = (lines(tmp_path), summary(tmp_path))
        ill[0] = True
        with pytest.raises(ProviderDown):
            await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", retry=Retry(attempts=1))
        assert (lines(tmp_path), summary(tmp_path)["evaluations"]) == (before[0], before[1]["evaluations"])
        [missing] = summary(tmp_path)["missing"]
        assert (missing["skill"], missing["split"]) == ("bad", "val")
        assert "HTTP 500" in missing["why"]
        # the public figures of one evaluation are not those of half a command
        assert "n_items" not in summary(tmp_path)
        ill[0] = False
        await evaluate(job, SKILLS, ["val"], tmp_path, against="bad", retry=QUICK)
    assert summary(tmp_path)["missing"] == []


async def test_a_graded_scorer_is_compared_on_soft_too(tmp_path: Path) -> None:
    def share(task: object, answer: str) -> float:
        return 0.75 if "more" in answer else 0.25

    rows = [{"question": f"What is {number}?", "answer": "-"} for number in range(30)]
    benchmark = OwnBenchmark.from_tasks(rows, scorer=share)
    skills = {"long": Document("Say more.\n"), "short": Document("Be brief.\n")}
    async with LoopbackProvider(lambda call: "more" if "Say more." in call.text else "less") as provider:
        model = f"compatible:m@{provider.base_url}"
        job = make_job(
            ["env.name=own", f"model.target={model}", f"model.optimizer={model}"], benchmark=benchmark
        )
        await evaluate(job, skills, ["train"], tmp_path, against="short", retry=QUICK)
    hard, soft = summary(tmp_path)["comparisons"]
    assert (hard["metric"], hard["comparison"]["delta"]) == ("hard", 0.0)
    assert (soft["metric"], soft["comparison"]["delta"], soft["comparison"]["broken"]) == ("soft", 0.5, [])
    assert soft["comparison"]["p"] < 0.01
