"""Weights & Biases, offline: what it keeps for `wandb sync` holds the figures, and nothing of the machine."""

from __future__ import annotations

from pathlib import Path

from trackers._runs import trained, warnings


async def test_an_offline_run_holds_the_figures_and_settings(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_CANARY", "canary-5d1f")
    events = await trained(tmp_path / "run", "tracking.use=wandb", "tracking.wandb_mode=offline", "tracking.project=mine")
    assert warnings(events) == []
    (kept,) = (tmp_path / "run" / "tracking" / "wandb").glob("wandb/offline-run-*/*.wandb")
    data = kept.read_bytes()
    assert b"val/best" in data and b"test/best/hard" in data and b"train.batch_size" in data
    assert b"canary-5d1f" not in data and str(Path(__file__).parent).encode() not in data
