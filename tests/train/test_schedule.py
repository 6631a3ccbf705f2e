"""The learning-rate schedules."""

import pytest

from skillopt.train.plan import SCHEDULES


@pytest.mark.parametrize(
    ("name", "total", "limits"),
    [
        ("cosine", 8, [4, 4, 3, 3, 3, 2, 2, 2]),
        ("linear", 8, [4, 4, 3, 3, 3, 2, 2, 2]),
        ("constant", 4, [4, 4, 4, 4]),
        ("cosine", 1, [4]),
        ("linear", 1, [4]),
    ],
)
def test_limits_follow_the_public_formulae(name, total, limits):
    assert [SCHEDULES[name](step, total, 4, 2) for step in range(1, total + 1)] == limits


def test_a_step_beyond_the_end_keeps_the_smallest():
    assert SCHEDULES["cosine"](99, 8, 4, 2) == 2
