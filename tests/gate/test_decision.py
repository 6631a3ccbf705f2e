"""The gate's arithmetic: what rows are worth, in which order they are read, and the paper's rule."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.config.schema import GateConfig
from skillopt.gate.decision import Case, reading_order, value
from skillopt.gate.policies import decide
from skillopt.tasks.rollout import Score

ONE, ZERO, HALF = Fraction(1), Fraction(0), Fraction(1, 2)


def case_of(*bars):
    """One draw of each task; every task reads as the next letter."""
    return Case.of({(f"t{number:02d}", 0): bar for number, bar in enumerate(bars)})


def ruling(name, case, candidate):
    reader, uppers = decide(name, case, candidate)
    return reader.ruling, len(uppers)


@pytest.mark.parametrize(
    ("incumbent", "candidate", "said", "read"),
    [
        ([ZERO, ONE], [ONE, ONE], "accept", 2),
        ([ZERO, ONE], [ZERO], "reject", 1),
        ([ZERO, ONE], [ONE], None, 1),
        ([ZERO, ONE], [ONE, ZERO], "reject", 2),
        ([ZERO, ONE], [ONE, None], "inconclusive", 2),
        ([ZERO, ONE], [None, ZERO], "reject", 2),
        ([ONE, ONE], [], "reject", 0),
        ([ZERO, ZERO], [HALF, ZERO], "accept", 2),
        ([HALF, HALF], [HALF], None, 1),
        ([HALF, HALF], [HALF, HALF], "reject", 2),
    ],
)
def test_strict_is_strictly_better_or_nothing(incumbent, candidate, said, read):
    assert ruling("strict", case_of(*incumbent), candidate) == (said, read)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strict", "no_regression", "paired"])
@given(rows=st.lists(st.tuples(st.fractions(0, 1), st.fractions(0, 1) | st.none()), min_size=1, max_size=12))
def test_a_prefix_never_says_what_the_whole_would_not(name, rows):
    case, candidate = case_of(*sorted(row[0] for row in rows)), [row[1] for row in rows]
    whole, _ = ruling(name, case, candidate)
    for length in range(len(rows) + 1):
        said, read = ruling(name, case, candidate[:length])
        assert said in (None, whole)
        assert read <= length
        if said == "reject" and read:
            assert ruling(name, case, candidate[: read - 1])[0] is None


def test_rows_are_read_where_the_incumbent_is_worst_then_by_name_and_draw():
    rows = {("b", 0): ONE, ("a", 1): ZERO, ("a", 0): ZERO, ("c", 0): HALF}
    assert reading_order(rows) == [("a", 0), ("a", 1), ("c", 0), ("b", 0)]


def test_further_draws_are_read_last_against_the_mean_of_all_draws_of_the_task():
    drawn = {("a", 0): ONE, ("a", 1): ZERO, ("a", 2): ZERO, ("b", 0): ZERO, ("b", 1): ZERO, ("b", 2): ZERO}
    case = Case.of(drawn, further=2)
    assert case.rows == (("b", 0), ("a", 0), ("b", 1), ("b", 2), ("a", 1), ("a", 2))
    assert case.bar == (ZERO, Fraction(1, 3), ZERO, ZERO, Fraction(1, 3), Fraction(1, 3))
    assert case.first == 2


def test_mixed_is_exact_where_floats_are_not():
    tenth = Score(hard=0.0, soft=0.1)
    assert value(tenth, "mixed", 0.5) == Fraction(0.1) / 2
    assert value(Score(hard=1.0, soft=0.0), "mixed", 0.3) == Fraction(7, 10)
    assert value(tenth, "hard", 0.5) == 0
    assert value(tenth, "soft", 0.5) == Fraction(0.1)


@pytest.mark.parametrize(("told", "seed", "cap"), [(0, 100, 4_000), (0, 3_000, 6_000), (50, 3_000, 50)])
def test_the_cap_is_as_told_or_twice_the_seed_and_never_below_four_thousand(told, seed, cap):
    assert Case.of({}, settings=GateConfig(max_chars=told), seed_chars=seed).cap == cap
