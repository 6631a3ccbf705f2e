"""What a real terminal of 80 columns shows: nothing is cut inside a word or a number."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.cells import cell_len

from cli._commands import SMALL, SRC

COLUMNS = 80
COMMANDS = (
    f"train quickstart --out_root runs/a-rather-long-name --cfg-options {' '.join(SMALL)}",
    "runs watch runs",
    "runs explain runs/a-rather-long-name 1",
    "runs explain runs/a-rather-long-name 1 --all",
    "report runs --replay --seconds 0",
    "runs runs",
    "runs show runs/a-rather-long-name",
)


def printed(folder: Path) -> list[str]:
    """The lines that a terminal got from all the commands, one after the other, without its controls."""
    told = f"""
from skillopt.cli import main
for command in {[shlex.split(one) for one in COMMANDS]!r}:
    try:
        main(command)
    except SystemExit as ended:
        assert not ended.code, command
"""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env = {**kept, "PYTHONPATH": str(SRC), "TERM": "xterm-256color"}
    child = subprocess.Popen(
        [sys.executable, "-c", told], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    data = b""
    while True:
        try:
            data += os.read(ours, 65536)
        except OSError:  # the last program that held the terminal ended
            break
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode())
    assert child.wait() == 0, text[-2000:]
    return re.split(r"[\r\n]+", text)


@pytest.mark.slow
def test_nothing_is_cut_inside_a_word_or_a_number(tmp_path: Path) -> None:
    lines = printed(tmp_path)
    broken = [line for line in lines if cell_len(line.rstrip()) > COLUMNS and " " in line.strip()]
    assert not broken
    said = " ".join(" ".join(lines).split())
    run = tmp_path / "runs" / "a-rather-long-name"
    claim = json.loads((run / "summary.json").read_text())["claim"]
    assert said.count(claim) == 4, "train, watch, replay and show say it in the same words"
    for words in ("SkillOpt world · target world · optimizer world", "val score current", "in flight"):
        assert words in said
    for words in ("skillopt report runs/a-rather-long-name", "skillopt dashboard --root", "skillopt adopt"):
        assert words in said, "train names what comes next"
