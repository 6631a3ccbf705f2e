"""Few tasks: every one teaches, every one judges, and none judges a skill that saw it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import skillopt
from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.errors import BudgetSpent, ConfigError, UsageError
from skillopt.evaluation.compare import compare
from skillopt.events import Event, Notice, Row, Spending, TestMeasured
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.money import Amount, Budget
from skillopt.run.crossfit import middle_rows
from skillopt.runs.database import Database
from skillopt.runs.explain import find
from skillopt.runs.reader import find_run, is_part, read_run, read_view
from skillopt.runs.tasks import growth
from skillopt.tasks.splits import FOLDS, divided, in_folds, in_rounds, rounds_for
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel


def rows(count: int) -> list[dict[str, str]]:
    ids = [f"W{number:06d}" for number in range(count)]
    return [
        {"id": id, "prompt": f"Case {id}, about {family_of(id)}. What is its code?", "answer": code_of(id)}
        for id in ids
    ]


def fit(folder: Path, count: int = 20, **more: Any) -> skillopt.Result:
    return asyncio.run(afit(folder, count, **more))


async def afit(folder: Path, count: int = 20, **more: Any) -> skillopt.Result:
    skill = folder / "SKILL.md"
    folder.mkdir(parents=True, exist_ok=True)
    skill.write_text(SEED_SKILL, encoding="utf-8")
    options = {"train.strategy": "proof", "train.num_epochs": 2, "env.workers": 4} | more.pop("options", {})
    return await skillopt.aoptimize(
        skill=skill,
        tasks=rows(count),
        scorer="exact_match",
        target="world:noise=0",
        optimizer="world:noise=0",
        out=folder / "run",
        options=options,
        **more,
    )


def tasks(count: int) -> list[Task]:
    return [Task(id=str(number), prompt=f"case {number}") for number in range(count)]


def test_each_task_judges_one_fold_and_teaches_the_others() -> None:
    folds = in_folds(tasks(23), 5, 6)
    judged = [task.id for rounds in folds for task in rounds[-1].test]
    assert sorted(judged) == sorted(task.id for task in tasks(23))
    for rounds in folds:
        assert all(not one.test for one in rounds[:-1])
        for one in rounds:
            assert len(one.train) + len(one.val) + len(rounds[-1].test) == 23
            assert {task.id for task in one.val}.isdisjoint(task.id for task in one.train)
        vals = [{task.id for task in one.val} for one in rounds]
        once = vals[: len(vals) // 2]
        assert len(set().union(*once)) == sum(map(len, once)) == 23 - len(rounds[-1].test), "each is val once"
        assert all(len(first & again) < len(first) / 2 for first in once for again in vals[len(once) :])


@pytest.mark.parametrize("total", range(10, 60, 7))
def test_every_fold_has_its_rounds_and_its_test(total: int) -> None:
    folds = in_folds(tasks(total), FOLDS, rounds_for(total))
    assert {len(rounds) for rounds in folds} == {rounds_for(total)}
    assert sum(len(rounds[-1].test) for rounds in folds) == total


def test_equal_questions_stay_in_one_part() -> None:
    twins = [Task(id=f"t{number}", prompt="the same") for number in range(3)]
    parts = divided([*tasks(9), *twins], 4)
    assert [sum(task in part for task in twins) for part in parts].count(0) == 3
    assert all(one.val for one in in_rounds([*tasks(9), *twins], 2))


@pytest.mark.parametrize(("total", "rounds"), [(10, 4), (20, 6), (25, 4), (30, 4), (40, 3), (59, 2)])
def test_few_tasks_are_trained_in_more_rounds(total: int, rounds: int) -> None:
    assert rounds_for(total) == rounds


FORM = "Answer with the label only."


def wordy(task: Task, skill: str) -> str:
    """Knows every label, and says it alone only where the skill wants that, or for one task."""
    label = task.prompt.split()[-1]
    return label if FORM in skill or task.id == "0" else f"I think that it belongs to {label}, thank you."


def silent(task: Task, skill: str) -> str:
    """Says nothing where the skill has not the form, but for one task."""
    return wordy(task, skill) if FORM in skill or task.id == "0" else ""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "passing"), [(wordy, 1), (wordy, 0), (silent, 1)])
def test_a_seed_of_the_wrong_form_ends_no_run(
    target: Callable[[Task, str], str], passing: int, tmp_path: Path
) -> None:
    """With one task that passes, of most val splits none does; with none, that is said once."""
    (tmp_path / "SKILL.md").write_text("# Mails\n\nAnswer politely and explain.\n", encoding="utf-8")
    ids = range(1 - passing, 11 - passing)
    edit = {"op": "append", "content": f"- {FORM}", "tasks": [str(n) for n in ids]}
    heard: list[Event] = []
    result = skillopt.optimize(
        skill=tmp_path / "SKILL.md",
        tasks=[{"id": str(n), "prompt": f"Mail {n} about {n % 5}", "answer": str(n % 5)} for n in ids],
        scorer="exact_match",
        target=target,
        optimizer=FunctionModel(lambda asked: json.dumps({"edits": [edit], "same": []})),
        options={"train.num_epochs": 1, "train.folds": 2, "evaluation.repeats": 1},
        on_event=heard.append,
        out=tmp_path / "run",
    )
    assert result.status == "finished" and FORM in result.best_skill
    assert result.test is not None and result.test.before == passing / 10 and result.test.after == 1.0
    warned = [one.text for one in heard if isinstance(one, Notice) and one.level == "warning"]
    assert len(warned) == 1 - passing
    assert all("10 of 10 failing answers contain the reference" in one for one in warned)


@pytest.mark.slow
def test_twenty_tasks_give_a_claim_over_all_twenty(tmp_path: Path) -> None:
    heard: list[Event] = []
    result = fit(tmp_path, on_event=heard.append)
    assert result.test is not None and result.test.n == 20
    assert result.test.level == 90 and "one-sided" in result.test.test
    assert "Skills trained this way are better than the seed on 20 cross-fitted tasks" in result.claim
    assert "trained on all tasks" in result.claim and result.claim.startswith("Simulated: ")
    assert "by the middle one of 5 scores" in result.claim
    (look,) = [one for one in heard if isinstance(one, TestMeasured)]
    assert (
        look.folds == FOLDS and len({row.task for row in look.rows["best"]}) == len(look.rows["best"]) == 20
    )
    plan = next(one.text for one in heard if isinstance(one, Notice))
    assert "20 tasks are few" in plan and "0.26 is shown with 80 % chance" in plan and "0.18" in plan

    # The ledger of the whole holds what every part paid, and the parts hold nothing of their own.
    main = Database.reading(result.folder / "run.db")
    places = [entry.place for entry in main.entries()]
    assert {place.split("/")[0] for place in places} >= {"rounds", "folds"}
    assert result.summary["spending"]["calls"] == len(places)
    assert read_view(result.folder).spent.calls == len(places)
    assert is_part(result.folder / "folds" / "1") and not is_part(result.folder)
    assert find_run(tmp_path) == result.folder

    with pytest.raises(UsageError, match=r"its rounds are runs too, such as .*rounds/1"):
        find(read_run(result.folder), "99")

    # The seed's rows are the seed's, and what earlier rounds wrote is the first change of the skill.
    facts = read_view(result.folder)
    grown = growth(facts)
    assert [grown.moments[k].name for k in (0, 1)] == ["the seed skill", "the start"]
    for k in (0, 1):
        passing = sum(grown.mark(task, k) == "pass" for task in facts.tasks)
        assert passing == pytest.approx((grown.moments[k].score or 0.0) * len(facts.tasks))
    alive = [line.text for line in grown.lines if line.first <= 1 and (line.gone is None or line.gone > 1)]
    assert "\n".join(alive).strip() == facts.best_skill.strip() and facts.best_origin == "the start"

    # A fold's test tasks never taught it.
    for number in range(1, FOLDS + 1):
        fold = result.folder / "folds" / str(number)
        sealed = {row["task"] for row in _look(fold)["rows"]["best"]}
        for log in fold.rglob("events.jsonl"):
            seen = {
                row["task"]
                for line in log.read_text(encoding="utf-8").splitlines()
                if (event := json.loads(line))["type"] == "stage_closed"
                for row in event["rows"]
            }
            assert seen and seen.isdisjoint(sealed)

    # The same command again pays nothing.
    again = fit(tmp_path)
    assert again.claim == result.claim and again.best_skill == result.best_skill
    assert again.summary["spending"]["calls"] == len(places)


def _look(folder: Path) -> dict[str, Any]:
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return next(event for line in lines if (event := json.loads(line))["type"] == "test_measured")


async def stopped_after(calls: float, folder: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Spending) and event.calls >= calls:
            work.cancel()

    work = asyncio.ensure_future(afit(folder, 12, on_event=stop))
    with pytest.raises(asyncio.CancelledError):
        await work


@pytest.mark.slow
async def test_a_stopped_cross_fitting_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole = await afit(tmp_path / "whole", 12)
    spent = whole.summary["spending"]["calls"]
    for share in (0.2, 0.7):
        await stopped_after(share * spent, tmp_path / "stopped")
    again = await afit(tmp_path / "stopped", 12)
    assert (again.best_skill, again.claim) == (whole.best_skill, whole.claim)
    assert spent <= again.summary["spending"]["calls"] <= spent + 8, "at most the calls in flight, twice"


@pytest.mark.slow
async def test_a_budget_that_ends_a_cross_fitting_can_be_raised(tmp_path: Path) -> None:
    halfway = await afit(tmp_path, 12, budget="100 calls")
    assert halfway.status == "budget" and halfway.test is None
    assert "the budget does not pay for the rest of it" in halfway.claim
    rest = await afit(tmp_path, 12, budget="2000 calls")
    assert rest.status == "finished" and rest.test is not None and rest.test.n == 12


@pytest.mark.slow
def test_a_shared_budget_is_never_exceeded(tmp_path: Path) -> None:
    for calls in (30, 90, 250):
        try:
            result = fit(tmp_path / str(calls), 12, budget=f"{calls} calls")
        except BudgetSpent:
            paid = Database.reading(tmp_path / str(calls) / "run" / "run.db").entries()
            assert sum(entry.charged.calls for entry in paid) <= calls
        else:
            assert result.summary["spending"]["calls"] <= calls


def test_one_split_stays_a_choice(tmp_path: Path) -> None:
    result = fit(tmp_path, options={"train.folds": 1, "train.num_epochs": 1})
    assert result.test is not None and result.test.n == 4 and result.test.level == 95
    assert not (result.folder / "folds").exists()


@pytest.mark.parametrize(
    ("settings", "undivided"),
    [({}, True), ({"split_ratio": "1:1:1"}, False), ({"limit": 3}, False), ({"split_seed": 7}, True)],
)
def test_only_what_nobody_divided_is_cross_fitted(settings: dict[str, Any], undivided: bool) -> None:
    assert OwnBenchmark.from_tasks(rows(20), settings=OwnSettings(**settings)).undivided is undivided
    by_split = {"train": rows(20)[:8], "val": rows(20)[8:16], "test": rows(20)[16:]}
    assert not OwnBenchmark.from_tasks(by_split).undivided


def test_folds_of_tasks_that_are_divided_already_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="divide it already"):
        fit(tmp_path, options={"train.folds": 3, "env.split_ratio": "1:1:1"})
    with pytest.raises(ConfigError, match="too many for 6 tasks"):
        fit(tmp_path, 6, options={"train.folds": 4})


def test_a_share_of_a_budget_is_a_part_of_what_is_left() -> None:
    budget = Budget(calls=100, usd=Fraction(2), seconds=600)
    share = budget.share(Amount(calls=40, usd=Fraction(1)), Fraction(1, 3), elapsed=300)
    assert share == Budget(calls=20, usd=Fraction(1, 3), seconds=400)
    assert not Budget().share(Amount(), Fraction(1, 2)).is_limited


def test_interval_and_p_never_contradict_each_other() -> None:
    for fixed in range(9):
        for broken in range(9):
            ids = [str(number) for number in range(20)]
            before = {id: float(number < broken) for number, id in enumerate(ids)}
            after = {id: float(broken <= number < broken + fixed) for number, id in enumerate(ids)}
            for one_sided in (True, False):
                found = compare(before, after, one_sided=one_sided)
                low, high = found.interval
                assert low <= found.delta <= high or found.delta == 0
                assert (low < 0 < high or low == 0 == high or 0 in (low, high)) or found.p < 0.05
                if found.p < 0.05:
                    assert low >= 0 or high <= 0
                else:
                    assert low <= 0 <= high


def test_of_several_draws_of_a_task_the_middle_one_counts() -> None:
    def row(task: str, hard: float | None, draw: int) -> Row:
        return Row(task=task, draw=draw, hard=hard, soft=hard, invalid=None if hard is not None else "outage")

    def drawn(task: str, *hard: float | None) -> list[Row]:
        return [row(task, one, draw) for draw, one in enumerate(hard)]

    rows = [
        *drawn("most", 0, 1, 1),
        *drawn("few", 1, 0, 0),
        *drawn("lost", None, 1, None),
        *drawn("tie", 1, 0),
    ]
    graded = drawn("graded", 0.9, 0.1, 0.4)
    found = middle_rows([*rows, *graded, *drawn("none", None, None)])
    assert {one.task: one.hard for one in found} == {
        "most": 1,
        "few": 0,
        "lost": 1,
        "tie": 0,
        "graded": 0.4,
        "none": None,
    }
