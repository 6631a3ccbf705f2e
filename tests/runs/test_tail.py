"""Reading a log and a ledger again and again: nothing twice, nothing half."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillopt.errors import RunConflict
from skillopt.events import Notice, RunStarted
from skillopt.messages import Usage
from skillopt.money import Amount
from skillopt.runs.database import Database
from skillopt.runs.tail import DatabaseTail, EventTail


def notice(number: int) -> str:
    return Notice(id=f"n{number}", text=f"number {number}").model_dump_json() + "\n"


def test_a_log_is_read_once_and_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    tail = EventTail(log)
    assert (tail.gained(), list(tail.read())) == (0, [])  # not there yet
    whole, half = notice(1), notice(2)
    log.write_text(whole + half[:20])
    assert [event.id for event in tail.read()] == ["n1"]
    assert list(tail.read()) == [] and tail.gained() == 20
    log.write_text(whole + half)
    assert [event.id for event in tail.read()] == ["n2"]


def test_a_log_that_was_put_back_is_to_be_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(notice(1) + notice(2))
    tail = EventTail(log)
    assert len(list(tail.read())) == 2
    log.write_text(notice(1))
    assert tail.gained() is None
    log.unlink()
    assert tail.gained() is None


def test_a_line_of_another_program_is_named(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(notice(1) + '{"type": "weather"}\n')
    tail = EventTail(log)
    assert next(tail.read()).id == "n1"
    for _ in range(2):  # and again at the next look
        with pytest.raises(RunConflict, match="line 2"):
            list(tail.read())


def test_a_log_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunConflict, match=r"events\.jsonl cannot be read: Not a directory"):
        EventTail(tmp_path / "file" / "events.jsonl").gained()


def test_only_the_wanted_types_are_read(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    started = RunStarted(
        id="run", identity="x", benchmark="b", target="t", optimizer="o", simulated=False, steps=1, counts={}
    )
    broken = json.dumps({"id": "n", "time": "", "type": "notice", "nonsense": 1}, separators=(",", ":"))
    log.write_text(started.model_dump_json() + "\n" + broken + "\n")
    assert list(EventTail(log, only=["run_started"]).read()) == [started]


def test_an_attempt_is_told_when_it_opens_and_again_when_it_closes_and_not_in_between(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    tail = DatabaseTail(path)
    assert tail.read() is None
    database = Database(path)
    first = database.open("target", "rollout", "rollout/k.0/0", Amount(calls=1, tokens=100))
    news = tail.read()
    assert news is not None and [(one.id, one.state) for one in news.entries] == [(first, "open")]
    news = tail.read([first])
    assert news is not None and news.entries == []
    database.close(first, "settled", Amount(calls=1, tokens=7), Usage(input_tokens=5, output_tokens=2))
    second = database.open("target", "rollout", "rollout/l.0/0", Amount(calls=1, tokens=100))
    news = tail.read([first])
    assert news is not None
    assert {(one.id, one.state, one.charged.tokens) for one in news.entries} == {
        (first, "settled", 7),
        (second, "open", 100),
    }
    database.shut()
