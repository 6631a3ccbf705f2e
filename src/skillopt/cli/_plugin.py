"""What the commands of `skillopt plugin` share: facts about this very program, and what is shown."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from skillopt import __version__
from skillopt.agents import agent as agent_of
from skillopt.agents import agents
from skillopt.changes.install import Installer, InstallPlan, back
from skillopt.changes.receipts import Receipt, Scope
from skillopt.cli import app
from skillopt.cli._console import echo
from skillopt.errors import UnknownName, UsageError
from skillopt.plugins.kit import Command, Kit, Option, ServerTool, by_name, this_program
from skillopt.plugins.port import AgentPlugin, InstallPlace

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


def state_folder() -> Path:
    """Where SkillOpt keeps what is the user's."""
    return Path.home() / ".skillopt-sleep"


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


def plugin(name: str) -> AgentPlugin:
    """What an install into an agent is. Raises `UnknownName` with the near miss."""
    if name.replace("_", "-") not in agent_names():
        raise UnknownName("agent", name, agent_names())
    part = agent_of(name).plugin
    assert part is not None
    return part()


def place(scope: Scope, project: Path | None) -> InstallPlace:
    """Where an install takes place."""
    if project is not None:
        if not project.is_dir():
            raise UsageError(f"There is no folder {project}. Name the project: --project FOLDER.")
        project = project.resolve()
    return InstallPlace(
        scope=scope, home=Path.home(), project=project, env=dict(os.environ), windows=os.name == "nt"
    )


def kit(*, portable: bool = False) -> Kit:
    """Version, commands and tools of this program, and how it is called."""
    windows = os.name == "nt"
    if portable:
        program = by_name(windows=windows)
    else:
        user = (
            sysconfig.get_path("scripts", f"{os.name}_user")
            if f"{os.name}_user" in sysconfig.get_scheme_names()
            else None
        )
        scripts = [Path(folder) for folder in (sysconfig.get_path("scripts"), user) if folder]
        program = this_program(Path(sys.executable), scripts, windows=windows, version=sys.version_info[:2])
    return Kit(version=__version__, program=program, commands=_commands(), tools=_tools())


def remarks(agent: str, place: InstallPlace, kit: Kit, *, portable: bool) -> list[str]:
    """What the person should know after an install."""
    said = [plugin(agent).then]
    if find_spec("mcp") is None:
        said.append("The MCP server needs one more package: pip install 'skillopt-trainer[mcp]'.")
    if place.project is not None and not portable:
        said.append(
            f"The files call {kit.program.argv[0]}, which is this machine's; --portable writes 'skillopt' for"
            " files you share."
        )
    return said


def told(
    agent: str, place: InstallPlace, plan: InstallPlan, *, dry_run: bool, remarks: list[str] | None = None
) -> dict[str, Any]:
    """What was done or would be, for programs."""
    return {
        "agent": agent,
        "scope": place.scope,
        "root": str(place.root),
        "dry_run": dry_run,
        "changed": not plan.is_done,
        "files": [{"path": str(one.path), "state": one.state, "about": one.said} for one in plan.files],
        "remarks": remarks or [],
    }


def listed(installer: Installer) -> dict[str, Any]:
    """All agents, and what is installed where."""
    receipts = installer.receipts.all()
    return {
        "agents": [
            {
                "name": name,
                "title": agent_of(name).title,
                "gets": plugin(name).gets,
                "scopes": list(plugin(name).scopes),
                "seen_with": plugin(name).seen or None,
                "installed": [_installed(receipt) for receipt in receipts if receipt.agent == name],
            }
            for name in agent_names()
        ]
    }


def _installed(receipt: Receipt) -> dict[str, Any]:
    changed = [one.path for one in back(receipt).files if one.state in ("change", "left", "unchanged")]
    return {
        "scope": receipt.scope,
        "root": receipt.root,
        "version": receipt.version,
        "changed_since": [str(path) for path in changed],
    }


def show(told: dict[str, Any]) -> None:
    """Say what was done, file by file."""
    for one in told["files"]:
        word = _WORDS[one["state"]][0 if told["dry_run"] else 1]
        echo(f"{word:9} {one['path']}" + (f" ({one['about']})" if one["about"] else ""))
    if told["dry_run"]:
        echo("Nothing was written: this was a dry run.")
    elif not told["changed"]:
        echo("Everything was in place already.")
    for remark in told["remarks"]:
        echo(remark)


def show_list(told: dict[str, Any]) -> None:
    """One agent a line, and its installs below it."""
    for one in told["agents"]:
        echo(f"{one['name']:12} {one['title']}: {one['gets']}")
        for there in one["installed"]:
            where = "for all projects" if there["scope"] == "user" else f"in {there['root']}"
            since = there["changed_since"]
            changed = f"; not as it was left: {', '.join(since)}" if since else ""
            echo(f"{'':12} installed {where} by {there['version']}{changed}")
    echo(
        "\nskillopt plugin install AGENT [--user | --project FOLDER] [--dry-run]; uninstall puts every file"
        " back."
    )


@cache
def _commands() -> tuple[Command, ...]:
    return tuple(_read_commands())


def _read_commands() -> Iterator[Command]:
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
