"""The program that puts proposers side by side: its scripted agent works through the public ports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

from proposers import PROPOSERS, measured


@pytest.mark.slow
@pytest.mark.parametrize("proposer", list(PROPOSERS))
def test_every_proposer_trains_within_the_budget_and_finds_something(proposer: str) -> None:
    row = measured("plain", "paper", proposer, 3, 250_000)
    assert row.score > row.seed_score + 0.05 and row.tokens <= 250_000
    assert ("proposer" in row.stages) == (proposer != "analysts") != ("analyst_failure" in row.stages)
