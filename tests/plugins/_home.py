"""A person's home folder for installs: what is in it, and what it looks like as a whole."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from skillopt.changes.actions import JsonEntry, OwnFile, TextLines
from skillopt.changes.install import Installer, InstallPlan
from skillopt.changes.receipts import Receipts, Scope
from skillopt.cli.plugin import agent_names, plugin_of
from skillopt.plugins.kit import Command, Kit, Option, Program, ServerTool
from skillopt.plugins.port import InstallPlace

PROGRAM = Program(argv=("/opt/my tools/bin/skillopt",))
KIT = Kit(
    version="9.8.7",
    program=PROGRAM,
    commands=(
        Command(name="train", help="Train a skill.", options=(Option(name="--json", help="One object."),)),
    ),
    tools=(ServerTool(name="sleep_status", description="Say how nights ended."),),
)
EVERYWHERE = [(name, scope) for name in agent_names() for scope in plugin_of(name).scopes]


def noon() -> datetime:
    """A time."""
    return datetime(2026, 11, 15, 12, tzinfo=timezone.utc)


def installer(home: Path) -> Installer:
    """The installer of a home folder."""
    return Installer(receipts=Receipts(state=home / ".skillopt-sleep"), now=noon)


def put_in(home: Path, name: str, where: InstallPlace, kit: Kit = KIT, **options: Any) -> InstallPlan:
    """Install an agent below a home folder."""
    tool = replace(installer(home), **options)
    return tool.install(where.install(name), plugin_of(name).actions_in(name, where, kit), kit.version)


def take_out(home: Path, name: str, where: InstallPlace) -> InstallPlan:
    """Uninstall it."""
    return installer(home).uninstall(where.install(name))


def place(home: Path, scope: Scope = "user", *, windows: bool = False) -> InstallPlace:
    """A place below that home; a project is a folder in it."""
    project = home / "work" / "a project"
    if scope == "project":
        project.mkdir(parents=True, exist_ok=True)
    return InstallPlace(
        scope=scope, home=home, project=project if scope == "project" else None, env={}, windows=windows
    )


def actions(name: str, where: InstallPlace, kit: Kit = KIT) -> list[OwnFile | JsonEntry | TextLines]:
    """What an install of an agent does."""
    return list(plugin_of(name).actions(where, kit))


def snapshot(folder: Path) -> dict[str, tuple[str, str]]:
    """Everything below a folder: kind, permissions, and content or what a link points to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = stat.filemode(path.lstat().st_mode)
        said = (
            str(path.readlink())
            if path.is_symlink()
            else ""
            if path.is_dir()
            else hashlib.sha256(path.read_bytes()).hexdigest()
        )
        found[str(path.relative_to(folder))] = (mode, said)
    return found


def states(plan: InstallPlan) -> set[str]:
    """What happens to the files of a plan."""
    return {change.state for change in plan.files}
