"""What holds for every transcript source: the person's words once, nobody else's, in UTC, redacted, and
nothing touched.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from night._transcripts import LINES, WRITERS, Talk
from skillopt.agents import SOURCES, present, source
from skillopt.redact import MARK
from skillopt.transcripts import Homes, harvest
from skillopt.transcripts.session import Harvest, RecordedSession

SECRET = "ghp_0123456789abcdefABCDEF0123456789abcd"


@pytest.fixture(params=sorted(WRITERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(home: Path, name: str, **more: object) -> tuple[list[RecordedSession], Harvest]:
    tally = Harvest()
    return list(source(name, Homes(home=home, platform="linux")).sessions(tally=tally, **more)), tally  # type: ignore[arg-type]


def test_every_source_has_its_fixture_and_is_a_plugin() -> None:
    assert SOURCES.names() == sorted(WRITERS)


def test_a_conversation_is_read_as_it_was(name: str, tmp_path: Path) -> None:
    talk = Talk()
    WRITERS[name](tmp_path, talk)
    (session,), tally = read(tmp_path, name)
    assert [turn.text for turn in session.prompts] == talk.prompts
    assert [turn.text for turn in session.turns if turn.role == "assistant" and turn.text] == [
        said for _, said in talk.pairs
    ]
    assert (session.source, session.id, session.project) == (name, talk.id, talk.project)
    assert session.skills == (talk.skill,)
    assert talk.tool in [(tool.name, tool.about) for turn in session.turns for tool in turn.tools]
    assert not session.is_ours
    assert not {"record that is no JSON object", "unreadable file", "change that fits nowhere"} & set(
        tally.skipped
    )


def test_a_prompt_that_really_came_twice_is_there_twice(name: str, tmp_path: Path) -> None:
    talk = Talk(
        pairs=(
            ("Go on with the list of risks.", "One."),
            ("Go on with the list of risks.", "Two."),
            ("Go on please, more", "One."),
        )
    )
    WRITERS[name](tmp_path, talk)
    (session,), _ = read(tmp_path, name)
    assert [turn.text for turn in session.prompts] == talk.prompts
    assert [turn.text for turn in session.turns if turn.role == "assistant" and turn.text] == [
        "One.",
        "Two.",
        "One.",
    ]


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if not hasattr(time, "tzset"):
        pytest.skip("this system cannot change its time zone")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield str(request.param)
    monkeypatch.undo()
    time.tzset()


def test_times_are_utc_and_a_window_of_six_hours_holds_the_same_sessions_in_tokyo(
    name: str, zone: str, tmp_path: Path
) -> None:
    talk = Talk()
    WRITERS[name](tmp_path, talk)
    since = talk.end - timedelta(hours=6)
    (session,), _ = read(tmp_path, name, since=since)
    assert session.started.tzinfo is timezone.utc and session.ended.tzinfo is timezone.utc
    assert session.started == talk.start
    assert session.ended in (talk.end, talk.end - timedelta(minutes=1))


def test_a_session_that_ended_before_is_left_out_and_counted(name: str, tmp_path: Path) -> None:
    talk = Talk()
    WRITERS[name](tmp_path, talk)
    sessions, tally = read(tmp_path, name, since=talk.end + timedelta(hours=3))
    assert sessions == []
    assert sum(tally.dropped.values()) + sum(tally.skipped.values()) >= 1


def test_a_secret_in_every_field_leaves_with_none(name: str, tmp_path: Path) -> None:
    talk = Talk(
        pairs=(
            (f"Use {SECRET} to write the brief.", f"I used {SECRET}."),
            (f"my password is hunter2! and {SECRET}", "Fine."),
        ),
        id=f"id-{SECRET}",
        project=f"/home/ann/{SECRET}",
        skill=f"skill-{SECRET}",
        tool=("Read", f"/tmp/{SECRET}"),
        output=f"token={SECRET}",
    )
    WRITERS[name](tmp_path, talk)
    (session,), _ = read(tmp_path, name)
    told = repr(session)
    assert SECRET not in told and SECRET[4:] not in told and "hunter2" not in told
    assert MARK in session.prompts[0].text and MARK in session.project


def test_a_secret_at_the_cut_leaves_no_half_of_itself(name: str, tmp_path: Path) -> None:
    for number, before in enumerate((7_980, 7_990, 7_999)):
        WRITERS[name](
            tmp_path,
            Talk(pairs=((f"{'word ' * (before // 5)} {SECRET} and so on", "Fine."),), id=f"s{number}"),
        )
    sessions, _ = read(tmp_path, name)
    assert len(sessions) == 3
    assert not any("ghp_" in session.prompts[0].text for session in sessions)


def test_a_line_of_forty_kilobytes_is_read_and_what_is_kept_of_it_is_marked_as_cut(
    name: str, tmp_path: Path
) -> None:
    talk = Talk(pairs=(("Summarise this. " + "a_" * 20_000, "Fine."), ("thanks for that", "Gladly.")))
    WRITERS[name](tmp_path, talk)
    started = time.process_time()
    (session,), _ = read(tmp_path, name)
    assert time.process_time() - started < 10
    first, second = session.prompts
    assert first.text.startswith("Summarise this. a_a_") and first.clipped and len(first.text) <= 8_000
    assert second.text == "thanks for that"


def test_a_call_of_our_own_is_recognised_by_its_folder_or_its_line(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path, Talk(id="one", project="/tmp/skillopt-agent-7kho9h4_/workspace"))
    WRITERS[name](
        tmp_path,
        Talk(id="two", pairs=(("[skillopt run run-2026-11-14]\nAnswer the question below.", "Fine."),)),
    )
    if name in ("copilot_chat", "cursor"):  # where one folder of the program's has one project
        WRITERS[name](tmp_path, Talk(id="one", project="/tmp/skillopt-agent-7kho9h4_/workspace"))
    sessions, _ = read(tmp_path, name)
    assert [session.is_ours for session in sessions] == [True, True]
    found = harvest(present(Homes(home=tmp_path, platform="linux")))
    assert (found.kept, found.dropped["our own call"]) == (0, 2)


def test_a_call_of_the_public_engine_is_no_session_of_the_person(name: str, tmp_path: Path) -> None:
    asked = "Follow this.\n\n---\nname: skillopt-sleep-learned\n---\n\n# Task\n\nWhat is 2 + 2?"
    WRITERS[name](tmp_path, Talk(id="one", pairs=((asked, "4"),)))
    found = harvest(present(Homes(home=tmp_path, platform="linux")))
    assert (found.kept, found.dropped["our own call"]) == (0, 1)


def test_reading_touches_nothing(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path, Talk())
    before = snapshot(tmp_path)
    read(tmp_path, name)
    assert snapshot(tmp_path) == before


def test_an_empty_home_has_no_sources_and_the_process_environment_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    for write in WRITERS.values():
        write(full, Talk())
    variables = {
        "CLAUDE_CONFIG_DIR": ".claude",
        "CODEX_HOME": ".codex",
        "COPILOT_HOME": ".copilot",
        "XDG_DATA_HOME": ".local/share",
    }
    for variable, folder in variables.items():
        monkeypatch.setenv(variable, str(full / folder))
    monkeypatch.setenv("HOME", str(full))
    assert present(Homes(home=empty, platform="linux")) == []
    assert [one.name for one in present(Homes(home=full, platform="linux"))] == sorted(WRITERS)


def test_bad_records_are_counted_and_never_fatal(tmp_path: Path) -> None:
    for name in LINES:
        path = WRITERS[name](tmp_path / name, Talk())
        good = path.read_bytes().splitlines(keepends=True)
        bad = [
            b"not json\n",
            b"\xff\xfe\x00\n",
            b'"a text"\n',
            b"[1, 2]\n",
            b"{}\n",
            b"\n",
            b"[" * 100_000 + b"\n",
            b'{"type": "user", "mess',
        ]
        path.write_bytes(b"".join([good[0], *bad[:-1], *good[1:], bad[-1]]))
        sessions, tally = read(tmp_path / name, name)
        assert [[turn.text for turn in session.prompts] for session in sessions] == [Talk().prompts], name
        assert tally.skipped["record that is no JSON object"] == 6, name


def test_no_record_however_odd_stops_a_source(tmp_path: Path) -> None:
    """Beside every record of a good transcript all that come of it when one value in it is replaced by one of
    the wrong kind.
    """
    for name in LINES:
        path = WRITERS[name](tmp_path / name, Talk(pairs=(("Write a brief on pricing.", "Here it is."),)))
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for number, row in enumerate(rows):
            odd = list(mutants(row))
            assert len(odd) > 20
            path.write_text(
                "".join(json.dumps(each) + "\n" for each in [*rows[:number], *odd, *rows[number:]])
            )
            read(tmp_path / name, name)


def test_no_document_and_no_row_however_odd_stops_a_source(tmp_path: Path) -> None:
    talk = Talk(pairs=(("Write a brief on pricing.", "Here it is."),))
    path = WRITERS["devin"](tmp_path, talk)
    for odd in mutants(json.loads(path.read_text())):
        path.write_text(json.dumps(odd))
        read(tmp_path, "devin")
    path = WRITERS["opencode"](tmp_path, talk)
    with sqlite3.connect(path) as store:
        for table in ("message", "part"):
            for row in store.execute(f"SELECT * FROM {table}").fetchall():
                for number, odd in enumerate(mutants(json.loads(row[-1]))):
                    marks = ", ".join("?" * len(row))
                    store.execute(
                        f"INSERT INTO {table} VALUES ({marks})",
                        (f"{row[0]}-{number}", *row[1:-1], json.dumps(odd)),
                    )
        store.execute("UPDATE session SET time_created = 'soon', directory = X'ff00'")
    store.close()
    (session,), _ = read(tmp_path, "opencode")
    assert session.prompts[0].text.startswith(talk.prompts[0])
    assert "None" not in repr([turn.text for turn in session.turns])
    path = WRITERS["copilot_cli"](tmp_path, talk)
    with sqlite3.connect(path) as store:
        for number, value in enumerate((None, 7, 1.5, b"\xff", "x" * 100)):
            store.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", (f"s{number}", *[value] * 5))
            turn = (f"s{number}", value, value, value, value)
            store.execute(
                "INSERT INTO turns (session_id, turn_index, user_message, assistant_response, timestamp)"
                " VALUES (?, ?, ?, ?, ?)",
                turn,
            )
    store.close()
    assert talk.prompts[0] in [session.prompts[0].text for session in read(tmp_path, "copilot_cli")[0]]


def test_forty_megabytes_in_one_line_are_passed_over_in_little_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = WRITERS["claude_code"](tmp_path, Talk())
    with path.open("ab") as file:
        file.write(b'{"type": "user", "message": {"content": "')
        for _ in range(40):
            file.write(b"x" * 1_000_000)
        file.write(b'"}}\n')
    tracemalloc.start()
    (session,), tally = read(tmp_path, "claude_code")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [turn.text for turn in session.prompts] == Talk().prompts
    assert tally.skipped["record too long"] == 1
    assert peak < 36_000_000


def mutants(value: object) -> Iterator[object]:
    """The value with one part of it replaced, at every depth."""
    yield from (
        None,
        7,
        "text",
        [],
        {},
        [None, 1, "x", {}],
        {"type": 3, "text": 4, "content": 5},
        float("nan"),
        True,
    )
    if isinstance(value, dict):
        for key, item in value.items():
            for changed in mutants(item):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for place, item in enumerate(value):
            for changed in mutants(item):
                yield [*value[:place], changed, *value[place + 1 :]]


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
