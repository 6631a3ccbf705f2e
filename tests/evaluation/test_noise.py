"""An A/A measurement says how much of a difference is luck; simulation is its oracle."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from skillopt.evaluation.significance import improvement_p, noise


def drawn(chances: list[float], draws: int, seed: int) -> dict[str, list[float]]:
    chance = random.Random(seed)
    return {
        f"t{number}": [float(chance.random() < p) for _ in range(draws)] for number, p in enumerate(chances)
    }


def test_a_target_that_never_varies_has_no_noise_and_its_tasks_are_still_a_sample() -> None:
    found = noise({f"t{place}": [float(place < 6)] * 3 for place in range(20)})
    assert (found.sd, found.lucky, found.moved, found.mean) == (0, 0, (), pytest.approx(0.3))
    assert found.sd_tasks == pytest.approx(math.sqrt(0.3 * 0.7 / 19))
    assert found.seen is not None and found.sure is not None and 0.05 < found.seen < found.sure < 0.3
    assert (found.repeats_for(found.sure), found.repeats_for(0.05)) == (1, None)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 20, 40, 60, 200])
@pytest.mark.parametrize("chance", [0.0, 0.2, 0.5])
def test_no_gain_is_promised_that_these_tasks_cannot_show(n: int, chance: float) -> None:
    found = noise(drawn([chance] * n, 4, n))
    assert found.step >= 1 / n - 1e-9
    if found.seen is not None:
        assert found.step <= found.seen <= 1 - found.mean + 1e-6
    if found.sure is not None:
        assert found.seen is not None and found.seen <= found.sure <= 1 - found.mean + 1e-6
    for gain in (0.001, 0.05, 0.99 / n):
        if found.repeats_for(gain) is not None:
            assert gain >= 1 / n and n > 100, "fewer tasks show no such gain, however often they are drawn"


def test_graded_scores_move_in_their_own_steps() -> None:
    assert noise({"a": [0.5, 0.5], "b": [0.25, 1.0]}).step == 0.125
    assert noise({"a": [1.0, 1.0], "b": [1.0, 1.0]}).step == 0.5


def test_what_leaves_no_room_shows_nothing() -> None:
    found = noise({str(place): [1.0, 1.0] for place in range(20)})
    assert (found.seen, found.sure) == (None, None)
    assert noise({str(place): [0.0, 0.0] for place in range(3)}).sure is None, "three tasks can prove nothing"


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


@pytest.mark.slow
@pytest.mark.parametrize("flipped", [0.0, 0.1, 0.2])
@pytest.mark.parametrize("n", [8, 20, 60])
def test_what_it_promises_is_seen_four_times_in_five_on_other_tasks_too(n: int, flipped: float) -> None:
    """A third of the tasks is solved; a better skill solves each other one by chance, and breaks none."""
    chance = random.Random(f"{n}{flipped}")

    def asked(solved: list[bool]) -> list[float]:
        return [float(one != (chance.random() < flipped)) for one in solved]

    truth = [3 * place < n for place in range(n)]
    found = noise({str(place): [asked([truth[place]])[0] for _ in range(20)] for place in range(n)})
    for gain, shows in (
        (found.seen, lambda fixed, broken: fixed > broken),
        (found.sure, lambda fixed, broken: improvement_p(fixed, broken, n) < 0.05),
    ):
        if gain is None:
            continue
        solves, shown = gain / (1 - 2 * flipped) / (2 / 3), 0
        for _ in range(500):
            seed = [chance.random() < 1 / 3 for _ in range(n)]
            best = [one or chance.random() < solves for one in seed]
            moved = [after - before for before, after in zip(asked(seed), asked(best), strict=True)]
            shown += shows(moved.count(1.0), moved.count(-1.0))
        assert shown / 500 > 0.74


def test_where_more_draws_help_they_are_asked_for_else_more_tasks() -> None:
    found = noise(drawn([0.3] * 20, 4, 5))
    assert found.sure is not None and found.repeats_for(found.sure) == 1
    (few, more) = (found.repeats_for(0.3), found.repeats_for(0.35))
    assert few is not None and more is not None and few > more > 1
    assert found.repeats_for(0.2) is None
    assert found.tasks_for(0.2) > found.tasks_for(0.3) > 20
    still = noise({f"t{place}": [0.0, 0.0] for place in range(8)})
    assert (still.repeats_for(0.05), still.tasks_for(0.05)) == (None, 118)


@pytest.mark.parametrize("scores", [{"a": [1.0]}, {"a": [1, 1], "b": [1, 1, 1]}, {}])
def test_too_few_draws_are_refused(scores: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="two at least"):
        noise(scores)
