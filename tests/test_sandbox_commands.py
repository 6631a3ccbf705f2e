"""Scoring commands run in the sandbox where there is one: as the user, but without network and with nothing
to change.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from _needs import needs_bubblewrap
from skillopt.errors import ConfigError, ScoringError
from skillopt.process.sandbox import _place
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.scorers.own import CommandScorer
from skillopt.tasks.task import Task

TASK = Task(id="t1", prompt="q", reference="r")


def command(folder: Path, body: str) -> list[str]:
    file = folder / "score.py"
    file.write_text(f"import json, os, sys\njob = json.load(sys.stdin)\n{body}\n")
    return [sys.executable, str(file)]


async def scored(argv: list[str], **options: Any) -> Score:
    return await get_scorer(argv, options=options).score(
        TASK, Trajectory(messages=(), answer="a", calls=1, usage=None)
    )


@needs_bubblewrap
async def test_a_command_reads_its_own_files_and_works_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 0.25\n")
    (tmp_path / "data.txt").write_text("0.5")
    monkeypatch.chdir(tmp_path)
    body = (
        "import helper, tempfile; tempfile.TemporaryFile().write(b'x'); print(helper.VALUE +"
        " float(open('data.txt').read()))"
    )
    assert (await scored(command(tmp_path, body))).soft == 0.75


@needs_bubblewrap
@pytest.mark.parametrize(
    "attempt",
    ["open('{folder}/kept.txt', 'w')", "__import__('socket').create_connection(('127.0.0.1', {port}))"],
)
async def test_a_command_changes_no_file_and_reaches_nobody_unless_it_is_let_out(
    attempt: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = command(tmp_path, attempt.format(folder=tmp_path, port=server.getsockname()[1]) + "\nprint(1)")
        with pytest.raises(ScoringError) as caught:
            await scored(argv)
        assert caught.value.kind == "judge"
        assert "scorer_options: {sandbox: off} runs it outside" in str(caught.value)
        assert not (tmp_path / "kept.txt").exists()
        assert (await scored(argv, sandbox="off")).hard == 1


@pytest.mark.slow
@needs_bubblewrap
async def test_a_command_that_wants_too_much_is_an_error_of_the_scorer(tmp_path: Path) -> None:
    with pytest.raises(ScoringError) as late:
        await scored(command(tmp_path, "while True: pass"), timeout=1)
    assert late.value.kind == "timeout"
    greedy = (
        "import time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(b'x' * (600 << 20));"
        " time.sleep(60)\ntime.sleep(60)"
    )
    with pytest.raises(ScoringError, match="over the limit of memory") as greedy_one:
        await scored(command(tmp_path, greedy), timeout=30)
    assert greedy_one.value.kind == "judge"


def test_where_there_is_no_sandbox_a_command_runs_as_ever_unless_it_was_demanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.defpath", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    _place._trouble.cache_clear()
    try:
        argv = command(tmp_path, "print(1)")
        scorer = get_scorer(argv)
        assert isinstance(scorer, CommandScorer)
        assert scorer.sandbox is None
        with pytest.raises(
            ConfigError, match=r"apt install bubblewrap\), or leave scorer_options.sandbox out"
        ):
            get_scorer(argv, options={"sandbox": "bubblewrap"})
    finally:
        _place._trouble.cache_clear()


@pytest.mark.parametrize("wrong", ["on", "bwrap", True, 1])
def test_another_word_for_the_sandbox_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="write 'bubblewrap' or 'off'"):
        get_scorer([sys.executable], options={"sandbox": wrong})


def test_being_in_the_sandbox_makes_it_no_other_scorer(tmp_path: Path) -> None:
    argv = command(tmp_path, "print(1)")
    assert get_scorer(argv).version == get_scorer(argv, options={"sandbox": "off"}).version
