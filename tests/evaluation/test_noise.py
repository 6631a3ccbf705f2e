"""An A/A measurement says how much of a difference is luck; simulation is its oracle."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from skillopt.evaluation.noise import noise


def drawn(chances: list[float], draws: int, seed: int) -> dict[str, list[float]]:
    chance = random.Random(seed)
    return {
        f"t{number}": [float(chance.random() < p) for _ in range(draws)] for number, p in enumerate(chances)
    }


def test_a_target_that_never_varies_has_no_noise() -> None:
    found = noise({"a": [1, 1], "b": [0, 0], "c": [0.5, 0.5]})
    assert (found.sd, found.lucky, found.moved, found.sure) == (0, 0, (), 0)
    assert found.mean == 0.5 and found.repeats_for(0.05) == 1


@pytest.mark.slow
def test_the_standard_deviation_is_that_of_passes_over_the_same_tasks() -> None:
    chances = [0.2, 0.5, 0.9, 1.0, 0.0] * 20
    true = math.sqrt(sum(p * (1 - p) for p in chances)) / len(chances)
    estimates = [noise(drawn(chances, 5, seed)).sd for seed in range(6)]
    assert statistics.mean(estimates) == pytest.approx(true, rel=0.08)


@pytest.mark.slow
def test_luck_is_how_often_one_pass_beats_another() -> None:
    chances = [0.5] * 30
    chance = random.Random(7)
    passes = [
        (sum(chance.random() < p for p in chances), sum(chance.random() < p for p in chances))
        for _ in range(4000)
    ]
    true = sum(second > first for first, second in passes) / len(passes)
    estimates = [noise(drawn(chances, 8, seed)).lucky for seed in range(5)]
    assert statistics.mean(estimates) == pytest.approx(true, abs=0.03)


def test_the_gain_it_calls_sure_is_seen_four_times_in_five() -> None:
    chances, gain_rate = [0.4] * 60, []
    found = noise(drawn(chances, 20, 1))
    chance = random.Random(3)
    bar = 1.6449 * math.sqrt(2) * found.sd
    for _ in range(3000):
        before = sum(chance.random() < 0.4 for _ in chances) / 60
        after = sum(chance.random() < 0.4 + found.sure for _ in chances) / 60
        gain_rate.append(after - before > bar)
    assert statistics.mean(gain_rate) == pytest.approx(0.8, abs=0.05)


def test_more_draws_are_asked_for_where_the_wish_is_smaller_than_the_noise() -> None:
    found = noise(drawn([0.5] * 20, 4, 5))
    assert found.repeats_for(found.sure) == 1
    assert found.repeats_for(found.sure / 2) == 4


@pytest.mark.parametrize("scores", [{"a": [1.0]}, {"a": [1, 1], "b": [1, 1, 1]}, {}])
def test_too_few_draws_are_refused(scores: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="two at least"):
        noise(scores)
