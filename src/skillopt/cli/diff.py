"""`skillopt diff`: show what changed between two skills, or from a run's seed to its best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, argument, simple
from skillopt.errors import UsageError
from skillopt.runs.reader import is_run, read_run, run_named
from skillopt.skill.diff import print_coloured, unified
from skillopt.skill.folder import load_skill

PANEL, PLACE = "Look at runs", 2


def diff(
    a: Annotated[Path, typer.Argument(help="A skill (folder or .md file), or a run folder.")],
    b: Annotated[
        Path | None, argument(None, "The other one; left out, A is a run: its seed against its best.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the difference of two skills. A run stands for its best skill; alone, for seed against best."""
    a, b = run_named(a), None if b is None else run_named(b)
    if b is None and not a.exists():
        raise UsageError(f"There is neither a run nor a skill at {a}.")
    if b is None and not is_run(a):
        raise UsageError(f"{a} is no run folder: name a second skill to compare it with.")
    before, after = (_of_run(a, "seed"), _of_run(a, "best")) if b is None else (_text(a), _text(b))
    difference = unified(before[1], after[1], before[0], after[0])
    if json:
        print_json({"before": before[0], "after": after[0], "equal": not difference, "diff": difference})
        return
    if not difference:
        echo(f"{before[0]} and {after[0]} are equal.")
    print_coloured(difference)


add = simple(diff)


def _text(path: Path) -> tuple[str, str]:
    return _of_run(path, "best") if is_run(path) else (str(path), load_skill(path).document.rendered)


def _of_run(folder: Path, which: str) -> tuple[str, str]:
    run = read_run(folder)
    state = run.fold.state
    if state is None:
        raise UsageError(f"{folder} has measured nothing yet; there is no skill to compare.")
    return f"{folder}:{which}", run.skills.get(getattr(state, which)).rendered
