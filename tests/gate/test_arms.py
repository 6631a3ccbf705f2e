"""The program that puts policies side by side: every arm runs, and keeps to the same budget."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

from _arms import ARMS, run_arm

CALLS = 700


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_ends_within_the_budget_with_a_tested_skill(arm: str) -> None:
    row = run_arm(arm, 0, 0.1, calls=CALLS)
    assert row.calls <= CALLS
    assert 0.0 <= row.test_best <= 1.0
    assert row.verdicts >= row.accepts
    assert row.ended in ("budget", "headroom", "patience", "plan")


@pytest.mark.slow
def test_an_arm_repeats_to_the_last_figure() -> None:
    assert run_arm("confirm", 1, 0.1, calls=CALLS) == run_arm("confirm", 1, 0.1, calls=CALLS)
