"""`skillopt export`: put a run's best skill where an agent looks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillopt.cli._console import echo
from skillopt.cli._options import Json
from skillopt.errors import UsageError

if TYPE_CHECKING:
    from skillopt.export import Exported

PANEL, PLACE = "Look at runs", 4


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("export", rich_help_panel=PANEL)(export)


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="AGENT",
            help="An agent such as claude-code, codex or cursor, agents for several, or zip.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="The name of a skill that has none: lowercase, digits, hyphens.",
            show_default=False,
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option(
            "--description",
            help="What it does and when to use it; for a skill without frontmatter.",
            show_default=False,
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="FOLDER",
            help="The project; the current folder when left out.",
            show_default=False,
        ),
    ] = None,
    user: Annotated[bool, typer.Option("--user", help="For all projects: below your home folder.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace files that differ; the old ones stay beside them as .bak."),
    ] = False,
    json: Json = False,
) -> None:
    """Install the best skill of a run for an agent. Nothing that is there and differs is overwritten without
    --force.
    """
    from skillopt.cli import _report
    from skillopt.export import ZIP, read_best
    from skillopt.export import export as place

    if user and (into is not None or to == ZIP):
        raise UsageError(
            "--user names the home folder of an agent's skills; it goes neither with --into nor with --to"
            " zip."
        )
    folder = Path.home() if user else into if into is not None else Path.cwd()
    done = place(read_best(run), to, folder, name=name, description=description, force=force)
    if json:
        _report.print_json(_as_json(done))
    else:
        _show(done)


def _as_json(done: Exported) -> dict[str, object]:
    return {
        "name": done.name,
        "path": str(done.path),
        "files": [
            {
                "path": str(one.path),
                "state": one.state,
                "backup": None if one.backup is None else str(one.backup),
            }
            for one in done.placed
        ],
        "left_alone": [str(path) for path in done.others],
        "remarks": list(done.remarks),
    }


def _show(done: Exported) -> None:
    for one in done.placed:
        kept = "" if one.backup is None else f" (the old one is {one.backup})"
        was = " (already there, the same)" if one.state == "unchanged" else ""
        echo(f"{one.state:<9}  {one.path}{kept}{was}")
    for path in done.others:
        echo(f"left alone {path} (not part of this skill)")
    for remark in done.remarks:
        echo(remark, err=True)
