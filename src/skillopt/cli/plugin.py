"""`skillopt plugin`: install SkillOpt into the agents you use, and take it out again."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from importlib.util import find_spec
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from skillopt import __version__
from skillopt.agents import agent as agent_of
from skillopt.agents import agents
from skillopt.changes.install import Installer, InstallPlan, back
from skillopt.changes.receipts import Receipt, Receipts, Scope
from skillopt.cli import app
from skillopt.cli._console import echo, tell
from skillopt.cli._options import Json, argument, group, option, simple
from skillopt.errors import SkillOptError, UnknownName, UsageError
from skillopt.plugins.kit import Command, Kit, Option, ServerTool, by_name, this_program
from skillopt.plugins.port import AgentPlugin, InstallPlace

PANEL, PLACE = "Look things up", 7
Name: TypeAlias = Annotated[str, argument("AGENT", "An agent of 'skillopt plugin list'.")]
Project: TypeAlias = Annotated[
    Path | None, option("--project", "For one project: below this folder.", "FOLDER")
]
User: TypeAlias = Annotated[bool, option("--user", "For all your projects: below your home folder.")]
DryRun: TypeAlias = Annotated[
    bool, option("--dry-run", "Say what would be done to which file, and do nothing.")
]
_WORDS = {
    "create": ("create", "created"),
    "change": ("change", "changed"),
    "unchanged": ("as it is", "as it was"),
    "remove": ("remove", "removed"),
    "restore": ("restore", "restored"),
    "left": ("leave", "left"),
}
"""What happens to a file, before and after."""
_MOST_INPUT = 1 << 20


def list_agents(json: Json = False) -> None:
    """List the agents SkillOpt can be installed into, what each of them gets, and where it is installed."""
    told = _listed(_installer())
    tell(told, _list_lines(told), json=json)


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
    ours = kit(portable=portable)
    which, actions = place.install(agent), plugin_of(agent).actions_in(agent, place, ours)
    done = installer.plan(which, actions) if dry_run else installer.install(which, actions, ours.version)
    remarks = _remarks(agent, place, ours, portable=portable)
    _tell(agent, place, done, dry_run=dry_run, json=json, remarks=remarks)


def uninstall(
    agent: Name, project: Project = None, user: User = False, dry_run: DryRun = False, json: Json = False
) -> None:
    """Take SkillOpt out of an agent: every file as it was, or without our part where you changed it since."""
    installer, place = _installer(), _place(agent, project, user)
    done = (installer.plan_back if dry_run else installer.uninstall)(place.install(agent))
    _tell(agent, place, done, dry_run=dry_run, json=json)


def session_start() -> None:
    """Say what waits, where the settings of nights want that; agents' hooks call it. Always ends with 0."""
    from skillopt.night import open_context  # nights are large, and the other commands need none of them
    from skillopt.night.notices import banner

    with contextlib.suppress(SkillOptError, OSError, ValueError, RecursionError):
        told = loads(hook_input() or b"{}")
        cwd = told.get("cwd") if isinstance(told, dict) else None
        folder = Path(cwd) if isinstance(cwd, str) else Path.cwd()
        around = open_context({"invoked_project": folder}, home=Path.home(), cwd=folder, environ=os.environ)
        if said := banner(around, utc_now):
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
    return Installer(receipts=Receipts(state=Path.home() / ".skillopt-sleep"), now=utc_now)


def _place(agent: str, project: Path | None, user: bool) -> InstallPlace:
    """Where an install takes place."""
    if user and project is not None:
        raise UsageError("--user means all your projects and --project one of them. Keep one.")
    scope: Scope = "user" if user else "project" if project is not None else plugin_of(agent).scopes[0]
    folder = (project or Path.cwd()) if scope == "project" else None
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name the project: --project FOLDER.")
    return InstallPlace(
        scope=scope,
        home=Path.home(),
        project=None if folder is None else folder.resolve(),
        env=dict(os.environ),
        windows=os.name == "nt",
    )


def utc_now() -> datetime:
    """The time."""
    return datetime.now(timezone.utc)


