"""`skillopt export`: put a run's best skill where an agent looks for it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, TakeFlagged, option, simple
from skillopt.errors import UsageError
from skillopt.export import ZIP, read_best
from skillopt.export import export as place
from skillopt.runs.reader import run_named

PANEL, PLACE = "Look at runs", 4


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[
        str,
        option("--to", "An agent such as claude-code, codex or cursor, agents for several, or zip.", "AGENT"),
    ],
    name: Annotated[
        str | None, option("--name", "The name of a skill that has none: lowercase, digits, hyphens.")
    ] = None,
    description: Annotated[
        str | None,
        option("--description", "What it does and when to use it; for a skill without frontmatter."),
    ] = None,
    into: Annotated[
        Path | None, option("--into", "The project; the current folder when left out.", "FOLDER")
    ] = None,
    user: Annotated[bool, option("--user", "For all projects: below your home folder.")] = False,
    force: Annotated[
        bool, option("--force", "Replace files that differ; the old ones stay beside them as .bak.")
    ] = False,
    take_flagged: TakeFlagged = None,
    json: Json = False,
) -> None:
    """Install a run's best skill for an agent. What is there and differs is kept unless --force is given."""
    if user and (into is not None or to == ZIP):
        raise UsageError(
            "--user names the home folder of an agent's skills; it goes neither with --into nor with --to"
            " zip."
        )
    folder = Path.home() if user else into if into is not None else Path.cwd()
    best, taken = read_best(run_named(run)), take_flagged or ()
    done = place(best, to, folder, name=name, description=description, force=force, taken=taken)
    if json:
        told = {"name": done.name, "path": done.path, "files": list(map(asdict, done.placed))}
        told |= {"left_alone": done.others, "remarks": done.remarks}
        print_json({**told, "flagged": list(map(asdict, best.flagged))})
        return
    for one in done.placed:
        kept = "" if one.backup is None else f" (the old one is {one.backup})"
        was = " (already there, the same)" if one.state == "unchanged" else ""
        echo(f"{one.state:<9}  {one.path}{kept}{was}")
    for path in done.others:
        echo(f"left alone {path} (not part of this skill)")
    for remark in (*done.remarks, *best.flagged):
        echo(str(remark), err=True)


add = simple(export)
