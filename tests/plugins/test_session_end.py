"""The note at the end of a session: a line in a log, quick, and never an agent's problem."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from plugins._home import noon
from skillopt.plugins.session_end import LOG, MOST_BYTES, note

SRC = Path(__file__).resolve().parents[2] / "src"


def test_a_line_says_when_who_and_where(tmp_path: Path) -> None:
    told = json.dumps({"session_id": "s1", "cwd": "/home/ä/my\tproject\n", "reason": "other"}).encode()
    assert note(tmp_path / "state", "claude-code", told, noon())
    assert note(tmp_path / "state", "devin", b"", noon())
    assert (tmp_path / "state" / LOG).read_text(encoding="utf-8").splitlines() == [
        "2026-11-15T12:00:00Z\tclaude-code\ts1\t/home/ä/my project ",
        "2026-11-15T12:00:00Z\tdevin\t-\t-",
    ]
    assert (tmp_path / "state" / LOG).stat().st_mode & 0o777 == 0o600


def test_anything_on_stdin_is_survived(tmp_path: Path) -> None:
    for told in (
        b"\xff\xfe",
        b"[1]",
        b"null",
        b"[" * 100_000,
        b'{"session_id": {"a": 1}, "cwd": "' + b"x" * 10_000 + b'"}',
    ):
        assert note(tmp_path, "a", told, noon())
    assert len((tmp_path / LOG).read_text().splitlines()) == 5


def test_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("old line\n" * (MOST_BYTES // 8))
    note(tmp_path, "a", b"{}", noon())
    text = (tmp_path / LOG).read_text()
    assert len(text) < MOST_BYTES
    assert text.startswith("old line\n")
    assert text.endswith("a\t-\t-\n")


def test_where_it_cannot_be_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert not note(tmp_path / "state", "a", b"{}", noon())


def test_the_command_is_quick_ends_with_0_and_waits_for_nobody(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "skillopt", "plugin", "session-end", "claude-code"]
    started = time.monotonic()
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as program:
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write(b'{"session_id": "s9"}')
        program.stdin.flush()  # and never closed
        assert program.wait(timeout=20) == 0
        assert program.stdout.read() == b""
    assert time.monotonic() - started < 10
    assert "\ts9\t" in (tmp_path / ".skillopt-sleep" / LOG).read_text()
