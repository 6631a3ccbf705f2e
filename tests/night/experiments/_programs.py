"""Runs an experiment's program as a person would, and reads what it left."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).resolve().parents[3] / "examples" / "nights" / "README.md").read_text(encoding="utf-8")
"""What people are told they will see."""


@dataclass(frozen=True)
class Ran:
    """What a program printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What `--json` printed: one object and nothing else."""
        return json.loads(self.out)


def run(main: Callable[..., int], *arguments: object, **given: Any) -> Ran:
    """Call a program with these arguments; what argparse refuses ends like a program, too."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(one) for one in arguments], **given)
        except SystemExit as ended:
            code = int(str(ended.code))
    return Ran(code, out.getvalue(), err.getvalue())


def log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run as they lie in its folder."""
    return [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def of_type(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The events of one type, in order."""
    return [event for event in events if event["type"] == name]
