"""The sealed test: what is compared, what is left out, what is claimed."""

from __future__ import annotations

import asyncio
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import pytest

from gate._tables import Memory
from skillopt.errors import Fault
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.events import Event, StageOpened
from skillopt.events.state import TestShare
from skillopt.messages import Usage
from skillopt.money import Amount, Budget, Entry, Ledger
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Score, Scored, Trajectory
from skillopt.tasks.task import Task
from skillopt.train.claim import claim
from skillopt.train.sealed_test import SealedTest
from steps import step_at

SEED, BEST = Document("seed\n"), Document("best\n")


class Journal:
    """A ledger's journal that forgets."""

    def open(self, role, stage, place, reserved):
        return 1

    def close(self, entry, state, charged, usage):
        pass

    def entries(self):
        return ()

    def keep_time(self, seconds):
        pass


class Table:
    """Model, harness and benchmark in one: (skill, task) to a score, None for an invalid row."""

    name = version = endpoint = "table"
    fingerprint = {"provider": "table"}
    prompts = {"rollout": "{skill}"}
    scorer_version = "1"

    def __init__(self, cells):
        self.cells = cells
        self.runs = Counter()

    def open(self, task):
        return None

    async def run(self, task, environment, skill, prompts, session):
        self.runs[skill.strip(), task.id] += 1
        cell = self.cells[skill.strip(), task.id]
        if cell is None:
            raise Fault("parse", "lost by plan")
        return Trajectory(messages=(), answer=f"{cell[0]} {cell[1]}", calls=1, usage=None)

    async def score(self, task, trajectory):
        hard, soft = map(float, trajectory.answer.split())
        return Score(hard=hard, soft=soft)


def exam(cells, metric="hard", budget=None, **changes):
    table = Table(cells)
    events: list[Event] = []
    tasks = [Task(id=name, prompt=f"question {name}") for name in sorted({task for _, task in cells})]
    evaluator = Evaluator(
        harness=table,
        model=table,
        benchmark=table,
        rollouts=Memory(),
        workers=4,
        max_tokens=50,
    )
    ledger = Ledger(budget or Budget(), Journal())
    return (
        SealedTest(
            evaluator,
            rows_of(tasks),
            ledger,
            SimpleNamespace(metric=metric, weight=0.5),
            price=None,
            max_tokens=50,
            least_cap=50,
            **changes,
        ),
        table,
        events,
    )


def cells(seed, best):
    return {
        (skill, f"t{n:02d}"): cell
        for skill, row in (("seed", seed), ("best", best))
        for n, cell in enumerate(row)
    }


async def test_the_claim_is_on_the_number_the_gate_decided_on():
    opened, _, _ = exam(cells([(0, 0.2)] * 10, [(0, 0.9)] * 10), metric="soft")
    report = await opened.measure(step_at("test/1.1"), {"seed": SEED, "best": BEST}, look=1)
    assert report.comparison is not None and report.comparison.delta == pytest.approx(0.7)
    said = claim(report, changed=True, simulated=False, verified=True)
    assert "better than the seed" in said and "(soft score)" in said
    assert (report.scores["seed"].hard, report.scores["best"].soft) == (0.0, pytest.approx(0.9))


async def test_what_can_be_chance_is_not_called_better():
    opened, _, _ = exam(cells([(0, 0)] * 4, [(1, 1)] * 3 + [(0, 0)]))
    report = await opened.measure(step_at("test/1.1"), {"seed": SEED, "best": BEST}, look=1)
    said = claim(report, changed=True, simulated=False, verified=True)
    assert said.startswith(
        "The trained skill scored higher than the seed on 4 sealed test tasks: 0.000 to 0.750"
    )
    assert said.endswith("This difference can be chance; more tasks would tell.")
    assert "better" not in said


async def test_a_pair_with_a_lost_arm_is_left_out_of_every_figure_by_name():
    seed = [(1, 1)] + [(0, 0)] * 19
    best = [None] + [(1, 1)] + [(0, 0)] * 18
    opened, _, _ = exam(cells(seed, best))
    report = await opened.measure(step_at("test/1.1"), {"seed": SEED, "best": BEST}, look=1)
    assert report.left_out == ("t00",)
    assert (report.scores["seed"].hard, report.scores["best"].hard) == (0.0, pytest.approx(1 / 19))
    assert report.comparison is not None and report.comparison.delta == pytest.approx(1 / 19)
    assert report.comparison.n == 19


async def test_more_than_a_tenth_lost_is_no_measurement_at_all():
    opened, _, _ = exam(cells([(1, 1)] * 10, [None, None] + [(1, 1)] * 8))
    report = await opened.measure(step_at("test/1.1"), {"seed": SEED, "best": BEST}, look=1)
    assert not report.measured and report.comparison is None
    assert "2 of 10" in claim(report, changed=True, simulated=False, verified=True)


async def test_where_nothing_was_found_the_seal_stays_closed():
    opened, table, events = exam(cells([(1, 1)] * 5, [(0, 0)] * 5))
    opened.start_early(step_at("test/seed", events, skill=SEED), is_found=False)
    report = await opened.measure(step_at("test/1.1", events), {"seed": SEED, "best": SEED}, look=1)
    assert not table.runs and not events and not report.measured
    told = claim(report, changed=False, simulated=False, verified=True)
    assert "no better skill was found" in told and "stays closed ('skillopt eval RUN --split test'" in told


