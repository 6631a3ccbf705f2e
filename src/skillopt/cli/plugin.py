"""`skillopt plugin`: SkillOpt in the agents you already use, and out of them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from skillopt.cli import _plugin
from skillopt.cli._options import Json
from skillopt.errors import UsageError

if TYPE_CHECKING:
    from skillopt.changes.install import Installer
    from skillopt.plugins.port import InstallPlace

PANEL, PLACE = "Look things up", 7

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="AGENT", help="An agent of 'skillopt plugin list'.", show_default=False)
]
Project: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--project", metavar="FOLDER", help="For one project: below this folder.", show_default=False
    ),
]
User: TypeAlias = Annotated[
    bool, typer.Option("--user", help="For all your projects: below your home folder.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done to which file, and do nothing.")
]


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Install SkillOpt into the agents you use, and take it out again.", no_args_is_help=True
    )
    group.callback()(_group)
    group.command("list")(list_agents)
    group.command("install")(install)
    group.command("uninstall")(uninstall)
    group.command("session-end", hidden=True)(session_end)
    app.add_typer(group, name="plugin", rich_help_panel=PANEL)


def list_agents(json: Json = False) -> None:
    """List the agents SkillOpt can be installed into, what each of them gets, and where it is installed."""
    from skillopt.cli import _report

    told = _plugin.listed(_installer())
    if json:
        _report.print_json(told)
    else:
        _plugin.show_list(told)


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
    """Install SkillOpt into an agent. Nothing of yours is overwritten, and 'uninstall' puts every file back
    as it was.

    Installing again brings it up to date, and changes nothing where it is.
    """
    from skillopt.cli import _report

    installer, place = _installer(), _place(agent, project, user)
    kit = _plugin.kit(portable=portable)
    which, actions = place.install(agent), _plugin.plugin(agent).actions_in(agent, place, kit)
    done = installer.plan(which, actions) if dry_run else installer.install(which, actions, kit.version)
    told = _plugin.told(
        agent, place, done, dry_run=dry_run, remarks=_plugin.remarks(agent, place, kit, portable=portable)
    )
    if json:
        _report.print_json(told)
    else:
        _plugin.show(told)


def uninstall(
    agent: Name, project: Project = None, user: User = False, dry_run: DryRun = False, json: Json = False
) -> None:
    """Take SkillOpt out of an agent: every file as it was, or, where you changed it since,
    without our part.
    """
    from skillopt.cli import _report

    installer, place = _installer(), _place(agent, project, user)
    done = (installer.plan_back if dry_run else installer.uninstall)(place.install(agent))
    told = _plugin.told(agent, place, done, dry_run=dry_run)
    if json:
        _report.print_json(told)
    else:
        _plugin.show(told)


def session_end(agent: Annotated[str, typer.Argument(metavar="AGENT")]) -> None:
    """Note that a session ended; agents' hooks call it. It always ends with 0: a note is not worth an agent's
    error.
    """
    from skillopt.plugins.session_end import note

    note(_plugin.state_folder(), agent, _plugin.hook_input(), _plugin.utc_now())


def _installer() -> Installer:
    from skillopt.changes.install import Installer
    from skillopt.changes.receipts import Receipts

    return Installer(receipts=Receipts(state=_plugin.state_folder()), now=_plugin.utc_now)


def _place(agent: str, project: Path | None, user: bool) -> InstallPlace:
    if user and project is not None:
        raise UsageError("--user means all your projects and --project one of them. Keep one.")
    scopes = _plugin.plugin(agent).scopes
    wanted = "user" if user else "project" if project is not None else scopes[0]
    return _plugin.place(wanted, (project or Path.cwd()) if wanted == "project" else None)


def _group() -> None:
    """Install SkillOpt into the agents you use, and take it out again."""
