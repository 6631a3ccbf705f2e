"""The strategy `paper` is the published loop: on fixed seeds it ends as it did before there were strategies."""

from __future__ import annotations

import hashlib
import json

import pytest

from train._world import train

PLAIN = {"train__num_epochs": 2}
NOISY = {"train__seed": 7, "model__target": "world:noise=0.1,seed=3", "optimizer__learning_rate": 8}
FIELDS = (
    *("step", "action", "why", "candidate_hash", "candidates", "edit_states", "selection_rows_all"),
    *("current_score", "best_score", "best_origin", "rollout_hard", "tokens", "support_counts"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "skill", "history"),
    [
        pytest.param(PLAIN, "507c3bd5d932f899", "0540b066f22eff94", id="plain"),
        pytest.param(NOISY, "9af543f7e917f043", "b71b7e48aac1dc8b", id="noisy"),
    ],
)
def test_fixed_seeds_end_with_the_same_bytes(tmp_path, settings, skill, history):
    trained = train(tmp_path / "run", train__strategy="paper", **settings)
    records = [{name: record[name] for name in FIELDS} for record in trained.json("history.json")]
    assert _digest((trained.folder / "best_skill.md").read_bytes()) == skill
    assert _digest(json.dumps(records, sort_keys=True).encode()) == history


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
