"""The short form of `make chaos`: a few rounds of one seed, in which every kind of job is struck."""

from __future__ import annotations

import sys

import pytest

from _needs import needs_git
from claims.chaos.run import rounds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # half a minute of CPU, however busy the machine is
    pytest.mark.skipif(sys.platform != "linux", reason="forks and reads /proc"),
    needs_git,
]
SEED, COUNT = 76, 8


def test_rounds_of_every_kind_end_well() -> None:
    told = list(rounds(SEED, COUNT))
    assert [f"{one.number} {one.job}, {one.fault}: {one.wrong}" for one in told if one.wrong] == []
    assert len({one.job for one in told}) == 6, "choose a seed that strikes all of them"
    assert sum(one.landed for one in told) >= 4, "faults that stop nothing prove nothing"
