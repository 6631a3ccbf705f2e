"""Outputs that break and terminals that go away never end work; text of others never steers a terminal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import SMALL, SRC, run
from cli.test_signals import arguments, slow, wait_for_calls  # noqa: F401 - `slow` is a fixture
from skillopt.redact.printable import printable

TRAIN = ("train", "quickstart", "--quiet", "--num_epochs", "1", "--out_root", "run", "--cfg-options", *SMALL)


def shell(line: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell in which $S is the command."""
    env = {**os.environ, "PYTHONPATH": str(SRC), **environ}
    line = line.replace("$S", f"{shlex.quote(sys.executable)} -m skillopt")
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_output_device_ends_no_training_and_is_told_at_the_end(tmp_path: Path) -> None:
    ended = shell(f"$S {' '.join(TRAIN)} > /dev/full", tmp_path)
    assert ended.returncode == 1
    assert "the output could not be written: No space left on device." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "run" / "best_skill.md").exists()


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&- 2>&-", "2>&-", "<&- >&-", "2> /dev/full"])
def test_closed_outputs_end_no_training(tmp_path: Path, closed: str) -> None:
    ended = shell(f"$S {' '.join(TRAIN)} {closed}", tmp_path)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr + ended.stdout
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
def test_a_reader_that_leaves_early_ends_nothing(tmp_path: Path) -> None:
    line = f"$S {' '.join(TRAIN[: -len(SMALL) - 1])} --plain --cfg-options {' '.join(SMALL)}"
    ended = shell(f"({line} 2>&1; echo $? > code) | head -c 1", tmp_path)
    assert (tmp_path / "code").read_text().strip() == "0"
    assert (tmp_path / "run" / "best_skill.md").exists()
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), [("config list", 0), ("doctor --config missing.yaml", 2)])
def test_a_terminal_that_cannot_show_a_character_gets_another(
    command: str, code: int, tmp_path: Path
) -> None:
    ended = shell(f"$S {command}", tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert ended.returncode == code, ended.stderr
    assert ended.stdout and "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP on this system")
def test_a_lost_terminal_stops_between_decisions(slow: LoopbackProvider, tmp_path: Path) -> None:  # noqa: F811
    before = slow.calls
    running = subprocess.Popen(
        [sys.executable, "-m", "skillopt", *arguments(slow, "run")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under `nohup`
    )
    wait_for_calls(slow, before + 10)
    running.send_signal(signal.SIGHUP)
    running.send_signal(signal.SIGHUP)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "To go on, run the same command" in err


@pytest.mark.slow
@pytest.mark.parametrize(("files", "codes"), [(11, (2, 3)), pytest.param(24, (0, 3), marks=pytest.mark.slow)])
def test_too_few_open_files_is_a_sentence(files: int, codes: tuple[int, ...], tmp_path: Path) -> None:
    ended = shell(f"ulimit -n {files}; $S {' '.join(TRAIN)}", tmp_path)
    assert ended.returncode in codes, ended.stderr
    assert "Traceback" not in ended.stderr


def test_escapes_of_a_skill_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    before, after = tmp_path / "a.md", tmp_path / "b.md"
    before.write_text("# A\n")
    after.write_text("# A\n\x1b]0;owned\x07\x1b[2J and \u202ebackwards\n")
    shown = run("runs diff", str(before), str(after))
    assert "\x1b" not in shown.out and "\x07" not in shown.out and "\u202e" not in shown.out
    assert "␛]0;owned␇␛[2J and <U+202E>backwards" in shown.out


def test_printable_text_stays_as_it_is() -> None:
    assert printable("Grüße, 世界 👋\tund\nmehr") == "Grüße, 世界 👋\tund\nmehr"
    assert printable("a\nb", keep="") == "a␊b"
    assert printable("\x7f\x85\ud800") == "␡\ufffd\ufffd"
