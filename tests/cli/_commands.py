"""Two ways to run a command: in this process, quickly, and as a real program that can be sent signals."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from skillopt.cli import app
from skillopt.registry.kinds import KINDS

SRC = Path(__file__).resolve().parents[2] / "src"
SMALL = ("env.train_cases=24", "env.val_cases=20", "env.test_cases=20")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed with `--json`."""
        return json.loads(self.out)


Command = Callable[..., Ran]


def run(line: str = "", *more: str) -> Ran:
    """A command in this process: its words in one line, then those that are not split."""
    arguments = [*shlex.split(line), *more]
    plugins = tuple(registry.stamp() for registry in KINDS.values())
    command = _command(arguments[0] if arguments else None, plugins)
    with CliRunner().isolation() as (out, err, _):
        with pytest.raises(SystemExit) as ended:
            command.main(arguments, prog_name="skillopt")
        sys.stdout.flush()
        sys.stderr.flush()
        code = ended.value.code or 0
        assert isinstance(code, int), code
        return Ran(code, _text(out), _text(err))


@lru_cache(maxsize=64)
def _command(wanted: str | None, plugins: Hashable) -> Any:
    """The tree of commands: reading it off all signatures takes longer than most commands."""
    return get_command(app(wanted))


def _text(stream: Any) -> str:
    text: str = stream.getvalue().decode()
    return text.replace("\r\n", "\n")


def program(line: str, *more: str, cwd: Path, stdin: Any = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """A command as a program of its own; its words are those of `run`."""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "skillopt", *shlex.split(line), *more]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=stdin,
        text=True,
    )
