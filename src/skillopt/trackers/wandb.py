"""Weights & Biases: one W&B run for a run of ours, over all its sessions; offline if told so."""

from __future__ import annotations

from typing import Any, Literal

from skillopt.events import Event
from skillopt.trackers._points import Figures
from skillopt.trackers.port import Opening, TrackerPlugin, TrackerSettings

_QUIET: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "save_code": False,
    "disable_git": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
}
"""Figures and settings only: nothing of the machine, its terminal or its repository is sent along."""


class WandBSettings(TrackerSettings):
    """The keys below `tracking.wandb`."""

    mode: Literal["online", "offline"] | None = None
    """Whether Weights & Biases sends; unset leaves it to its own variables."""


class WandB:
    """Logs figures by step. `tracking.wandb.mode: offline` keeps all in the run folder for `wandb sync`."""

    def __init__(self, opening: Opening) -> None:
        import wandb

        self._figures = Figures(opening)
        self.reference = opening.earlier or opening.identity[:16]
        opening.folder.mkdir(parents=True, exist_ok=True)
        # a run's own mode keeps its figures here, but not what W&B reports about its use
        if opening.own.mode == "offline":
            wandb.setup(wandb.Settings(mode="offline"))
        self._run: Any = wandb.init(
            project=opening.project,
            id=self.reference,
            name=opening.name,
            resume="allow",
            dir=str(opening.folder),
            mode=opening.own.mode,
            config={key: value for key, value in opening.settings.items() if value is not None},
            settings=wandb.Settings(**_QUIET),
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def tell(self, event: Event) -> None:
        points = list(self._figures.of(event))
        if points:
            self._run.log({"step": points[0].step, **{point.name: point.value for point in points}})
        for text in self._figures.texts(event):
            self._run.log({"step": text.step, f"text/{text.name}": text.text})

    def close(self) -> None:
        self._run.finish()


PLUGIN = TrackerPlugin(open=WandB, Settings=WandBSettings, module="wandb", extra="wandb")
