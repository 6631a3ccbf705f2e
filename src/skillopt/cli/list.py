"""`skillopt list`: what there is to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo
from skillopt.cli._options import Json
from skillopt.errors import UnknownName

PANEL, PLACE = "Look things up", 1
KINDS = ("benchmarks", "models", "harnesses", "trackers", "scorers", "gate", "transcripts", "configs")


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("list", rich_help_panel=PANEL)(list_plugins)


def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[" + "|".join(KINDS) + "]", help="One kind only.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List benchmarks, model providers, harnesses, trackers, scorers, gate policies, transcript sources and
    packaged configs.
    """
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind of thing to list", kind, KINDS)
    found = {name: _listed(name) for name in KINDS if kind in (None, name)}
    if json:
        from skillopt.cli import _report

        _report.print_json(found)
        return
    for name, rows in found.items():
        echo(f"{name}:")
        width = max(map(len, rows), default=0)
        for row, text in rows.items():
            echo(f"  {row:<{width}}  {text}".rstrip())


def _listed(kind: str) -> dict[str, str]:
    from skillopt import registries

    if kind == "configs":
        return _configs()
    registry = registries.KINDS[kind]
    return {name: registry.describe(name) for name in registry.names()}


def _configs() -> dict[str, str]:
    from skillopt.config import packaged_names
    from skillopt.config.files import find

    found = {}
    for name in packaged_names():
        first = find(name, Path("/")).read_text(encoding="utf-8").split("\n")[0]
        found[name] = first.removeprefix("#").strip()
    return found
