"""The gate's arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.gate.decision import decide, reading_order, value
from skillopt.tasks.rollout import Score

ONE, ZERO, HALF = Fraction(1), Fraction(0), Fraction(1, 2)


@pytest.mark.parametrize(
    ("incumbent", "candidate", "ruling", "read"),
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
def test_strict_is_strictly_better_or_nothing(incumbent, candidate, ruling, read):
    assert decide("strict", incumbent, candidate) == (ruling, read)


@given(st.lists(st.tuples(st.fractions(0, 1), st.fractions(0, 1) | st.none()), min_size=1, max_size=12))
def test_a_prefix_never_says_what_the_whole_would_not(rows):
    incumbent, candidate = [row[0] for row in rows], [row[1] for row in rows]
    whole, _ = decide("strict", incumbent, candidate)
    for length in range(len(rows) + 1):
        ruling, read = decide("strict", incumbent, candidate[:length])
        assert ruling in (None, whole)
        assert read <= length
        if ruling == "reject" and read:
            assert decide("strict", incumbent, candidate[: read - 1])[0] is None


def test_rows_are_read_where_the_incumbent_is_worst_then_by_name_and_draw():
    rows = {("b", 0): ONE, ("a", 1): ZERO, ("a", 0): ZERO, ("c", 0): HALF}
    assert reading_order(rows) == [("a", 0), ("a", 1), ("c", 0), ("b", 0)]


def test_mixed_is_exact_where_floats_are_not():
    tenth = Score(hard=0.0, soft=0.1)
    assert value(tenth, "mixed", 0.5) == Fraction(0.1) / 2
    assert value(Score(hard=1.0, soft=0.0), "mixed", 0.3) == Fraction(7, 10)
    assert value(tenth, "hard", 0.5) == 0
    assert value(tenth, "soft", 0.5) == Fraction(0.1)
