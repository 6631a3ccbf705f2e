"""MLflow: one MLflow run for a run of ours, over all its sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from skillopt.events import Checkpoint, Event
from skillopt.trackers._points import Figures
from skillopt.trackers.port import Opening, TrackerPlugin, TrackerSettings

_PARAMS_AT_ONCE = 100
_LONGEST_PARAM = 500


class MLflowSettings(TrackerSettings):
    """The keys below `tracking.mlflow`."""

    uri: str | None = None
    """MLflow server or store; unset leaves it to MLflow's own variables."""


class MLflow:
    """Logs figures as metrics and settings as parameters, to `tracking.mlflow.uri` or where MLflow says."""

    def __init__(self, opening: Opening) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._figures = Figures(opening)
        self._finished = False
        self._client: Any = MlflowClient(tracking_uri=opening.own.uri)
        if opening.earlier is not None:
            self.reference = opening.earlier
            self._client.update_run(self.reference, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(opening.project)
        number = self._client.create_experiment(opening.project) if found is None else found.experiment_id
        tags = {"skillopt.identity": opening.identity}
        run = self._client.create_run(number, run_name=opening.name, tags=tags)
        self.reference = str(run.info.run_id)
        given = {key: str(value) for key, value in opening.settings.items() if value is not None}
        params = [Param(key, value[:_LONGEST_PARAM]) for key, value in given.items()]
        for start in range(0, len(params), _PARAMS_AT_ONCE):
            self._client.log_batch(self.reference, params=params[start : start + _PARAMS_AT_ONCE])

    def tell(self, event: Event) -> None:
        from mlflow.entities import Metric

        when = round(datetime.fromisoformat(event.time).timestamp() * 1000)
        metrics = [Metric(point.name, point.value, when, point.step) for point in self._figures.of(event)]
        if metrics:
            self._client.log_batch(self.reference, metrics=metrics)
        for text in self._figures.texts(event):
            self._client.log_text(self.reference, text.text, f"{text.name}/step_{text.step:04d}.md")
        if isinstance(event, Checkpoint):
            self._finished = event.kind == "finish" and event.state.finished

    def close(self) -> None:
        self._client.set_terminated(self.reference, status="FINISHED" if self._finished else "KILLED")


PLUGIN = TrackerPlugin(open=MLflow, Settings=MLflowSettings, module="mlflow.tracking", extra="mlflow")
