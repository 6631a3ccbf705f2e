from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from _needs import needs_program
from skillopt.skill.diff import lines_of, unified


def test_equal_texts_have_no_difference() -> None:
    assert unified("a\nb", "a\nb", "x", "y") == ""


def test_a_missing_final_newline_is_shown() -> None:
    shown = unified("a\nb\n", "a\nb", "x", "y")
    assert shown == "--- x\n+++ y\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"


@needs_program("patch", "patch")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a\nb\nc\n", "a\nx\nc\n"),
        ("a\nb", "a\nb\nc"),
        ("a\r\nb\r\n", "a\r\nB\r\n"),
        ("a\u2028b\x0c\nc\n", "a\u2028b\x0c\nd\n"),
        ("a\n", "a"),
    ],
)
def test_patch_can_read_it(tmp_path: Path, a: str, b: str) -> None:
    (tmp_path / "a.md").write_bytes(a.encode())
    subprocess.run(
        ["patch", "--binary", "-s", "a.md"],
        cwd=tmp_path,
        input=unified(a, b, "a.md", "a.md").encode(),
        check=True,
    )
    assert (tmp_path / "a.md").read_bytes() == b.encode()


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "skillopt.skill.diff", *arguments],
        cwd=cwd,
        capture_output=True,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONIOENCODING": "ascii"}


@pytest.mark.slow
def test_it_runs_as_a_program(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("größe\r\n".encode())
    (tmp_path / "b.md").write_bytes("größer\r\n".encode())
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    different = run("a.md", "b.md", cwd=tmp_path)
    assert (different.returncode, different.stderr) == (1, b"")
    assert different.stdout.decode() == "--- a.md\n+++ b.md\n@@ -1 +1 @@\n-größe\r\n+größer\r\n"
    equal = run("a.md", "a.md", cwd=tmp_path)
    assert (equal.returncode, equal.stdout) == (0, b"")
    for arguments, word in (
        (("a.md", "none.md"), b"none.md cannot be read"),
        (("latin.md", "a.md"), b"byte 3"),
        (("a.md",), b"usage"),
    ):
        bad = run(*arguments, cwd=tmp_path)
        assert bad.returncode == 2
        assert word in bad.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_terminal_gets_colours(tmp_path: Path) -> None:
    import pty

    (tmp_path / "a.md").write_text("one [bold]x[/bold]\n")
    (tmp_path / "b.md").write_text("two\n")
    ours, theirs = pty.openpty()
    environment = {**_environment(), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "skillopt.skill.diff", "a.md", "b.md"]
    assert subprocess.run(command, cwd=tmp_path, stdout=theirs, env=environment).returncode == 1
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x1b[31m-one [bold]x[/bold]" in shown
    assert "\x1b[32m+two" in shown


def test_a_removed_fence_is_a_removed_line_and_no_name_of_a_side() -> None:
    difference = unified("---\nname: a\n---\n# A\n", "# A\n", "before", "after") + unified(
        "+++\n", "---\n", "c", "d"
    )
    assert [(kind, line) for kind, line in lines_of(difference) if not line.startswith("@@")] == [
        ("file", "--- before"),
        ("file", "+++ after"),
        ("removed", "----"),
        ("removed", "-name: a"),
        ("removed", "----"),
        ("same", " # A"),
        ("file", "--- c"),
        ("file", "+++ d"),
        ("removed", "-+++"),
        ("added", "+---"),
    ]
