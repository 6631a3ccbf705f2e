"""MLflow reads what a run logged, with its own client; its folder store stands in for a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trackers._runs import STEPS, trained, val_curve, warnings

pytestmark = pytest.mark.slow  # its import alone takes a second


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlruns").as_uri()


def runs(store: str, project: str = "skillopt") -> list[Any]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name(project)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def curve(store: str, run: Any, name: str) -> dict[int, float]:
    from mlflow.tracking import MlflowClient

    history = MlflowClient(tracking_uri=store).get_metric_history(run.info.run_id, name)
    assert len({point.step for point in history}) == len(history), "a point was logged twice"
    return {point.step: round(point.value, 4) for point in history}


async def test_the_metrics_mlflow_reads_are_those_of_the_log(tmp_path: Path, store: str) -> None:
    events = await trained(
        tmp_path / "run", "tracking.use=mlflow", f"tracking.mlflow.uri={store}", "tracking.project=mine"
    )
    assert warnings(events) == []
    (run,) = runs(store, "mine")
    assert run.info.run_name == "run" and run.info.status == "FINISHED"
    assert run.data.params["train.batch_size"] == "10"
    assert curve(store, run, "val/best") == {
        step: round(value, 4) for step, value in val_curve(events).items()
    }


async def test_two_sessions_are_one_mlflow_run(tmp_path: Path, store: str) -> None:
    settings = ("tracking.use=mlflow", f"tracking.mlflow_uri={store}")
    await trained(tmp_path / "run", *settings, stop_after=2)
    assert [run.info.status for run in runs(store)] == ["KILLED"]
    await trained(tmp_path / "run", *settings)
    (run,) = runs(store)
    assert run.info.status == "FINISHED"
    assert sorted(curve(store, run, "train/hard")) == list(range(1, STEPS + 1))


async def test_another_server_gets_the_whole_run(tmp_path: Path, store: str) -> None:
    await trained(tmp_path / "run", "tracking.use=mlflow", f"tracking.mlflow_uri={store}", stop_after=2)
    await trained(tmp_path / "run", "tracking.use=mlflow", f"tracking.mlflow_uri={store}2")
    (run,) = runs(f"{store}2")
    assert sorted(curve(f"{store}2", run, "train/hard")) == list(range(1, STEPS + 1))
