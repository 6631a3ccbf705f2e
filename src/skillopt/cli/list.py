"""`skillopt list`: list what there is to choose from: benchmarks, models, harnesses, packaged configs ..."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, argument, simple
from skillopt.config.files import find, packaged_names
from skillopt.errors import UnknownName
from skillopt.registry.kinds import KINDS as PLUGINS

PANEL, PLACE = "Look things up", 1
KINDS = (*(kind for kind in PLUGINS if kind != "agents"), "configs")


def list_plugins(
    kind: Annotated[str | None, argument("[" + "|".join(KINDS) + "]", "One kind only.")] = None,
    json: Json = False,
) -> None:
    """List benchmarks, models, harnesses, trackers, scorers, gate policies, transcript sources, configs."""
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind of thing to list", kind, KINDS)
    found = {name: _listed(name) for name in KINDS if kind in (None, name)}
    if json:
        print_json(found)
        return
    for name, rows in found.items():
        echo(f"{name}:")
        width = max(map(len, rows), default=0)
        for row, text in rows.items():
            echo(f"  {row:<{width}}  {text}".rstrip())


add = simple(list_plugins)


def _listed(kind: str) -> dict[str, str]:
    if kind == "configs":
        texts = {name: find(name, Path("/")).read_text(encoding="utf-8") for name in packaged_names()}
        return {name: text.split("\n")[0].removeprefix("#").strip() for name, text in texts.items()}
    registry = PLUGINS[kind]
    return {name: registry.describe(name) for name in registry.names()}
