"""TensorBoard: event files in the run folder, for `tensorboard --logdir`."""

from __future__ import annotations

from typing import Any

from skillopt.events import Event
from skillopt.trackers._points import Figures
from skillopt.trackers.port import Opening, TrackerPlugin


class TensorBoard:
    """Writes every figure as a scalar; a later session of the run adds a further file beside the first."""

    reference = None

    def __init__(self, opening: Opening) -> None:
        from tensorboardX import SummaryWriter

        self._figures = Figures(opening)
        # Files are named by the second; of two short sessions the later one would overwrite the other.
        session = len(list(opening.folder.iterdir())) if opening.folder.is_dir() else 0
        self._writer: Any = SummaryWriter(str(opening.folder), filename_suffix=f".{session}")

    def tell(self, event: Event) -> None:
        for point in self._figures.of(event):
            self._writer.add_scalar(point.name, point.value, point.step)
        for text in self._figures.texts(event):
            self._writer.add_text(text.name, f"```\n{text.text}\n```", text.step)
        self._writer.flush()  # what was told is on disk before it counts as told

    def close(self) -> None:
        self._writer.close()


PLUGIN = TrackerPlugin(open=TensorBoard, module="tensorboardX", extra="tensorboard")
