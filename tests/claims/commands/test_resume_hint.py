"""What a stopped program says to run again is a command that exists, whichever door it came through."""

from __future__ import annotations

import sys

import pytest

from claims._product import _run


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("/x/site-packages/skillopt/__main__.py", "python -m skillopt"),
        ("/x/site-packages/skillopt/run.py", "python -m skillopt.run"),
        ("scripts/train.py", "python scripts/train.py"),
        ("my scripts/run.py", "python 'my scripts/run.py'"),
        ("/x/bin/skillopt-train", "skillopt-train"),
    ],
)
def test_the_command_to_go_on_with(program: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--config", "a b.yaml"])
    assert _run.command() == f"{named} --config 'a b.yaml'"