@pytest.mark.parametrize(("budget", "runs"), [(Budget(), 5), (Budget(calls=1000), 0)])
async def test_the_seeds_test_begins_with_a_proof_unless_money_is_short(budget: Budget, runs: int):
    opened, table, events = exam(cells([(1, 1)] * 5, [(0, 0)] * 5), budget=budget)
    for _ in range(2):
        opened.start_early(step_at("test/seed", events, skill=SEED), is_found=False)
        opened.expect()
        await asyncio.sleep(0.01)
    report = await opened.measure(step_at("test/1.1", events), {"seed": SEED, "best": SEED}, look=1)
    assert len(table.runs) == runs and not report.measured, "nobody looks at it where nothing was found"
    report = await opened.measure(step_at("test/1.1", events), {"seed": SEED, "best": BEST}, look=1)
    assert len(table.runs) == 10 and set(table.runs.values()) == {1} and report.measured


async def test_equal_skills_are_measured_once():
    opened, table, events = exam(cells([(1, 1)] * 5, [(0, 0)] * 5), always=True)
    report = await opened.measure(step_at("test/1.1", events), {"seed": SEED, "best": SEED}, look=1)
    assert set(table.runs.values()) == {1} and len(table.runs) == 5
    assert sum(isinstance(event, StageOpened) for event in events) == 1
    assert "No better skill was found" in claim(report, changed=False, simulated=True, verified=True)


def rollout(usage):
    told = Trajectory(messages=(), answer="", calls=1, usage=usage)
    return Scored(task_id="t", draw=0, attempt=0, key="k", trajectory=told, score=Score(hard=1.0, soft=1.0))


def test_the_set_aside_is_the_planned_rows_at_the_mean_with_a_margin_and_one_full_reservation():
    opened, _, _ = exam(cells([(1, 1)] * 10, [(1, 1)] * 10))
    used = [
        rollout(Usage(input_tokens=100, output_tokens=20)),
        rollout(Usage(input_tokens=300, output_tokens=20)),
    ]
    assert opened.estimate(used) == TestShare(
        calls=27, tokens=20 * 220 * 13 // 10 + 390 + 50, usd=None, seconds=0.0
    )
    three, _, _ = exam(cells([(1, 1)] * 10, [(1, 1)] * 10), skills=3)
    assert three.estimate(used).calls == 40


def charge(test: SealedTest, amount: Amount) -> None:
    entry = Entry(
        id=1,
        role="target",
        stage="selection",
        place="p",
        state="unreported",
        charged=amount,
        reserved=amount.tokens,
    )
    test._ledger.account.take(entry)


def test_without_usage_reports_what_the_baseline_was_charged_is_set_aside():
    opened, _, _ = exam(cells([(1, 1)] * 10, [(1, 1)] * 10))
    charge(opened, Amount(calls=4, tokens=4 * 90))
    set_aside = opened.estimate([rollout(None)] * 4)
    assert set_aside.calls == 27
    assert set_aside.tokens >= 20 * 90


def test_where_a_rollout_is_paid_as_a_whole_the_full_reservation_is_its_allowance_and_not_the_output_cap():
    used = [
        rollout(Usage(input_tokens=100, output_tokens=20)),
        rollout(Usage(input_tokens=300, output_tokens=20)),
    ]
    rows = cells([(1, 1)] * 10, [(1, 1)] * 10)
    said, _, _ = exam(rows, allowance=Budget(tokens=5000, usd=Fraction(1, 2)))
    told = said.estimate(used)
    assert told.tokens == 20 * 220 * 13 // 10 + 5000
    assert Fraction(told.usd) == 20 * Fraction(1, 2) * Fraction(13, 10) + Fraction(1, 2), (
        "nothing is known but the allowance"
    )
    unsaid, _, _ = exam(rows, allowance=Budget())
    assert unsaid.estimate(used).tokens == 20 * 220 * 13 // 10 + 320 * 13 // 10, (
        "the dearest seen, as the rollout_budget would reserve"
    )


def test_dollars_that_an_agent_reports_itself_are_what_its_test_is_taken_to_cost():
    opened, _, _ = exam(cells([(1, 1)] * 10, [(1, 1)] * 10), allowance=Budget(usd=Fraction(2)))
    charge(opened, Amount(calls=8, tokens=400, usd=Fraction(1, 5)))
    told = opened.estimate([rollout(Usage(input_tokens=80, output_tokens=20))] * 4)
    assert Fraction(told.usd) == 20 * Fraction(1, 20) * Fraction(13, 10) + 2


def test_an_agent_that_reports_nothing_is_taken_to_use_what_it_was_charged():
    opened, _, _ = exam(cells([(1, 1)] * 10, [(1, 1)] * 10), allowance=Budget(tokens=900))
    charge(opened, Amount(calls=4, tokens=4 * 900))
    assert opened.estimate([rollout(None)] * 4).tokens == 20 * 900 * 13 // 10 + 900


def test_a_test_that_would_take_more_than_half_is_refused_before_training_with_the_budget_it_needs():
    opened, _, events = exam(cells([(1, 1)] * 10, [(1, 1)] * 10), budget=Budget(calls=40))
    opened.provide(TestShare(calls=27, tokens=1, usd=None, seconds=0.0), SEED)
    assert "54 calls" in opened.refused
    opened.start_early(step_at("test/seed", events, skill=SEED), is_found=True)
    assert not any(isinstance(event, StageOpened) for event in events)


async def test_on_resuming_only_the_rows_that_are_missing_are_set_aside_again():
    table = cells([(1, 1)] * 10, [(1, 1)] * 10)
    opened, _, _ = exam(table, budget=Budget(calls=1000), always=True)
    opened.provide(TestShare(calls=40, tokens=0, usd=None, seconds=0.0), SEED)
    assert opened._ledger._set_aside.calls == 40
    # the seed's ten rows are measured now
    await opened.measure(step_at("test/1.1"), {"seed": SEED, "best": SEED}, look=1)
    opened.provide(TestShare(calls=40, tokens=0, usd=None, seconds=0.0), SEED)
    assert opened._ledger._set_aside.calls == 20
