"""What the experiments' command lines share: the options for models, where runs lie, and how an error becomes
a sentence and a code.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _nights import Night

from skillopt.errors import SkillOptError, Stopped, stopped_once_paid
from skillopt.files import temporary_folder
from skillopt_sleep import NightSettings, read_settings


def add_common(parser: argparse.ArgumentParser, *, nights: int) -> None:
    """How many nights and edits, which models, what they may spend, where runs lie, and `--json`."""
    for name, default, what in (
        ("--nights", nights, "most nights, a perfect score ends them"),
        ("--edit-budget", 4, "most edits of a step"),
        ("--budget-tokens", 400_000, "tokens of all nights together"),
    ):
        parser.add_argument(
            name, type=count, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    both = "model string of both roles, such as openai:gpt-5.4-mini; unset: simulated ones"
    parser.add_argument("--model", metavar="MODEL", help=both)
    parser.add_argument("--target", metavar="MODEL", help="model that works with the skill")
    parser.add_argument("--optimizer", metavar="MODEL", help="model that writes the edits")
    kept = "keep the run folders here; the same command goes on with them"
    parser.add_argument("--out", type=Path, metavar="DIR", help=kept)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def named(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """Target and optimizer as they were named; None is a simulated one."""
    return options.target or options.model, options.optimizer or options.model


def settings(**flags: Any) -> NightSettings:
    """The settings of the nights; what cannot be is refused in a sentence. No file of the
    person's is read.
    """
    return read_settings(None, flags).settings


def says(target: str | None, optimizer: str | None) -> str:
    """Which roles are simulated, in a sentence; empty where none is."""
    doubles = [role for role, name in (("target", target), ("optimizer", optimizer)) if name is None]
    if not doubles:
        return ""
    return (
        f"Simulated: {' and '.join(doubles)} {'are doubles' if len(doubles) > 1 else 'is a double'} of this"
        " program, not a model."
    )


@contextmanager
def place(options: argparse.Namespace, name: str) -> Iterator[Path]:
    """Where runs lie: as told; a folder that goes away where nothing was paid for; else one below `outputs/`,
    for going on.
    """
    if options.out is not None:
        yield options.out
    elif named(options) == (None, None):
        with temporary_folder("skillopt-experiment-") as folder:
            yield folder
    else:
        yield Path.cwd() / "outputs" / "sleep-experiments" / name


def line_of(night: Night) -> str:
    """A night in one line, and each of its steps in another."""
    marks = "" if night.result.summary["verified"] else "   (unverified: fewer than 5 tasks decide)"
    marks += "   (the allowance ended it)" if night.is_cut_short else ""
    lines = [f"night {night.number}   val {span(*night.val)}   held-out {span(*night.holdout)}{marks}"]
    lines += [f"  step {step.step}  {step.action:<16} {step.why}" for step in night.result.steps]
    return "\n".join(lines)


def span(before: float | None, after: float | None) -> str:
    """Two figures; what was not measured is said to be so."""
    return " -> ".join("not measured" if one is None else f"{one:.3f}" for one in (before, after))


def print_json(value: Any) -> None:
    """The one object of `--json`."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def run(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """The program's exit code; an error on purpose is one sentence on stderr, with the codes of
    `skillopt`.
    """
    try:
        with stopped_once_paid():
            return asyncio.run(work())
    except SkillOptError as error:
        print(f"{'stopped' if isinstance(error, Stopped) else 'error'}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(
            "stopped: Interrupted. With --out, or with a real model, the same command goes on.",
            file=sys.stderr,
        )
        return 130


def count(text: str) -> int:
    """A whole number above zero, for options."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a whole number from 1 on is needed")
    return number
