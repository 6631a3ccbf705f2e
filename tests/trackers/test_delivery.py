"""A tracker never costs the run anything: what fails is said once, and the result is the same."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _comparable import comparable
from skillopt.errors import ConfigError, UnknownName
from skillopt.events import Event, Notice
from skillopt.run.tracking import Delivery
from skillopt.trackers import otel
from skillopt.trackers.mlflow import MLflowSettings
from skillopt.trackers.port import Opening, TrackerPlugin
from trackers._runs import facts, trained, warnings
from trackers.test_otel import Collector


class Recorder:
    """A tracker that remembers, and fails or hangs when told to."""

    reference = "r1"

    def __init__(self, opening: Opening, fails_at: int = -1, hang: threading.Event | None = None) -> None:
        self.opening, self.told, self.fails_at, self.hang = opening, [], fails_at, hang

    told: list[Event]

    def tell(self, event: Event) -> None:
        if self.hang is not None:
            self.hang.wait(30)
        if len(self.told) == self.fails_at:
            raise OSError("disk full\nand a second line")
        self.told.append(event)

    def close(self) -> None:
        """Nothing is open."""


def delivery(folder: Path, notices: list[Notice], **how: Any) -> tuple[Delivery, Callable[[], Recorder]]:
    made: list[Recorder] = []

    def open_(opening: Opening) -> Recorder:
        made.append(Recorder(opening, **how))
        return made[-1]

    opening = Opening(
        folder=folder / "tracking" / "mine", name="run", identity="abc", project="p", settings={}
    )
    return Delivery("mine", TrackerPlugin(open=open_), opening, warn=notices.append), lambda: made[-1]


def news(*numbers: int) -> list[Event]:
    return [Notice(id=f"n{number}", text=str(number)) for number in numbers]


def test_a_failing_tracker_warns_once_and_is_told_the_rest_next_time(tmp_path: Path) -> None:
    notices: list[Notice] = []
    one, recorder = delivery(tmp_path, notices, fails_at=2)
    one.start(news(1))
    for event in news(2, 3, 4):
        one(event)
    one.close()
    one(news(5)[0])
    assert [notice.text for notice in notices] == [
        "Tracker mine: OSError: disk full. The run goes on without it."
    ]
    assert [event.id for event in recorder().told] == ["n1", "n2"]

    again, recorder = delivery(tmp_path, notices)
    again.start(news(1, 2, 3, 4, 5))
    again.close()
    assert [event.id for event in recorder().told] == ["n3", "n4", "n5"]
    assert recorder().opening.earlier == "r1"


def test_a_tracker_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt.run.tracking.PATIENCE_SECONDS", 0.2)
    hang, notices = threading.Event(), list[Notice]()
    one, _ = delivery(tmp_path, notices, hang=hang)
    one.start(news(1))
    one.close()
    hang.set()
    assert len(notices) == 1 and "did not take everything" in notices[0].text


def test_what_a_tracker_calls_the_run_is_kept_before_the_first_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt.run.tracking.PATIENCE_SECONDS", 0.2)
    hang = threading.Event()
    one, _ = delivery(tmp_path, [], hang=hang)
    one.start(news(1))
    one.close()  # it hangs in the first fact, as if its process had died there
    kept = json.loads((tmp_path / "tracking" / "mine.json").read_text())
    hang.set()
    assert (kept["told"], kept["reference"]) == (0, "r1")


def test_a_run_that_was_deleted_at_the_tracker_is_a_warning_that_says_how_to_begin_anew(
    tmp_path: Path,
) -> None:
    one, _ = delivery(tmp_path, [])
    one.start(news(1))
    one.close()
    notices: list[Notice] = []

    def gone(opening: Opening) -> Recorder:
        raise ValueError(f"The run {opening.earlier} is deleted.")

    opening = Opening(
        folder=tmp_path / "tracking" / "mine", name="run", identity="abc", project="p", settings={}
    )
    again = Delivery("mine", TrackerPlugin(open=gone), opening, warn=notices.append)
    again.start(news(1))
    again.close()
    assert len(notices) == 1
    assert (
        f"The run r1 is deleted (to begin anew there, remove {tmp_path / 'tracking' / 'mine.json'}). The run"
        in notices[0].text
    )


def test_a_library_that_cannot_be_imported_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_tracker_library.py").write_text("raise OSError('no such device')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    notices: list[Notice] = []
    opening = Opening(
        folder=tmp_path / "tracking" / "mine", name="run", identity="abc", project="p", settings={}
    )
    one = Delivery(
        "mine", TrackerPlugin(open=Recorder, module="broken_tracker_library"), opening, warn=notices.append
    )
    one.start(news(1))
    one(news(2)[0])
    one.close()
    assert [notice.text for notice in notices] == [
        "Tracker mine: OSError: no such device. The run goes on without it."
    ]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"told": "x"}'])
def test_damaged_notes_mean_from_the_beginning(tmp_path: Path, damage: str) -> None:
    (tmp_path / "tracking").mkdir()
    (tmp_path / "tracking" / "mine.json").write_text(damage)
    one, recorder = delivery(tmp_path, [])
    one.start(news(1, 2))
    one.close()
    assert [event.id for event in recorder().told] == ["n1", "n2"]


@pytest.mark.slow
async def test_a_dead_collector_changes_nothing_but_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otel, "_TIMEOUT_SECONDS", 1)
    plain = await trained(tmp_path / "plain")
    with socket.socket() as taken:  # bound and never listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        followed = await trained(tmp_path / "followed", "tracking.use=otel", f"tracking.otel_endpoint={url}")
    assert [text.split(":")[0] for text in warnings(followed)] == ["Tracker otel"]
    assert [comparable(event) for event in facts(followed)] == [comparable(event) for event in facts(plain)]


async def test_a_collector_that_refuses_is_named(tmp_path: Path) -> None:
    collector = Collector(status=400)
    events = await trained(tmp_path / "run", "tracking.use=otel", f"tracking.otel_endpoint={collector.url}")
    collector.server.shutdown()
    assert len(warnings(events)) == 1 and "did not take" in warnings(events)[0]


async def test_what_cannot_work_is_refused_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="tensorboard"):
        await trained(tmp_path / "a", "tracking.use=tensorbord")
    from skillopt.run import tracking

    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'skillopt-trainer\[mlflow\]'"):
        await trained(tmp_path / "b", "tracking.use=mlflow")


@pytest.mark.slow
async def test_no_key_reaches_a_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    key, store = "sk-canary-000111222333444555", (tmp_path / "mlruns").as_uri()
    await trained(
        tmp_path / "run",
        "tracking.use=tensorboard,mlflow",
        f"tracking.mlflow_uri={store}",
        f"tracking.project=about {key}",  # written where nobody should: it is taken out there too
        f"model.target.api_key={key}",
    )
    everything = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert list(tmp_path.glob("mlruns/*/*/params/train.batch_size")), (
        "settings were not sent, so nothing was shown"
    )
    assert key.encode() not in everything
    assert json.loads((tmp_path / "run" / "tracking" / "tensorboard.json").read_text())["told"] > 5


def test_the_address_of_a_tracker_is_kept_as_a_digest(tmp_path: Path) -> None:
    opening = Opening(
        folder=tmp_path / "mine",
        name="run",
        identity="a",
        project="p",
        settings={},
        own=MLflowSettings(uri="http://me:hush-hush@127.0.0.1:9"),
    )
    one = Delivery("mine", TrackerPlugin(open=Recorder), opening, warn=lambda notice: None)
    one.start(news(1))
    one.close()
    notes = (tmp_path / "mine.json").read_text()
    assert json.loads(notes)["told"] == 1 and "hush" not in notes
