"""Live facts are written down where a watcher finds them, cost little, and decide nothing."""

from __future__ import annotations

from pathlib import Path

from runs._log import SEED, baseline, six, started, state
from skillopt.events import Arrived, Checkpoint, Event, Notice, StageOpened
from skillopt.events.place import Place
from skillopt.redact import Scrubber
from skillopt.runs.log import Run, read_events
from skillopt.runs.notes import EVERY, LiveNote, LiveWriter
from skillopt.runs.reader import RunReader
from skillopt.runs.status import RunStatus

STEP = Place.of_step(1, 1)


def opened(place: Place, total: int, stage: str = "rollout") -> StageOpened:
    return StageOpened(place=place, stage=stage, total=total)


def arrived(stage: str = "rollout", *, resumed: bool = False) -> Arrived:
    return Arrived(stage=stage, hard=1.0, invalid=None, resumed=resumed)


class Notes:
    def __init__(self) -> None:
        self.written: list[LiveNote] = []

    def note(self, name: str, value: str) -> None:
        self.written.append(LiveNote.model_validate_json(value))


def run(folder: Path) -> Run:
    return Run(folder, {"a": 1}, scrubber=Scrubber([]))


def begun(folder: Path, *events: Event) -> None:
    with run(folder) as open_folder:
        start = started(identity=open_folder.identity)
        for event in (start, *baseline(six(1, 0, 1, 0, 1, 0)), *events):
            open_folder.emit(event)


def test_a_stage_that_opened_and_each_sentence_once_are_lines_without_an_id(tmp_path: Path) -> None:
    for _ in range(2):  # taken up again: the stage opens again, the sentence is known
        begun(tmp_path, Notice(text="few tasks"), opened(STEP, 4))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert sum("few tasks" in line for line in lines) == 1
    assert sum('"stage_opened"' in line for line in lines) == 2
    assert all(event.id is not None for event in read_events(tmp_path / "events.jsonl"))
    assert len(list(read_events(tmp_path / "events.jsonl"))) == len(lines) - 3


def test_nothing_is_written_before_a_run_began_nor_into_one_that_is_finished(tmp_path: Path) -> None:
    with run(tmp_path) as open_folder:
        open_folder.emit(opened(STEP, 4))
    assert not (tmp_path / "events.jsonl").read_bytes()
    begun(tmp_path, Checkpoint(id="finish/finish", kind="finish", state=state(finished=True)))
    before = (tmp_path / "events.jsonl").read_bytes()
    with run(tmp_path) as open_folder:
        open_folder.emit(opened(Place.of_test(1, 1), 4, "test"))
        open_folder.emit(Notice(text="again"))
    assert (tmp_path / "events.jsonl").read_bytes() == before


def test_rows_are_counted_and_the_count_is_written_now_and_then() -> None:
    notes, now = Notes(), [0.0]
    writer = LiveWriter(notes.note, clock=lambda: now[0])
    writer.slowed = lambda: "4 calls a second"
    writer(opened(STEP, 500))
    for number in range(500):
        now[0] += EVERY / 100
        writer(arrived(resumed=number < 50))
        writer(arrived("test"))  # the seed's test in idle slots: nobody watches that
    assert 5 <= len(notes.written) <= 7
    last = notes.written[-1]
    assert (last.stage, last.slowed) == ("rollout", "4 calls a second")
    assert 400 < last.done <= 500 and last.fresh == last.done - 50
    writer(opened(Place.of_step(1, 2), 10))
    now[0] += EVERY
    writer(arrived())
    assert notes.written[-1].done == 1  # another stage begins anew


def test_inside_and_outside_see_the_same_rows_of_the_open_stage(tmp_path: Path) -> None:
    inside = RunStatus(epochs=2)
    begun(tmp_path)
    with run(tmp_path) as open_folder:
        open_folder.database.keep_text(state().seed, SEED)
        inside.replay(open_folder.history())
        open_folder.watch(inside)
        open_folder.live.slowed = lambda: "refused"
        reader = RunReader(tmp_path)
        older, newer = Place.end_of(1).part(arm="older"), Place.end_of(1).part(arm="newer")
        seen = []
        for event in (opened(older, 3), opened(newer, 3), *[arrived()] * 4):
            open_folder.live._at = -EVERY  # every event is written, as if time had passed
            open_folder.emit(event)
            reader.read()
            outside = reader.status
            assert (outside.stage, outside.done, outside.total) == (inside.stage, inside.done, inside.total)
            seen.append(outside.rows())
        assert seen[-1] == "4/6 rows"
        assert reader.status.slowed() == "refused"