def hook_input() -> bytes:
    """What an agent tells its hook on stdin within a second; one that never closes it is not waited for."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    try:
        descriptor = sys.stdin.fileno()
    except OSError:  # not a file of the system
        return sys.stdin.buffer.read()
    parts: list[bytes] = []

    def read() -> None:
        while sum(map(len, parts)) < _MOST_INPUT and (part := os.read(descriptor, 1 << 16)):
            parts.append(part)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(timeout=1)
    return b"".join(parts)


def agent_names() -> list[str]:
    """The agents that SkillOpt can be installed into, as they are typed."""
    return [one.name.replace("_", "-") for one in agents() if one.plugin is not None]


def plugin_of(name: str) -> AgentPlugin:
    """What an install into an agent is. Raises `UnknownName` with the near miss."""
    if name.replace("_", "-") not in agent_names():
        raise UnknownName("agent", name, agent_names())
    part = agent_of(name).plugin
    assert part is not None
    return part()


def kit(*, portable: bool = False) -> Kit:
    """Version, commands and tools of this program, and how it is called."""
    windows = os.name == "nt"
    if portable:
        program = by_name(windows=windows)
    else:
        schemes = [sysconfig.get_default_scheme(), f"{os.name}_user"]
        known = [one for one in schemes if one in sysconfig.get_scheme_names()]
        scripts = [Path(sysconfig.get_path("scripts", one)) for one in known]
        program = this_program(Path(sys.executable), scripts, windows=windows, version=sys.version_info[:2])
    return Kit(version=__version__, program=program, commands=tuple(_commands()), tools=_tools())


def _remarks(agent: str, place: InstallPlace, kit: Kit, *, portable: bool) -> list[str]:
    """What the person should know after an install."""
    said = [plugin_of(agent).then]
    if find_spec("mcp") is None:
        said.append("The MCP server needs one more package: pip install 'skillopt-trainer[mcp]'.")
    if place.project is not None and not portable:
        said.append(
            f"The files call {kit.program.argv[0]}, which is this machine's; --portable writes 'skillopt' for"
            " files you share."
        )
    return said


def _tell(
    agent: str,
    place: InstallPlace,
    plan: InstallPlan,
    *,
    dry_run: bool,
    json: bool,
    remarks: Sequence[str] = (),
) -> None:
    """Say what was done or would be, file by file."""
    told = {
        "agent": agent,
        "scope": place.scope,
        "root": str(place.root),
        "dry_run": dry_run,
        "changed": not plan.is_done,
        "files": [{"path": str(one.path), "state": one.state, "about": one.said} for one in plan.files],
        "remarks": list(remarks),
    }
    lines = [
        f"{_WORDS[one.state][0 if dry_run else 1]:9} {one.path}" + (f" ({one.said})" if one.said else "")
        for one in plan.files
    ]
    if dry_run:
        lines.append("Nothing was written: this was a dry run.")
    elif plan.is_done:
        lines.append("Everything was in place already.")
    tell(told, [*lines, *remarks], json=json)


def _listed(installer: Installer) -> dict[str, Any]:
    """All agents, and what is installed where."""
    receipts = installer.receipts.all()
    return {
        "agents": [
            {
                "name": name,
                "title": agent_of(name).title,
                "gets": plugin_of(name).gets,
                "scopes": list(plugin_of(name).scopes),
                "seen_with": plugin_of(name).seen or None,
                "installed": [_installed(receipt) for receipt in receipts if receipt.agent == name],
            }
            for name in agent_names()
        ]
    }


def _installed(receipt: Receipt) -> dict[str, Any]:
    changed = [one.path for one in back(receipt).files if one.state in ("change", "left", "unchanged")]
    return {
        "scope": receipt.scope,
        "root": str(receipt.root),
        "version": receipt.version,
        "changed_since": [str(path) for path in changed],
    }


def _list_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """One agent a line, and its installs below it."""
    for one in told["agents"]:
        yield f"{one['name']:12} {one['title']}: {one['gets']}"
        for there in one["installed"]:
            where = "for all projects" if there["scope"] == "user" else f"in {there['root']}"
            since = there["changed_since"]
            changed = f"; not as it was left: {', '.join(since)}" if since else ""
            yield f"{'':12} installed {where} by {there['version']}{changed}"
    usage = "skillopt plugin install AGENT [--user | --project FOLDER] [--dry-run]"
    yield f"\n{usage}; uninstall puts every file back."


def _commands() -> Iterator[Command]:
    """Every command, from the parser itself; options that stand for configuration keys are left out."""
    for name in sorted(typer.main.get_command(app()).commands):  # type: ignore[attr-defined]
        command = typer.main.get_command(app(name)).commands[name]  # type: ignore[attr-defined]
        yield _command(name, command)
        for word, one in getattr(command, "commands", {}).items():
            if not one.hidden:
                yield _command(f"{name} {word}", one)


def _command(name: str, command: Any) -> Command:
    options = []
    for one in command.params:
        if getattr(one, "hidden", False) or getattr(one, "rich_help_panel", None) or one.name == "help":
            continue
        by_place = one.param_type_name == "argument"
        shown = (one.metavar or one.name.upper()) if by_place else ", ".join(one.opts)
        options.append(Option(name=shown, help=getattr(one, "help", None) or ""))
    return Command(name=name, help=" ".join((command.help or "").split()), options=tuple(options))


@cache
def _tools() -> tuple[ServerTool, ...]:
    from skillopt.mcp import Toolbox  # loads the configuration, which a hook has no time for

    return tuple(ServerTool(name=spec.name, description=spec.description) for spec in Toolbox(app).specs())
