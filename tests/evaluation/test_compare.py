"""Paired comparison of two skills."""

import itertools
import math
import random

import pytest

from skillopt.evaluation.compare import compare, interval_of, paired_p


def enumerated(differences: list[float]) -> float:
    """The sign-flip p by brute force over all signs, zeros included."""
    observed = abs(sum(differences))
    signs = list(itertools.product((1, -1), repeat=len(differences)))
    return sum(
        abs(sum(s * d for s, d in zip(row, differences, strict=True))) >= observed - 1e-9 for row in signs
    ) / len(signs)


def test_hard_scores_get_the_exact_mcnemar_p():
    differences = [1.0] * 8 + [-1.0] * 2 + [0.0] * 30
    p, test = paired_p(differences)
    assert test == "exact McNemar"
    # 0.109375, as any table gives it
    assert p == pytest.approx(2 * sum(math.comb(10, k) for k in range(3)) / 2**10)
    assert p == pytest.approx(0.109375)


@pytest.mark.parametrize("seed", range(12))
def test_soft_scores_get_the_exact_sign_flip_p(seed):
    rng = random.Random(seed)
    differences = [rng.choice((-0.5, -0.2, 0.0, 0.1, 0.3, 0.7)) for _ in range(10)]
    assert paired_p(differences)[0] == pytest.approx(enumerated(differences))


def test_many_soft_differences_are_resampled_with_a_seed():
    rng = random.Random(1)
    differences = [rng.gauss(0.1, 0.3) for _ in range(80)]
    p, test = paired_p(differences, seed=3)
    assert paired_p(differences, seed=3) == (p, test)
    assert "resamples" in test
    assert 0 < p < 0.05


def test_no_change_is_no_evidence():
    result = compare({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 0.0})
    assert (result.p, result.delta, result.fixed, result.broken) == (1.0, 0.0, (), ())
    low, high = result.interval
    assert low < 0 < high


def test_fixed_and_broken_tasks_are_named():
    result = compare({"a": 0.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 0.0, "c": 1.0})
    assert (result.fixed, result.broken, result.n) == (("a",), ("b",), 3)


def test_the_interval_of_pass_and_fail_is_the_published_one():
    """Agresti and Min: 0.5 added to each cell of the 2 x 2 table, then Wald."""
    differences = [1.0] * 30 + [0.0] * 60 + [-1.0] * 10
    low, high = interval_of(differences)
    mean, error = 20 / 102, math.sqrt(41 - 20**2 / 102) / 102
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error))


@pytest.mark.parametrize("differences", [[1.0] * 12, [1.0], [0.25] * 40, [0.7] * 5])
def test_an_interval_keeps_a_width_where_all_tasks_moved_alike(differences):
    low, high = interval_of(differences)
    assert low < sum(differences) / len(differences) <= 1.0
    assert high - low > 0.01


def test_the_bootstrap_of_graded_scores_covers_the_mean_and_is_reproducible():
    rng = random.Random(3)
    differences = [rng.choice((-0.5, 0.0, 0.2, 0.6)) for _ in range(120)]
    low, high = interval_of(differences)
    assert low < sum(differences) / 120 < high
    assert interval_of(differences) == (low, high)


def test_different_tasks_cannot_be_paired():
    with pytest.raises(ValueError, match="same tasks"):
        compare({"a": 1.0}, {"b": 1.0})


@pytest.mark.slow
def test_five_thousand_changed_tasks_still_give_an_exact_p():
    differences = [1.0] * 2_600 + [-1.0] * 2_400
    p, test = paired_p(differences)
    assert test == "exact McNemar"
    assert 0.004 < p < 0.006  # the normal approximation gives 0.0049
