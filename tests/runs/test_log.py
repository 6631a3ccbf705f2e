"""A run folder: sinks, leftovers, whose it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skillopt.errors import Interrupted, RunConflict
from skillopt.events import SCHEMA, Event, Notice, RunStarted, Spending
from skillopt.redact import Scrubber
from skillopt.runs.database import Database
from skillopt.runs.log import Run, difference
from skillopt.tasks.rollout import Trajectory

NEWS = Spending(calls=1, tokens=2, usd=None, in_flight=0)


def open_run(folder: Path, *sinks, identity=None) -> Run:
    return Run(folder, identity or {"a": 1}, scrubber=Scrubber([]), sinks=sinks)


def test_a_watcher_that_fails_on_news_hears_no_more_and_harms_nobody(tmp_path):
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise BrokenPipeError

    with open_run(tmp_path, broken, heard.append) as run:
        run.emit(NEWS)
        run.emit(NEWS)
    assert heard == [NEWS, NEWS]


def test_a_sink_that_cannot_take_a_fact_stops_the_run_with_the_fact_on_disk(tmp_path):
    def full(event: Event) -> None:
        raise OSError("disk full")

    with open_run(tmp_path, full) as run, pytest.raises(OSError, match="disk full"):
        run.emit(Notice(id="x", text="a fact"))
    with open_run(tmp_path) as run:
        assert [event.id for event in run.history()] == ["x"]


def test_a_watcher_may_stop_the_run_at_any_event(tmp_path):
    def stop(event: Event) -> None:
        raise Interrupted("enough")

    with open_run(tmp_path, stop) as run, pytest.raises(Interrupted):
        run.emit(NEWS)


def test_what_a_killed_write_left_is_swept_up(tmp_path):
    with open_run(tmp_path):
        pass
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / ".record.json.1a2b.tmp").write_text("half")
    with open_run(tmp_path):
        assert not list(tmp_path.rglob("*.tmp"))


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunConflict, match="not a run of SkillOpt"):
        open_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_another_identity_is_refused_with_the_difference(tmp_path):
    with open_run(tmp_path, identity={"model": {"name": "a"}, "seed": 1}) as run:
        answered(run)
    with pytest.raises(RunConflict, match=r'model.name: "a" there, "b" now'):
        open_run(tmp_path, identity={"model": {"name": "b"}, "seed": 1})
    assert difference({"x": [1]}, {"x": [1], "y": 2}) == ["  y: null there, 2 now"]


def answered(run: Run) -> None:
    run.database.keep("rollout", 0, Trajectory(messages=(), answer="a", calls=1, usage=None))


def test_a_folder_in_which_nothing_was_answered_is_free_for_other_settings(tmp_path):
    with open_run(tmp_path, identity={"model": "typo"}) as run:
        run.emit(started(run.identity))
    with open_run(tmp_path, identity={"model": "right"}) as run:
        run.emit(started(run.identity))
        assert [event.identity for event in run.history()] == [run.identity]


def started(identity: str) -> RunStarted:
    return RunStarted(
        id="run",
        identity=identity,
        benchmark="b",
        target="t",
        optimizer="o",
        simulated=False,
        steps=1,
        counts={},
    )


def test_a_log_of_another_run_is_refused_before_anything_is_paid(tmp_path):
    with open_run(tmp_path, identity={"a": 1}) as run:
        run.emit(started(run.identity))
    with open_run(tmp_path, identity={"a": 1}):
        pass
    log = tmp_path / "events.jsonl"
    log.write_text(log.read_text().replace(run.identity, "0" * 16))
    with pytest.raises(RunConflict, match="log of another run"):
        open_run(tmp_path, identity={"a": 1})


@pytest.mark.parametrize("line", ["garbage", "{}", '{"type": "strange"}'])
def test_a_damaged_line_is_named_and_nothing_is_changed(tmp_path, line):
    with open_run(tmp_path) as run:
        run.emit(Notice(id="x", text="a fact"))
    log = tmp_path / "events.jsonl"
    log.write_text(line + "\n" + log.read_text())
    before = log.read_bytes()
    with pytest.raises(RunConflict, match="line 1"):
        open_run(tmp_path)
    assert log.read_bytes() == before


def test_a_log_without_its_database_says_what_is_gone(tmp_path):
    with open_run(tmp_path):
        pass
    (tmp_path / "run.db").unlink()
    with pytest.raises(RunConflict, match=r"run\.db is gone"):
        open_run(tmp_path)


def test_a_database_that_is_none_is_bad_input(tmp_path):
    with open_run(tmp_path):
        pass
    (tmp_path / "run.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(RunConflict, match="cannot be opened"):
        open_run(tmp_path)


STARTED = RunStarted(
    id="run", identity="i", benchmark="b", target="t", optimizer="o", simulated=True, steps=1, counts={}
)


def test_a_log_of_another_form_is_refused_in_one_sentence(tmp_path):
    with open_run(tmp_path) as run:
        run.emit(STARTED.model_copy(update={"identity": run.identity}))
    log = tmp_path / "events.jsonl"
    log.write_text(log.read_text().replace(f'"schema_version":{SCHEMA},', ""))
    with pytest.raises(RunConflict, match=r"another version of SkillOpt \(form 1, this one reads"):
        open_run(tmp_path)


def test_a_database_of_another_form_is_refused_and_left_as_it_is(tmp_path):
    with open_run(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "run.db")) as database:
        database.execute("PRAGMA user_version = 1")
        database.commit()
    before = (tmp_path / "run.db").read_bytes()
    for opening in (open_run, lambda folder: Database.reading(folder / "run.db")):
        with pytest.raises(RunConflict, match="another version of SkillOpt"):
            opening(tmp_path)
    assert (tmp_path / "run.db").read_bytes() == before
