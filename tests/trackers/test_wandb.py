"""Weights & Biases, offline: what it keeps for `wandb sync` holds the figures, and nothing of the machine."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from skillopt.run import tracking
from trackers._runs import trained, warnings


@pytest.mark.slow
async def test_an_offline_run_holds_the_figures_and_settings(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_CANARY", "canary-5d1f")
    monkeypatch.setattr(tracking, "PATIENCE_SECONDS", 100.0)  # a busy machine is no fault of W&B's
    before = set(threading.enumerate())
    events = await trained(
        tmp_path / "run", "tracking.use=wandb", "tracking.wandb_mode=offline", "tracking.project=mine"
    )
    assert warnings(events) == []
    (kept,) = (tmp_path / "run" / "tracking" / "wandb").glob("wandb/offline-run-*/*.wandb")
    data = kept.read_bytes()
    assert b"val/best" in data and b"test/best/hard" in data and b"train.batch_size" in data
    started = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [
        name for name in started if "Otel" in name
    ]  # W&B's telemetry about its own use would call home
    assert b"canary-5d1f" not in data and str(Path(__file__).parent).encode() not in data
