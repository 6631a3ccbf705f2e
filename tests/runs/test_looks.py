"""Looks at a run's test split that others took: counted once each, and never while the run is at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.errors import RunConflict, UsageError
from skillopt.events import TestMeasured
from skillopt.files import lock
from skillopt.redact import Scrubber
from skillopt.runs.log import Run
from skillopt.runs.notes import LOOKS, Look, MeasuredSkill, note_look, read_looks


def look(*skills: str, target: str = "m", repeats: int = 1) -> Look:
    seen = [
        MeasuredSkill(target=target, target_digest=target, skill=f"{name}.md", digest=name, repeats=repeats)
        for name in skills
    ]
    return Look(tasks=3, seen=seen)


def test_a_look_is_noted_once_however_often_the_same_is_seen(tmp_path: Path) -> None:
    assert read_looks(tmp_path) == []
    assert note_look(tmp_path, look("a", "b"))
    assert not note_look(tmp_path, look("a", "b"))
    assert not note_look(tmp_path, look("b"))
    assert note_look(tmp_path, look("a", target="other"))
    assert note_look(tmp_path, look("a", repeats=2))
    assert [len(one.seen) for one in read_looks(tmp_path)] == [2, 1, 1]


def test_nothing_is_written_into_a_run_at_work(tmp_path: Path) -> None:
    with lock(tmp_path / ".lock"), pytest.raises(RunConflict, match="in use by process"):
        note_look(tmp_path, look("a"))
    assert not (tmp_path / LOOKS).exists()


def test_a_look_is_noted_through_no_link(tmp_path: Path) -> None:
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.write_text("mine\n")
    run.mkdir()
    (run / ".lock").symlink_to(mine)
    with pytest.raises(UsageError, match="a link that leads out of"):
        note_look(run, look("a"))
    assert mine.read_text() == "mine\n"


def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOOKS).write_text("{}\n")
    with pytest.raises(RunConflict, match=LOOKS):
        note_look(tmp_path, look("a"))
    assert (tmp_path / LOOKS).read_text() == "{}\n"


def test_a_later_test_of_the_run_counts_what_was_seen_before_it_and_an_earlier_one_keeps_its_number(
    tmp_path: Path,
) -> None:
    with Run(tmp_path, {}, scrubber=Scrubber(())) as run:
        assert run.looks("test/1") == 0
        run.emit(TestMeasured(id="test/1", look=1, skills={}, rows={}))
    assert note_look(tmp_path, look("a"))
    with Run(tmp_path, {}, scrubber=Scrubber(())) as run:
        assert run.looks("test/1") == 0
        assert run.looks("test/2") == 2
