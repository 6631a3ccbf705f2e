"""`skillopt cache`: what training runs share by themselves, how large it is, and how it is emptied."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from skillopt.cli._console import echo, tell
from skillopt.cli._options import Json, simple
from skillopt.errors import RunConflict, Stopped
from skillopt.run.assembly import MB, cache_folder
from skillopt.runs.database import Database

PANEL, PLACE = "Look at runs", 9


def cache(
    action: Annotated[
        Literal["show", "path", "clear"], typer.Argument(help="show it, print its path, or clear it.")
    ] = "show",
    json: Json = False,
) -> None:
    """Show the rollouts that training runs share by themselves: of models with a key, at temperature 0.

    cache.limit_mb says how large it may grow, what was used longest ago goes first; cache.shared false keeps
    a run out of it. Runs keep their own rollouts, so clearing it loses no run.
    """
    folder = cache_folder()
    if action == "path":
        echo(str(folder))
        return
    files = sorted(folder.glob("*.db"))
    size, rollouts = sum(path.stat().st_size for path in files), sum(map(_rollouts, files))
    if action == "clear":
        for path in folder.glob("*.db*"):
            path.unlink(missing_ok=True)
    told = {"path": str(folder), "bytes": size, "rollouts": rollouts, "cleared": action == "clear"}
    verb = "Cleared" if action == "clear" else f"{folder}:"
    tell(told, [f"{verb} {rollouts:,} rollouts, {size / MB:.1f} MB"], json=json)


def _rollouts(path: Path) -> int:
    """How many a file holds; none where it is damaged or of another version, as no run reads it then."""
    with suppress(RunConflict, Stopped):
        database = Database.reading(path)
        try:
            return database.rollouts()
        finally:
            database.shut()
    return 0


add = simple(cache)
