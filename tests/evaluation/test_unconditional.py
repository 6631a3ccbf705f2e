"""The test of a cross-fitted claim: it holds its level, agrees with its interval, and says what it can show."""

import math
import random

import pytest

from skillopt.evaluation.compare import compare
from skillopt.evaluation.significance import improvement_interval, improvement_p, smallest_gain


def outcomes(tasks: int) -> list[tuple[int, int]]:
    return [(fixed, broken) for fixed in range(tasks + 1) for broken in range(tasks + 1 - fixed)]


def chance_of_claim(tasks: int, fixed: float, broken: float) -> float:
    """Summed over every outcome, where a task is fixed or broken with these chances."""
    same = 1 - fixed - broken
    return sum(
        math.comb(tasks, f) * math.comb(tasks - f, b) * fixed**f * broken**b * same ** (tasks - f - b)
        for f, b in outcomes(tasks)
        if improvement_p(f, b, tasks) < 0.05
    )


def test_p_is_the_largest_chance_of_an_outcome_that_is_as_extreme():
    """Seven against one of 21 pairs, a textbook's example: McNemar's exact test, two-sided, has 0.070."""
    z = 6 / math.sqrt(8)
    extreme = [(f, b) for f, b in outcomes(21) if f + b and (f - b) / math.sqrt(f + b) >= z - 1e-9]
    chances = [
        sum(
            math.comb(21, f) * math.comb(21 - f, b) * (share / 2) ** (f + b) * (1 - share) ** (21 - f - b)
            for f, b in extreme
        )
        for share in (number / 777 for number in range(1, 777))
    ]
    assert improvement_p(7, 1, 21) == pytest.approx(max(chances), abs=1e-4)
    assert max(chances) == pytest.approx(0.01766, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [10, 20, 40])
def test_without_a_true_gain_at_most_one_claim_in_twenty(tasks):
    shares = [number / 37 for number in range(1, 37)]  # none of those that p is looked for at
    assert max(chance_of_claim(tasks, share / 2, share / 2) for share in shares) < 0.05
    assert max(chance_of_claim(tasks, 0.4 * share, 0.6 * share) for share in shares) < 0.05


@pytest.mark.parametrize("tasks", [3, 5, 20, 33])
def test_the_interval_lies_above_zero_where_p_is_small_and_only_there(tasks):
    for fixed, broken in outcomes(tasks):
        low, high = improvement_interval(fixed, broken, tasks)
        assert (low > 0) == (improvement_p(fixed, broken, tasks) < 0.05)
        assert -1 <= low <= (fixed - broken) / tasks + 1e-6 and (fixed - broken) / tasks - 1e-6 <= high <= 1
    low, high = improvement_interval(0, 0, tasks)
    assert low == pytest.approx(-high, abs=1e-5) and high > 0.05


def test_the_interval_covers_the_true_gain_nine_times_in_ten():
    dice, tasks, missed = random.Random(7), 20, 0
    for _ in range(2_000):
        drawn = dice.choices((1, -1, 0), (0.3, 0.05, 0.65), k=tasks)
        low, high = improvement_interval(drawn.count(1), drawn.count(-1), tasks)
        missed += not low <= 0.25 <= high
    assert missed < 200


def test_the_smallest_gain_is_what_the_test_shows_with_80_percent_chance():
    gains = [smallest_gain(count) for count in (10, 20, 30)]
    assert gains == sorted(gains, reverse=True) and gains[1] == 0.26
    for tasks, gain in zip((10, 20, 30), gains, strict=True):
        assert chance_of_claim(tasks, gain, 0.0) >= 0.8 > chance_of_claim(tasks, gain - 0.02, 0.0)
    assert smallest_gain(3) is None


def test_only_an_improvement_of_pass_or_fail_is_asked_for_this_way():
    before, after = {str(n): 0.0 for n in range(20)}, {str(n): float(n < 4) for n in range(20)}
    found = compare(before, after, one_sided=True)
    assert found.p < 0.05 < compare(before, after).p and found.interval[0] > 0
    assert (
        found.test == "exact unconditional test, one-sided" and compare(before, after).test == "exact McNemar"
    )
    graded = compare(before, {**after, "5": 0.5}, one_sided=True)
    assert graded.test == "exact sign flip, one-sided"
