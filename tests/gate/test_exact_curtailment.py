"""A curtailed gate decides exactly as a full pass would, whatever the order in which rows arrive."""

import random

import pytest

from gate._tables import Table, full_ruling, judge
from skillopt.gate.decision import reading_order, value
from skillopt.tasks.rollout import Invalid, Score

TABLES = 2_400
SOFT = (0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1.0)


def random_score(rng: random.Random, good: float) -> Score:
    return Score(hard=float(rng.random() < good), soft=rng.choice(SOFT))


def random_case(seed: int):
    rng = random.Random(seed)
    tasks = [f"t{number:02d}" for number in range(rng.randint(1, 14))]
    rows = [(task, draw) for task in tasks for draw in range(rng.randint(1, 4))]
    good = rng.random()
    incumbent = {row: random_score(rng, good) for row in rows}
    broken = rng.choice((0.0, 0.0, 0.1, 0.3))
    shift = rng.choice((-0.3, -0.05, 0.0, 0.05, 0.3))

    def attempt() -> Score | None:
        return None if rng.random() < broken else random_score(rng, good + shift)

    cells = {row: (attempt(), attempt()) for row in rows}
    metric = rng.choice(("hard", "soft", "mixed"))
    return incumbent, cells, metric, rng.choice((0.25, 0.5, 0.9)), rng.randint(1, 50), rng


def test_the_curtailed_verdict_is_the_full_verdict_on_thousands_of_random_tables(capsys):
    sent = planned = 0
    verdicts = {"accept": 0, "reject": 0, "inconclusive": 0}
    for seed in range(TABLES):
        incumbent, cells, metric, weight, ahead, rng = random_case(seed)
        table = Table(cells, rng)
        verdict, _ = judge(incumbent, table, metric=metric, weight=weight, ahead=ahead)

        order = reading_order({row: value(score, metric, weight) for row, score in incumbent.items()})
        bars = [value(incumbent[row], metric, weight) for row in order]
        final = [next((value(cell, metric, weight) for cell in cells[row] if cell is not None), None) for row in order]
        assert verdict.action == full_ruling(bars, final), f"table {seed}"

        # the record holds exactly the shortest prefix that decides, in reading order
        read = len(verdict.rows)
        assert [(row.task_id, row.draw) for row in verdict.rows] == order[:read]
        assert all(isinstance(row, Invalid) == (one is None) for row, one in zip(verdict.rows, final, strict=False))
        if verdict.action == "reject" and read:
            assert full_ruling(bars, final[: read - 1] + [None] * (len(order) - read + 1)) != "reject"
        if verdict.action != "reject":
            assert read == len(order)
        assert (verdict.candidate is not None) == (verdict.action == "accept" or (read == len(order) and None not in final))
        verdicts[verdict.action] += 1
        planned += len(order)
        sent += len(set(table.asked))
    with capsys.disabled():
        print(f"\n{TABLES} tables: {verdicts}; {sent} of {planned} rows were run, {planned - sent} ({1 - sent / planned:.0%}) saved")
    assert min(verdicts.values()) > 50
    assert sent < planned


@pytest.mark.parametrize("ahead", [1, 3, 50])
def test_the_record_does_not_depend_on_how_far_the_gate_runs_ahead(ahead):
    for seed in range(60):
        incumbent, cells, metric, weight, _, _ = random_case(seed)
        one, _ = judge(incumbent, Table(cells, random.Random(1)), metric=metric, weight=weight, ahead=1)
        other, _ = judge(incumbent, Table(cells, random.Random(2)), metric=metric, weight=weight, ahead=ahead)
        assert (one.action, one.why, one.bound, one.rows) == (other.action, other.why, other.bound, other.rows)


def test_with_the_gate_off_every_row_is_measured():
    for seed in range(60):
        incumbent, cells, metric, weight, ahead, rng = random_case(seed)
        verdict, _ = judge(incumbent, Table(cells, rng), metric=metric, weight=weight, ahead=ahead, is_on=False)
        assert len(verdict.rows) == len(incumbent)


def test_an_invalid_row_is_asked_once_more_before_it_may_decide():
    incumbent = {("a", 0): Score(hard=0.0, soft=0.0)}
    saved = Table({("a", 0): (None, Score(hard=1.0, soft=1.0))}, random.Random(0))
    assert judge(incumbent, saved, metric="hard", weight=0.5, ahead=1)[0].action == "accept"
    lost = Table({("a", 0): (None, None)}, random.Random(0))
    verdict, _ = judge(incumbent, lost, metric="hard", weight=0.5, ahead=1)
    assert verdict.action == "inconclusive"
    assert "a (parse)" in verdict.why
    assert len(lost.asked) == 2
