"""Diary: a tracker that writes every verdict of a run into a text file."""

from pydantic import Field

from skillopt.events import Judged
from skillopt.trackers import Opening, TrackerPlugin, TrackerSettings


class DiarySettings(TrackerSettings):
    title: str = Field(default="Diary", description="The first line of the file.")


class Diary:
    reference = None

    def __init__(self, opening: Opening) -> None:
        opening.folder.mkdir(parents=True, exist_ok=True)
        self._file = (opening.folder / "diary.txt").open("a", encoding="utf-8")
        self._file.write(f"{opening.own.title}: {opening.name}\n")

    def tell(self, event):
        if isinstance(event, Judged):
            self._file.write(f"{event.place}: {event.action}, {event.why}\n")

    def close(self):
        self._file.close()


PLUGIN = TrackerPlugin(open=Diary, Settings=DiarySettings)
