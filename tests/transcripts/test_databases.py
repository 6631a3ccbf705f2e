"""What is particular to the sources that are databases of other programs: read while in use, never written,
passed over if unknown.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from night._transcripts import START, WRITERS, Talk, copilot_cli, opencode
from skillopt.agents import present, source
from skillopt.transcripts import Homes, harvest
from skillopt.transcripts.session import Harvest, RecordedSession

DATABASES = ("copilot_cli", "opencode")
TALK = Talk()


def read(home: Path, name: str, tally: Harvest | None = None, **homes: object) -> list[RecordedSession]:
    return list(source(name, Homes(home=home, platform="linux", **homes)).sessions(tally=tally))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DATABASES)
def test_what_a_running_program_has_not_yet_put_into_its_database_is_read(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, Talk(id="first"))
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL").fetchall()
    writer.execute(
        "SELECT count(*) FROM sqlite_master"
    ).fetchall()  # while it is open, nothing leaves the log
    WRITERS[name](tmp_path, Talk(id="second"))
    try:
        assert Path(f"{path}-wal").stat().st_size > 0
        before = path.read_bytes()
        assert sorted(session.id for session in read(tmp_path, name)) == ["first", "second"]
        assert path.read_bytes() == before
        # The same as a crash would leave it, or a copy of the two files: a log without its index.
        away = tmp_path / "copy" / path.relative_to(tmp_path)
        away.parent.mkdir(parents=True)
        shutil.copyfile(path, away)
        shutil.copyfile(f"{path}-wal", f"{away}-wal")
        listing = sorted(entry.name for entry in away.parent.iterdir())
        assert sorted(session.id for session in read(tmp_path / "copy", name)) == ["first", "second"]
        assert sorted(entry.name for entry in away.parent.iterdir()) == listing
    finally:
        writer.close()


@pytest.mark.parametrize("name", DATABASES)
def test_nothing_is_made_beside_a_database_while_it_is_read(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, Talk(id="first"))
    WRITERS[name](tmp_path, Talk(id="second"))
    store = sqlite3.connect(path)
    store.execute("PRAGMA journal_mode = WAL").fetchall()
    store.close()
    before = sorted(entry.name for entry in path.parent.iterdir())
    reading = source(name, Homes(home=tmp_path, platform="linux")).sessions()
    next(reading)
    assert sorted(entry.name for entry in path.parent.iterdir()) == before
    assert len(list(reading)) == 1


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_of_an_unknown_version_and_a_file_that_is_none_are_counted(
    name: str, tmp_path: Path
) -> None:
    path = WRITERS[name](tmp_path, TALK)
    path.unlink()
    with sqlite3.connect(path) as store:
        store.execute("CREATE TABLE things (id)")
    store.close()
    tally = Harvest()
    assert read(tmp_path, name, tally) == []
    assert tally.skipped == {"database of an unknown version": 1}
    path.write_bytes(b"no database " * 1000)
    tally = Harvest()
    assert read(tmp_path, name, tally) == []
    assert tally.skipped == {"unreadable file": 1}


def test_one_bad_row_does_not_take_its_session_with_it(tmp_path: Path) -> None:
    path = opencode(tmp_path, TALK)
    with sqlite3.connect(path) as store:
        store.execute("INSERT INTO part VALUES ('bad', ?, ?, 1, '{not json')", (f"{TALK.id}-m004", TALK.id))
        store.execute("INSERT INTO message VALUES ('worse', ?, 1, '[]')", (TALK.id,))
    store.close()
    tally = Harvest()
    (session,) = read(tmp_path, "opencode", tally)
    assert [turn.text for turn in session.prompts] == TALK.prompts
    assert tally.skipped["record that is no JSON object"] == 2


def test_a_message_that_ended_in_an_error_is_a_failure(tmp_path: Path) -> None:
    path = opencode(tmp_path, TALK)
    with sqlite3.connect(path) as store:
        ((id,),) = store.execute(
            "SELECT max(id) FROM message WHERE json_extract(data, '$.role') = 'assistant'"
        ).fetchall()
        store.execute(
            "UPDATE message SET data = ? WHERE id = ?",
            (json.dumps({"role": "assistant", "error": {"name": "Aborted"}}), id),
        )
    store.close()
    (session,) = read(tmp_path, "opencode")
    assert [turn.failed for turn in session.turns if turn.role == "assistant"] == [False, True]


def test_the_text_of_a_skill_in_front_of_a_request_is_not_the_request(tmp_path: Path) -> None:
    text = (
        "HOUSE RULE: be brief.\n\nBase directory for this skill: /home/ann/.agents/skills/house\nRelative"
        " paths in this skill (e.g., scripts/, references/) are relative to this base directory.\n\nWrite a"
        " brief on pricing."
    )
    opencode(tmp_path, Talk(pairs=((text, "Fine."),), skill=None))
    (session,) = read(tmp_path, "opencode")
    assert ([turn.text for turn in session.prompts], session.skills) == (
        ["Write a brief on pricing."],
        ("house",),
    )


def test_opencode_is_found_where_it_was_moved(tmp_path: Path) -> None:
    path = opencode(tmp_path / "a", TALK)
    data = {"XDG_DATA_HOME": str(tmp_path / "a/.local/share")}
    assert len(read(tmp_path, "opencode", env=data)) == 1
    path.rename(path.with_name("other.db"))
    assert len(read(tmp_path, "opencode", env=data)) == 0
    assert len(read(tmp_path, "opencode", env={**data, "OPENCODE_DB": "other.db"})) == 1
    assert len(read(tmp_path, "opencode", env={"OPENCODE_DB": str(path.with_name("other.db"))})) == 1
    assert len(read(tmp_path / "a", "opencode", env={"OPENCODE_DB": ":memory:"})) == 0


def test_times_without_an_offset_are_utc_as_sqlite_writes_them(tmp_path: Path) -> None:
    path = copilot_cli(tmp_path, TALK)
    with sqlite3.connect(path) as store:
        store.execute(
            "UPDATE sessions SET created_at = '2026-11-14 09:00:00', updated_at = '2026-11-14 09:03:00'"
        )
    store.close()
    (session,) = read(tmp_path, "copilot_cli")
    assert session.started == START


def test_a_session_id_cannot_lead_out_of_the_folder_of_logs(tmp_path: Path) -> None:
    copilot_cli(tmp_path, Talk(id="../../elsewhere", skill=None))
    event = {"type": "skill.invoked", "data": {"name": "planted"}}
    for place in (".copilot/session-state/../../elsewhere", "elsewhere"):
        folder = tmp_path / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.jsonl").write_text(json.dumps(event) + "\n")
    (session,) = read(tmp_path, "copilot_cli")
    assert session.skills == ()


def test_sessions_of_opencode_under_the_public_engine_s_agent_are_not_the_person_s(tmp_path: Path) -> None:
    path = opencode(tmp_path, Talk(id="theirs"))
    opencode(tmp_path, Talk(id="mine"))
    with sqlite3.connect(path) as store:
        store.execute("UPDATE session SET agent = ? WHERE id = 'theirs'", (f"skillopt-sleep-{'0af' * 10}12",))
    found = harvest(present(Homes(home=tmp_path, platform="linux")))
    assert [session.id for session in found.sessions] == ["mine"]
    assert found.dropped["our own call"] == 1


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_whose_schema_is_no_text_is_passed_over(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, TALK)
    data = path.read_bytes().replace(b"CREATE TABLE", b"XREATE TABLE")
    path.write_bytes(
        re.sub(rb"table(\w+?)\1", lambda found: b"table" + b"\x80" * len(found[1]) + found[1], data)
    )
    tally = Harvest()
    assert read(tmp_path, name, tally) == []
    assert tally.skipped == {"unreadable file": 1}
