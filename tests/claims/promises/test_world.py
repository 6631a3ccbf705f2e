"""Training on the simulated world: with the gate every seed gets better, without it harmful rules get
through.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.timeout(300)
@pytest.mark.real  # a quarter of a minute
def test_over_five_seeds_the_gate_improves_each_and_beats_taking_everything(capsys, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "perf")
    from _world import NOISE, SEEDS, VAL_CASES, run_all, share_through

    rows = run_all(SEEDS[:5])
    gated = [row for row in rows if row.use_gate]
    loose = [row for row in rows if not row.use_gate]
    with capsys.disabled():
        print(f"\nsimulated world, noise {NOISE:.0%}, {VAL_CASES} val tasks")
        for one, other in zip(gated, loose, strict=True):
            print(
                f"  seed {one.seed}: test {one.test_seed:.3f} -> gated {one.test_end:.3f}, ungated"
                f" {other.test_end:.3f}"
            )
        print(
            f"  harmful rules that got through: gated {share_through(gated):.0%}, ungated"
            f" {share_through(loose):.0%}"
        )
    assert len(gated) == len(loose) == 5
    assert sum(row.harmful_proposals for row in gated) >= sum(row.proposals for row in gated) / 3
    assert all(row.test_end > row.test_seed for row in gated)
    assert sum(row.test_end for row in gated) > sum(row.test_end for row in loose)
    assert share_through(gated) < share_through(loose)
