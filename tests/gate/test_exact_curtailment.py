"""A curtailed gate decides exactly as a full pass would, whatever the policy and the order in which rows
arrive.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from gate import _rules as rules
from gate._cases import RandomCase, random_case
from gate._tables import Table, judge
from skillopt.gate import policies as registry
from skillopt.gate.decision import Case
from skillopt.gate.gate import Verdict
from skillopt.tasks.rollout import Invalid, Score

BETTER = (-0.05, 0.05, 0.3, 0.6, 0.9)


def strict(seed: int) -> tuple[RandomCase, rules.Rule, dict[str, Any]]:
    return random_case(seed), rules.strict, {}


def no_regression(seed: int) -> tuple[RandomCase, rules.Rule, dict[str, Any]]:
    return random_case(seed, most_tasks=6, shifts=BETTER), rules.no_regression, {}


def paired(seed: int) -> tuple[RandomCase, rules.Rule, dict[str, Any]]:
    alpha = ("0.05", "0.2", "0.5")[seed % 3]
    case = random_case(seed, most_tasks=9, shifts=BETTER)
    return case, partial(rules.paired, alpha=Fraction(alpha)), {"alpha": float(alpha)}


def size_capped(seed: int) -> tuple[RandomCase, rules.Rule, dict[str, Any]]:
    sizes = random.Random(f"size {seed}")
    cap, chars = sizes.choice((8, 9, 10, 20)), sizes.choice((8, 9, 10, 11))
    rule = partial(rules.size_capped, chars=chars, incumbent_chars=len("old skill"), cap=cap)
    return random_case(seed), rule, {"max_chars": cap, "candidate": "x" * chars}


def confirm(seed: int) -> tuple[RandomCase, rules.Rule, dict[str, Any]]:
    first, again = 1 + seed % 2, seed % 4
    case = random_case(seed, draws=first + (again or first))
    return case, partial(rules.confirm, first_draws=first), {"confirm_draws": again, "first_draws": first}


# By policy: cases for it, how many of them, and the fewest of each verdict that they must give.
POLICIES = {
    "strict": (strict, 2_000, 50),
    "no_regression": (no_regression, 600, 20),
    "paired": (paired, 350, 20),
    "size_capped": (size_capped, 400, 15),
    "confirm": (confirm, 600, 50),
}


def test_every_policy_of_ours_is_held_to_the_law() -> None:
    ours = [
        name
        for name in registry.POLICIES.names()
        if registry.POLICIES.get(name).__module__.startswith("skillopt.")
    ]
    assert set(POLICIES) == set(ours)


@pytest.mark.slow
@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.real)], ids=["a quarter", "all"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_curtailed_verdict_is_the_full_verdict_on_random_tables(policy, share, capsys):
    make, tables, at_least = POLICIES[policy]
    tables, at_least = tables // share, at_least // share // (2 if share > 1 else 1)
    sent = planned = 0
    verdicts = {"accept": 0, "reject": 0, "inconclusive": 0}
    for seed in range(tables):
        case, rule, settings = make(seed)
        table = case.table()
        verdict, _ = judge(case.incumbent, table, policy=policy, **case.reading, **settings)
        assert verdict.action == rule(case.bars, case.final), f"table {seed}: {verdict.why}"
        assert_shortest(verdict, case, rule, further=order_of(case, policy, settings))
        verdicts[verdict.action] += 1
        planned += len(case.cells)
        sent += len(set(table.asked))
    with capsys.disabled():
        print(
            f"\n{policy}, {tables} tables: {verdicts}; {sent} of {planned} rows were run,"
            f" {1 - sent / planned:.0%} saved"
        )
    assert min(verdicts.values()) >= at_least
    assert sent < planned


def order_of(case: RandomCase, policy: str, settings: Mapping[str, Any]) -> int:
    """How many draws of each task belong to a confirmation."""
    return (settings["confirm_draws"] or settings["first_draws"]) if policy == "confirm" else 0


def assert_shortest(verdict: Verdict, case: RandomCase, rule: rules.Rule, *, further: int) -> None:
    """The record holds exactly the shortest prefix that decides, in reading order."""
    order = Case.of(case.bars, further=further).rows
    read = len(verdict.rows)
    final = case.final
    assert [(row.task_id, row.draw) for row in verdict.rows] == list(order[:read])
    assert all(isinstance(row, Invalid) == (final[row.task_id, row.draw] is None) for row in verdict.rows)
    if verdict.action == "reject" and read:
        before = {row: final[row] if at < read - 1 else None for at, row in enumerate(order)}
        assert rule(case.bars, before) != "reject"
    elif verdict.action != "reject" and not (further and verdict.decided_by == "lost rows"):
        assert read == len(order)
    complete = read == len(order) and None not in final.values()
    assert (verdict.candidate is not None) == complete
    assert verdict.action != "accept" or complete


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ahead", [3, 50])
def test_the_record_does_not_depend_on_how_far_the_gate_runs_ahead(policy, ahead):
    make, _, _ = POLICIES[policy]
    for seed in range(25):
        case, _, settings = make(seed)
        reading = {**case.reading, "policy": policy, **settings}
        one, _ = judge(case.incumbent, Table(case.cells, random.Random(1)), **{**reading, "ahead": 1})
        other, _ = judge(case.incumbent, Table(case.cells, random.Random(2)), **{**reading, "ahead": ahead})
        assert one == other


@pytest.mark.parametrize("policy", POLICIES)
def test_in_full_every_row_is_measured_and_the_verdict_is_the_same(policy):
    make, _, _ = POLICIES[policy]
    for seed in range(25):
        case, rule, settings = make(seed)
        verdict, _ = judge(
            case.incumbent, case.table(), policy=policy, in_full=True, **case.reading, **settings
        )
        assert len(verdict.rows) == len(case.incumbent) == verdict.rows_total
        assert verdict.action == rule(case.bars, case.final)
        assert (verdict.candidate is None) == (None in case.final.values())


def test_with_the_gate_off_every_row_is_measured_and_no_policy_decides():
    for seed in range(25):
        case = random_case(seed)
        settings = {"policy": "size_capped", "max_chars": 1}
        verdict, _ = judge(case.incumbent, case.table(), is_on=False, **case.reading, **settings)
        assert len(verdict.rows) == len(case.incumbent)
        assert verdict.action == rules.strict(case.bars, case.final)


def test_an_invalid_row_is_asked_once_more_before_it_may_decide():
    incumbent = {("a", 0): Score(hard=0.0, soft=0.0)}
    saved = Table({("a", 0): (None, Score(hard=1.0, soft=1.0))}, random.Random(0))
    assert judge(incumbent, saved, metric="hard", weight=0.5, ahead=1)[0].action == "accept"
    lost = Table({("a", 0): (None, None)}, random.Random(0))
    verdict, _ = judge(incumbent, lost, metric="hard", weight=0.5, ahead=1)
    assert verdict.action == "inconclusive"
    assert "a (parse)" in verdict.why
    assert len(lost.asked) == 2
