"""`skillopt doctor` on nights: what they need is there or named with its remedy, nothing is written, and no
session is shown.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from cli._commands import run
from night._nights import RULE, Person, scripted
from night._sessions import SUBJECTS

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes of files are those of POSIX")
KEY = "sk-simulated-0123456789abcdef"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    made = Person(tmp_path / "home", now=datetime.now(timezone.utc)).write()
    (made.home / ".skillopt-sleep").chmod(0o700)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, said in (("crontab", "no crontab for me"), ("systemctl", "")):
        (programs / name).write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.chdir(made.project)
    return made


def settings(person: Person, text: str) -> None:
    (person.home / ".skillopt-sleep" / "config.yaml").write_text(text)


def doctor(*words: str) -> dict[str, list[dict[str, Any]]]:
    """What was found about nights, by name; and all of it as text under ''."""
    ran = run("doctor --json", *words)
    told = ran.json
    found: dict[str, list[dict[str, Any]]] = {
        "": [{"text": ran.out + ran.err, "spent": told["spent"], "code": ran.code}]
    }
    for check in told["checks"]:
        if check["area"] == "nights":
            found.setdefault(check["name"], []).append(check)
    return found


def one(found: dict[str, list[dict[str, Any]]], name: str) -> tuple[str, str]:
    (check,) = found[name]
    return check["state"], f"{check['text']} {check.get('remedy', '')}"


def test_without_nights_there_is_one_line_and_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    state, text = one(doctor("--no-calls"), "nights")
    assert state == "skipped" and "there were none so far" in text


def test_all_that_nights_need_is_looked_at_with_one_call_and_nothing_is_written_or_shown(
    person: Person,
) -> None:
    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        settings(person, f"model: compatible:m@{provider.base_url}\n")
        before = {path: path.stat().st_mtime_ns for path in person.home.rglob("*")}
        found = doctor()
        assert len(provider.log) == 1, "one model for both roles is asked once"
    assert {path: path.stat().st_mtime_ns for path in person.home.rglob("*")} == before
    assert one(found, "settings")[0] == one(found, "folder")[0] == one(found, "target: call")[0] == "fine"
    assert one(found, "decisions")[0] == one(found, "schedule")[0] == "skipped"
    assert one(found, "transcripts") == ("fine", "sessions of the last 72 hours: jsonl 20 ")
    assert one(found, "proposals") == ("fine", "none ")
    assert found[""][0]["spent"]["calls"] == 1
    assert not any(subject in found[""][0]["text"] for subject in SUBJECTS), "no session is shown"


def test_each_different_model_is_asked_once_and_none_without_calls(person: Person) -> None:
    caps: list[int] = []

    def answer(call: Call) -> str:
        caps.append(call.body["max_tokens"])
        return "ok"

    with LoopbackProvider.in_thread(answer) as provider:
        names = {role: f"compatible:{role}@{provider.base_url}" for role in ("target", "optimizer", "judge")}
        settings(person, "".join(f"{role}_model: {name}\n" for role, name in names.items()))
        doctor("--no-calls")
        assert caps == []
        found = doctor()
    assert caps == [16, 16, 16]
    assert [one(found, f"{role}: call")[0] for role in names] == ["fine"] * 3


@pytest.mark.parametrize(
    ("text", "name", "state", "words"),
    [
        ("modle: openai:m\n", "settings", "fix", r"Did you mean 'model'\?"),
        ("model: [openai\n", "settings", "fix", "is not valid YAML"),
        ("codex_path: /x\n", "settings", "note", r"codex_path \(.*config\.yaml:1\) has no effect"),
        ("backend: mock\n", "models", "fix", "simulated world"),
        ("target_model: openai:m\n", "models", "fix", "its optimizer is not"),
        ("model: openai:gpt-5.4-mini\n", "target: configured", "fix", "OPENAI_API_KEY"),
        ("seed: 3\n", "models", "note", "none is named"),
        ("transcript_source: codx\n", "transcripts", "fix", r"Did you mean 'codex'\?"),
    ],
)
def test_what_is_wrong_with_the_settings_is_named_and_hides_nothing_else(
    person: Person, text: str, name: str, state: str, words: str
) -> None:
    settings(person, text)
    found = doctor("--no-calls")
    told = [(check["state"], f"{check['text']} {check.get('remedy', '')}") for check in found[name]]
    assert any(one_state == state and re.search(words, said) for one_state, said in told), told
    assert {"settings", "folder", "decisions", "transcripts", "schedule", "proposals"} <= set(found)


def test_a_folder_or_a_key_that_others_can_read_is_to_be_fixed(person: Person) -> None:
    folder = person.home / ".skillopt-sleep"
    (folder / ".env").write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL=http://127.0.0.1:9/v1\n")
    (folder / "journal.json").write_bytes(b"{}")
    (folder / "journal.json").chmod(0o644)
    folder.chmod(0o755)
    (folder / ".env").chmod(0o644)
    settings(person, "model: openai:gpt-5.4-mini\n")
    found = doctor("--no-calls")
    assert one(found, "folder")[0] == one(found, "decisions")[0] == "fix"
    assert f"chmod 700 {folder}" in one(found, "folder")[1] and KEY not in found[""][0]["text"]
    assert one(found, "target: configured")[0] == "fine", "its key is in the person's own .env"


@pytest.mark.slow
def test_an_open_night_and_a_proposal_that_waits_are_told(person: Person) -> None:
    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        run("sleep run --quiet --model", f"compatible:m@{provider.base_url}")
    state = next((person.home / ".skillopt-sleep" / "projects").glob("*/state.json"))
    state.write_text(json.dumps({**json.loads(state.read_text()), "open": 1}))
    found = doctor("--no-calls")
    assert one(found, "proposals")[0] == "note" and "1 pending" in one(found, "proposals")[1]
    assert (
        one(found, "nights")[0] == "note"
        and f"night 1 of {person.project} is open" in one(found, "nights")[1]
    )
    assert one(found, "decisions")[0] == "fine"
    (person.home / ".skillopt-sleep").chmod(0o755)
    assert one(doctor("--no-calls"), "folder")[0] == "fine", "what a night keeps is closed of itself"
    state.parent.chmod(0o755)
    assert one(doctor("--no-calls"), "folder")[0] == "fix"


@pytest.mark.skipif(sys.platform != "linux", reason="cron is how Linux without systemd does it")
def test_a_schedule_is_seen_and_one_whose_program_is_gone_is_to_be_fixed(
    person: Person, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    table.write_text("5 4 * * * somebody elses\n")
    script = f'#!/bin/sh\nif [ "$1" = "-l" ]; then cat {table}; else cat > {table}; fi\n'
    (tmp_path / "bin" / "crontab").write_text(script)
    assert run("sleep schedule --model handoff --scheduler cron").code == 0
    assert one(doctor("--no-calls"), "schedule") == ("fine", f"{person.project} every night at 03:17 ")
    program = str(Path(sys.executable).with_name("skillopt-sleep"))
    for written in (shlex.quote(program), program):  # as the shell reads it, and as our comment keeps it
        table.write_text(table.read_text().replace(written, "/nowhere/skillopt-sleep"))
    state, text = one(doctor("--no-calls"), "schedule")
    assert state == "fix" and "/nowhere/" in text and "skillopt sleep schedule" in text
