"""`skillopt diff`: what changed between two skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo
from skillopt.errors import UsageError

PANEL, PLACE = "Look at runs", 2


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("diff", rich_help_panel=PANEL)(diff)


def diff(
    a: Annotated[Path, typer.Argument(help="A skill (folder or .md file), or a run folder.")],
    b: Annotated[
        Path | None,
        typer.Argument(
            help="The other one; left out, A is a run: its seed against its best.", show_default=False
        ),
    ] = None,
) -> None:
    """Show the difference of two skills. A run folder stands for its best skill; alone, for its seed against
    its best.
    """
    from skillopt.runs.reader import is_run
    from skillopt.skill.diff import print_coloured, unified

    if b is None:
        if not is_run(a):
            raise UsageError(f"{a} is no run folder: name a second skill to compare it with.")
        before, after = _of_run(a, "seed"), _of_run(a, "best")
    else:
        before, after = _text(a), _text(b)
    difference = unified(before[1], after[1], before[0], after[0])
    if not difference:
        echo(f"{before[0]} and {after[0]} are equal.")
    print_coloured(difference)


def _text(path: Path) -> tuple[str, str]:
    from skillopt.runs.reader import is_run
    from skillopt.skill.folder import load_skill

    if is_run(path):
        return _of_run(path, "best")
    return str(path), load_skill(path).document.rendered


def _of_run(folder: Path, which: str) -> tuple[str, str]:
    from skillopt.runs.reader import read_run

    run = read_run(folder)
    state = run.fold.state
    if state is None:
        raise UsageError(f"{folder} has measured nothing yet; there is no skill to compare.")
    return f"{folder}:{which}", run.skills.get(getattr(state, which)).rendered
