"""`skillopt plugin`: install SkillOpt into the agents you use, and take it out again."""

from __future__ import annotations

import contextlib
import os
from json import dumps, loads
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from skillopt.changes.install import Installer
from skillopt.changes.receipts import Receipts
from skillopt.cli import _plugin
from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, argument, group, option, simple
from skillopt.errors import SkillOptError, UsageError
from skillopt.plugins.port import InstallPlace

PANEL, PLACE = "Look things up", 7

Name: TypeAlias = Annotated[str, argument("AGENT", "An agent of 'skillopt plugin list'.")]
Project: TypeAlias = Annotated[
    Path | None, option("--project", "For one project: below this folder.", "FOLDER")
]
User: TypeAlias = Annotated[bool, option("--user", "For all your projects: below your home folder.")]
DryRun: TypeAlias = Annotated[
    bool, option("--dry-run", "Say what would be done to which file, and do nothing.")
]


def list_agents(json: Json = False) -> None:
    """List the agents SkillOpt can be installed into, what each of them gets, and where it is installed."""
    told = _plugin.listed(_installer())
    (print_json if json else _plugin.show_list)(told)


def install(
    agent: Name,
    project: Project = None,
    user: User = False,
    portable: Annotated[
        bool,
        typer.Option(
            "--portable",
            help="Call 'skillopt' from PATH, not by its path on this machine: for files you share.",
        ),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Install SkillOpt into an agent. Nothing is overwritten; 'uninstall' puts every file back as it was.

    Installing again brings it up to date, and changes nothing where it is.
    """
    installer, place = _installer(), _place(agent, project, user)
    kit = _plugin.kit(portable=portable)
    which, actions = place.install(agent), _plugin.plugin(agent).actions_in(agent, place, kit)
    done = installer.plan(which, actions) if dry_run else installer.install(which, actions, kit.version)
    remarks = _plugin.remarks(agent, place, kit, portable=portable)
    told = _plugin.told(agent, place, done, dry_run=dry_run, remarks=remarks)
    (print_json if json else _plugin.show)(told)


def uninstall(
    agent: Name, project: Project = None, user: User = False, dry_run: DryRun = False, json: Json = False
) -> None:
    """Take SkillOpt out of an agent: every file as it was, or without our part where you changed it since."""
    installer, place = _installer(), _place(agent, project, user)
    done = (installer.plan_back if dry_run else installer.uninstall)(place.install(agent))
    told = _plugin.told(agent, place, done, dry_run=dry_run)
    (print_json if json else _plugin.show)(told)


def session_start() -> None:
    """Say what waits, where the settings of nights ask for that; agents' hooks call it. It always ends
    with 0.
    """
    from skillopt.night import open_context  # nights are large, and the other commands need none of them
    from skillopt.night.notices import banner

    with contextlib.suppress(SkillOptError, OSError, ValueError, RecursionError):
        told = loads(_plugin.hook_input() or b"{}")
        cwd = told.get("cwd") if isinstance(told, dict) else None
        folder = Path(cwd) if isinstance(cwd, str) else Path.cwd()
        around = open_context({"invoked_project": folder}, home=Path.home(), cwd=folder, environ=os.environ)
        if said := banner(around, _plugin.utc_now):
            echo(dumps({"systemMessage": said}))


add = group(
    "Install SkillOpt into the agents you use, and take it out again.",
    {
        "list": simple(list_agents),
        "install": simple(install),
        "uninstall": simple(uninstall),
        "session-start": simple(session_start, hidden=True),
    },
)


def _installer() -> Installer:
    return Installer(receipts=Receipts(state=_plugin.state_folder()), now=_plugin.utc_now)


def _place(agent: str, project: Path | None, user: bool) -> InstallPlace:
    if user and project is not None:
        raise UsageError("--user means all your projects and --project one of them. Keep one.")
    scopes = _plugin.plugin(agent).scopes
    wanted = "user" if user else "project" if project is not None else scopes[0]
    return _plugin.place(wanted, (project or Path.cwd()) if wanted == "project" else None)
