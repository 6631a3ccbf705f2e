"""What is particular to the sources that write lines of JSON: commands, copies, sub-agents, forks, branches,
changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard

from night._transcripts import (
    COPILOT,
    Talk,
    claude_code,
    codex,
    copilot_chat,
    cursor,
    devin,
    jsonl,
    lines,
    millis,
    pi,
    stamp,
)
from skillopt.agents import source
from skillopt.transcripts import Homes
from skillopt.transcripts.records import LimitedStream
from skillopt.transcripts.session import Harvest, RecordedSession

TALK = Talk()
PLAIN = Talk(skill=None, tool=None, odd=False)


def read(home: Path, name: str, tally: Harvest | None = None, **homes: Any) -> list[RecordedSession]:
    return list(source(name, Homes(home=home, platform="linux", **homes)).sessions(tally=tally))


def prompts(session: RecordedSession) -> list[str]:
    return [turn.text for turn in session.prompts]


def edit(path: Path, *more: Mapping[str, Any], at: int | None = None) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    place = len(rows) if at is None else at
    lines(path, [*rows[:place], *more, *rows[place:]])


def claude(kind: str, content: Any, number: int, **more: Any) -> dict[str, Any]:
    base = {"type": kind, "uuid": f"u{number}", "timestamp": stamp(TALK.end), "cwd": TALK.project}
    return base | {"message": {"role": kind, "content": content}} | more


# Claude Code


def test_a_slash_command_that_is_a_skill_is_a_request_and_one_that_is_none_is_not(tmp_path: Path) -> None:
    command = "<command-message>x</command-message>\n<command-name>/{0}</command-name>\n<command-args>{1}</command-args>"
    path = claude_code(tmp_path, PLAIN)
    edit(
        path,
        claude("user", command.format("compact", "keep the plan and nothing else"), 900),
        claude("assistant", [{"type": "text", "text": "Compacted."}], 901),
        claude("user", command.format("brief-writer", "a brief on hiring a salesperson"), 902),
        claude(
            "user",
            [
                {
                    "type": "text",
                    "text": "Base directory for this skill: /x/skills/brief-writer\n\nARGUMENTS: a",
                }
            ],
            903,
            isMeta=True,
        ),
    )
    (session,) = read(tmp_path, "claude_code")
    assert prompts(session) == [*PLAIN.prompts, "a brief on hiring a salesperson"]
    assert session.skills == ("brief-writer",)


def test_a_skill_that_could_not_be_loaded_was_not_used(tmp_path: Path) -> None:
    path = claude_code(tmp_path, PLAIN)
    edit(
        path,
        claude(
            "assistant", [{"type": "tool_use", "id": "a", "name": "Skill", "input": {"skill": "gone"}}], 900
        ),
        claude(
            "user",
            [{"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "Unknown skill: gone"}],
            901,
        ),
        claude(
            "assistant",
            [
                {
                    "type": "tool_use",
                    "id": "b",
                    "name": "Read",
                    "input": {"file_path": "/x/skills/read-one/SKILL.md"},
                }
            ],
            902,
        ),
        claude("user", [{"type": "tool_result", "tool_use_id": "b", "content": "text"}], 903),
        claude(
            "assistant",
            [{"type": "tool_use", "id": "c", "name": "Skill", "input": {"skill": "never-answered"}}],
            904,
        ),
    )
    (session,) = read(tmp_path, "claude_code")
    assert session.skills == ("read-one",)


def test_history_that_a_resumed_session_copied_is_read_once(tmp_path: Path) -> None:
    path = claude_code(tmp_path, PLAIN)
    again = path.with_name("resumed.jsonl")
    again.write_bytes(path.read_bytes())
    edit(again, claude("user", "And now a brief on moving to another cloud.", 900))
    tally = Harvest()
    first, second = read(tmp_path, "claude_code", tally)
    assert (prompts(first), prompts(second)) == (
        PLAIN.prompts,
        ["And now a brief on moving to another cloud."],
    )
    assert tally.skipped["copy of an earlier record"] == 4


def test_an_interrupted_answer_and_an_api_error_are_failures_and_nobodys_prompt(tmp_path: Path) -> None:
    path = claude_code(tmp_path, PLAIN)
    edit(path, claude("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}], 900))
    edit(path, claude("assistant", [{"type": "text", "text": "API Error: 529"}], 901, isApiErrorMessage=True))
    (session,) = read(tmp_path, "claude_code")
    assert prompts(session) == PLAIN.prompts
    assert [turn.failed for turn in session.turns if turn.role == "assistant"] == [False, True]
    assert "API Error" not in repr(session)


def test_claude_code_is_found_where_its_configuration_folder_was_moved(tmp_path: Path) -> None:
    claude_code(tmp_path / "a", TALK)
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / "a/.claude")}
    assert len(read(tmp_path, "claude_code", env=moved)) == 1
    assert len(read(tmp_path, "claude", places={"claude_code": tmp_path / "a/.claude"})) == 1


# Codex


@pytest.mark.parametrize(
    "forms", [("item",), ("event",), ("completed",), ("item", "event"), ("completed", "item")]
)
def test_a_prompt_is_counted_once_in_whatever_forms_a_version_writes_it(
    tmp_path: Path, forms: tuple[str, ...]
) -> None:
    codex(tmp_path, TALK, forms=forms)
    (session,) = read(tmp_path, "codex")
    assert prompts(session) == TALK.prompts
    assert [turn.text for turn in session.turns if turn.role == "assistant" and turn.text] == [
        said for _, said in TALK.pairs
    ]


def test_archived_and_compressed_threads_are_read_and_a_second_copy_is_not(tmp_path: Path) -> None:
    path = codex(tmp_path, TALK)
    later = codex(tmp_path, Talk(id="archived", start=TALK.start + timedelta(hours=1)))
    (tmp_path / ".codex/archived_sessions").mkdir()
    later.rename(tmp_path / ".codex/archived_sessions" / later.name)
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    tally = Harvest()
    assert [session.id for session in read(tmp_path, "codex", tally)] == [TALK.id, "archived"]
    assert tally.dropped["second copy of a session"] == 1
    path.unlink()
    assert [prompts(session) for session in read(tmp_path, "codex")] == [TALK.prompts, TALK.prompts]


def test_a_broken_archive_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    path = codex(tmp_path, TALK)
    whole = zstandard.compress(path.read_bytes())
    path.with_name("rollout-1.jsonl.zst").write_bytes(whole[: len(whole) // 2])
    path.with_name("rollout-2.jsonl.zst").write_bytes(b"no zstd at all")
    tally = Harvest()
    assert [session.id for session in read(tmp_path, "codex", tally)] == [TALK.id]
    assert tally.skipped["unreadable file"] >= 1


def test_an_archive_that_grows_beyond_all_measure_is_not_read_to_its_end() -> None:
    packed = zstandard.compress(b"\n" * 50_000_000)
    stream = LimitedStream(zstandard.ZstdDecompressor().stream_reader(packed), 1_000_000)
    with pytest.raises(OSError, match="unpacks to more"):
        while stream.read(1 << 16):
            pass


@pytest.mark.slow
def test_without_the_extra_a_compressed_thread_is_a_note_that_names_it(tmp_path: Path) -> None:
    path = codex(tmp_path, TALK)
    path.with_name(path.name + ".zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    program = (
        "import sys; sys.modules['zstandard'] = None\n"
        "from pathlib import Path\n"
        "from skillopt.agents import pick\nfrom skillopt.transcripts import Homes, harvest\n"
        "print(harvest(pick(['auto'], Homes(home=Path(sys.argv[1])))).notes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "pip install 'skillopt-trainer[sleep]'" in done.stdout


def test_a_thread_of_a_sub_agent_is_left_out_by_name(tmp_path: Path) -> None:
    codex(tmp_path, Talk(id="a"), source={"subagent": {"thread_spawn": {"depth": 1}}})
    codex(tmp_path, Talk(id="b", start=TALK.start + timedelta(hours=1)), thread_source="subagent")
    tally = Harvest()
    assert read(tmp_path, "codex", tally) == []
    assert tally.dropped == {"session of a sub-agent": 2}


def test_the_history_that_a_fork_copied_is_counted_with_the_thread_it_came_from(tmp_path: Path) -> None:
    codex(tmp_path, TALK)
    fork = Talk(
        id="fork",
        pairs=(*TALK.pairs, ("Now a brief on hiring.", "Here.")),
        start=TALK.start + timedelta(hours=1),
    )
    path = codex(tmp_path, fork, forked_from_id=TALK.id)
    edit(
        path,
        {
            "timestamp": stamp(TALK.start),
            "type": "session_meta",
            "payload": {"id": TALK.id, "cwd": "/elsewhere"},
        },
        at=1,
    )
    first, second = read(tmp_path, "codex")
    assert prompts(first) == TALK.prompts
    assert (second.id, second.project, prompts(second)) == ("fork", TALK.project, ["Now a brief on hiring."])


def test_codex_is_found_where_codex_home_says(tmp_path: Path) -> None:
    codex(tmp_path / "a", TALK)
    assert len(read(tmp_path, "codex", env={"CODEX_HOME": str(tmp_path / "a/.codex")})) == 1


def test_the_request_is_told_from_what_an_editor_put_in_front_of_it(tmp_path: Path) -> None:
    text = (
        "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nWrite a brief on"
        " pricing.\n"
    )
    codex(tmp_path, Talk(pairs=((text, "Fine."),)))
    assert [prompts(session) for session in read(tmp_path, "codex")] == [["Write a brief on pricing."]]


# Copilot Chat


def test_a_log_of_changes_is_replayed_with_sets_cuts_and_deletions(tmp_path: Path) -> None:
    path = copilot_chat(tmp_path, PLAIN)
    request = {
        "agent": COPILOT,
        "timestamp": millis(PLAIN.end),
        "message": {"text": "A third one."},
        "response": [{"value": "Yes."}],
    }
    edit(
        path,
        {
            "kind": 2,
            "k": ["requests"],
            "v": [request, {**request, "message": {"text": "One that is deleted."}}],
        },
        {"kind": 1, "k": ["requests", 2, "message", "text"], "v": "A third brief, please, on hiring."},
        {"kind": 3, "k": ["requests", 3]},
        {"kind": 1, "k": ["requests", 99, "message"], "v": 1},
        {"kind": 9},
    )
    tally = Harvest()
    (session,) = read(tmp_path, "copilot_chat", tally)
    assert prompts(session) == [*PLAIN.prompts, "A third brief, please, on hiring."]
    assert tally.skipped["change that fits nowhere"] == 2


def test_a_workspace_without_a_folder_is_left_out_and_other_editions_are_found(tmp_path: Path) -> None:
    path = copilot_chat(tmp_path, TALK)
    note = path.parent.parent / "workspace.json"
    note.write_text(json.dumps({"workspace": "file:///home/ann/all%20of%20it/shop.code-workspace"}))
    assert [session.project for session in read(tmp_path, "copilot")] == ["/home/ann/all of it"]
    note.write_text(json.dumps({"folder": "vscode-remote://wsl/home/ann"}))
    tally = Harvest()
    assert read(tmp_path, "copilot_chat", tally) == []
    assert tally.dropped == {"workspace without a folder": 1}
    moved = tmp_path / "portable/user-data/User/workspaceStorage"
    moved.parent.mkdir(parents=True)
    (tmp_path / ".config/Code/User/workspaceStorage").rename(moved)
    (moved / "0123abcd/workspace.json").write_text(json.dumps({"folder": "file:///c%3A/Users/Ann/shop"}))
    (session,) = read(tmp_path, "copilot_chat", env={"VSCODE_PORTABLE": str(tmp_path / "portable")})
    assert session.project == "c:/Users/Ann/shop"


# Cursor


def test_an_error_at_the_end_of_a_turn_is_a_failure_and_an_unknown_project_is_none(tmp_path: Path) -> None:
    path = cursor(tmp_path, PLAIN)
    edit(path, {"type": "turn_ended", "status": "error", "error": "User aborted request"})
    (tmp_path / ".cursor/projects/home-ann-shop/.workspace-trusted").unlink()
    (session,) = read(tmp_path, "cursor")
    assert [turn.failed for turn in session.turns if turn.role == "assistant"] == [False, True]
    assert session.project == ""


@pytest.mark.parametrize(
    ("told", "utc"),
    [("1:11 PM (UTC+3)", "10:11"), ("12:05 AM (UTC-7)", "07:05"), ("1:00 AM (UTC+5:30)", "19:30")],
)
def test_a_stamp_in_front_of_a_query_is_read_with_its_offset(tmp_path: Path, told: str, utc: str) -> None:
    query = f"<timestamp>Tuesday, Jul 21, 2026, {told}</timestamp>\n<user_query>Write a brief.</user_query>"
    path = cursor(tmp_path, Talk(pairs=((query, "Yes."),), odd=False))
    os.utime(path, (TALK.end.timestamp(), TALK.end.timestamp()))
    (session,) = read(tmp_path, "cursor")
    assert f"{session.prompts[0].time:%H:%M}" == utc
    assert (prompts(session), session.ended) == (["Write a brief."], TALK.end)


# Pi


def test_version_one_is_a_line_and_a_broken_tree_keeps_what_leads_to_its_end(tmp_path: Path) -> None:
    entry = {"type": "message", "timestamp": stamp(TALK.start)}
    user = {"role": "user", "content": "Write a brief on pricing."}
    folder = tmp_path / ".pi/agent/sessions/--x--"
    lines(folder / "1.jsonl", [{"type": "session", "id": "v1", "cwd": "/x"}, {**entry, "message": user}])
    torn = [
        {"type": "session", "version": 3, "id": "v3", "cwd": "/x"},
        {
            **entry,
            "id": "a",
            "parentId": "missing",
            "message": {**user, "content": "Write a brief on hiring."},
        },
        {**entry, "id": "b", "parentId": "a", "message": {"role": "assistant", "content": "Here."}},
    ]
    circle = [
        torn[0] | {"id": "circle"},
        {**entry, "id": "c", "parentId": "d", "message": user},
        {**entry, "id": "d", "parentId": "c"},
    ]
    lines(folder / "2.jsonl", torn)
    lines(folder / "3.jsonl", circle)
    assert {session.id: prompts(session) for session in read(tmp_path, "pi")} == {
        "v1": ["Write a brief on pricing."],
        "v3": ["Write a brief on hiring."],
        "circle": ["Write a brief on pricing."],
    }


def test_entries_that_a_fork_copied_are_read_once(tmp_path: Path) -> None:
    path = pi(tmp_path, PLAIN)
    fork = path.with_name("2026-11-15_fork.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    last = {"type": "message", "id": "new", "parentId": rows[-1]["id"], "timestamp": stamp(PLAIN.end)}
    rows[0] = rows[0] | {"id": "fork", "parentSession": str(path)}
    lines(fork, [*rows, {**last, "message": {"role": "user", "content": "Now a brief on hiring."}}])
    assert {session.id: prompts(session) for session in read(tmp_path, "pi")} == {
        PLAIN.id: PLAIN.prompts,
        "fork": ["Now a brief on hiring."],
    }


# Devin and plain lines


def test_a_devin_file_of_another_format_and_one_of_a_sub_agent_are_left_out(tmp_path: Path) -> None:
    path = devin(tmp_path, TALK)
    told = json.loads(path.read_text())
    path.with_name("other.json").write_text(json.dumps({**told, "schema_version": "2"}))
    path.with_name("sub.json").write_text(
        json.dumps({**told, "session_id": "sub", "parent_session_id": TALK.id})
    )
    tally = Harvest()
    assert [session.id for session in read(tmp_path, "devin", tally)] == [TALK.id]
    assert (tally.skipped["file of an unknown version"], tally.dropped["session of a sub-agent"]) == (1, 1)


def test_a_devin_session_without_a_folder_takes_the_only_workspace_that_was_named(tmp_path: Path) -> None:
    path = devin(tmp_path, TALK)
    path.write_text(json.dumps({**json.loads(path.read_text()), "extra": None}))
    assert [
        session.project
        for session in read(tmp_path, "devin", env={"SKILLOPT_DEVIN_WORKSPACES": "/home/ann/one"})
    ] == ["/home/ann/one"]
    two = f"/home/ann/one{os.pathsep}/home/ann/two"
    assert [
        session.project for session in read(tmp_path, "devin", env={"SKILLOPT_DEVIN_WORKSPACES": two})
    ] == [""]


def test_plain_lines_may_be_turns_or_whole_sessions(tmp_path: Path) -> None:
    path = jsonl(tmp_path, PLAIN)
    whole = {
        "id": "w",
        "project": "/x",
        "time": stamp(PLAIN.end),
        "messages": [{"role": "user", "content": "Write a brief on hiring."}],
    }
    edit(
        path,
        whole,
        {"session": PLAIN.id, "role": "user", "text": "Too late."},
        {"role": "user", "text": "A file is a session."},
        {"role": "x"},
    )
    tally = Harvest()
    found = {session.id: prompts(session) for session in read(tmp_path, "jsonl", tally)}
    assert found[PLAIN.id] == PLAIN.prompts and found["w"] == ["Write a brief on hiring."]
    assert (tally.skipped["turn apart from its session"], tally.skipped["turn without a known role"]) == (
        3,
        0,
    )


def test_plain_lines_without_a_session_are_one_and_the_file_may_be_named(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "mine.jsonl",
        [{"role": "user", "text": "Write a brief on hiring."}, {"role": "robot", "text": "?"}],
    )
    tally = Harvest()
    (session,) = read(tmp_path, "jsonl", tally, places={"jsonl": path})
    assert (session.id, prompts(session)) == ("mine", ["Write a brief on hiring."])
    assert tally.skipped["turn without a known role"] == 1
