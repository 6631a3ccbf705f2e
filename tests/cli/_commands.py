"""Two ways to run a command: in this process, quickly, and as a real program that can be sent signals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from skillopt.cli import app

SRC = Path(__file__).resolve().parents[2] / "src"
SMALL = ("env.train_cases=24", "env.val_cases=20", "env.test_cases=20")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]


def run(*arguments: str) -> Ran:
    """A command in this process."""
    result = CliRunner().invoke(
        app(arguments[0] if arguments else None), list(arguments), prog_name="skillopt"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def program(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """A command as a program of its own."""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "skillopt", *arguments]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
