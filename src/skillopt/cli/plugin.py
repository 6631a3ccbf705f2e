"""`skillopt plugin`: install SkillOpt into the agents you use, and take it out again."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.util import find_spec
from json import dumps, loads
from pathlib import Path
from typing import Annotated, TypeAlias

from skillopt.agents import agent as agent_of
from skillopt.agents import agents
from skillopt.agents.port import FOLDER, AgentPlugin
from skillopt.cli._console import echo, tell
from skillopt.cli._options import Json, argument, group, option, simple
from skillopt.errors import Fault, SkillOptError, UnknownName, UsageError
from skillopt.process import ask_process

PANEL, PLACE = "Look things up", 7
Name: TypeAlias = Annotated[str, argument("AGENT", "An agent of 'skillopt plugin list'.")]
DryRun: TypeAlias = Annotated[bool, option("--dry-run", "Say which commands would be run, and run none.")]
_SECONDS = 120.0
_MOST_INPUT = 1 << 20


def list_agents(json: Json = False) -> None:
    """List the agents SkillOpt can be installed into, what each of them gets, and by which commands."""
    listed = {name: plugin_of(name) for name in agent_names()}
    found = [
        {
            "name": name,
            "title": agent_of(name).title,
            "gets": plugin.gets,
            "installer": plugin.install[0][0] if plugin.install else None,
            "seen_with": plugin.seen or None,
        }
        for name, plugin in listed.items()
    ]
    lines = [
        f"{one['name']:12} {one['title']}: {one['gets']}; "
        + (f"installed by `{one['installer']} plugin`" if one["installer"] else "a few lines put in by hand")
        for one in found
    ]
    tell({"agents": found}, [*lines, "", "skillopt plugin install AGENT [--dry-run]"], json=json)


def install(agent: Name, dry_run: DryRun = False, json: Json = False) -> None:
    """Install SkillOpt into an agent by the agent's own commands; print what to do where it has none."""
    plugin = plugin_of(agent)
    remarks = [plugin.then]
    if shutil.which("skillopt") is None:
        remarks.append(
            "The plugin calls `skillopt`, which is not on the PATH: install it by pipx or uv, or add the"
            f" folder {Path(sys.executable).parent} to PATH."
        )
    if find_spec("mcp") is None:
        remarks.append("The MCP server needs one more package: pip install 'skillopt-trainer[mcp]'.")
    _carry_out(agent, plugin.install, plugin.by_hand, remarks, dry_run=dry_run, json=json)


def uninstall(agent: Name, dry_run: DryRun = False, json: Json = False) -> None:
    """Take SkillOpt out of an agent by the agent's own commands; print what to do where it has none."""
    plugin = plugin_of(agent)
    _carry_out(agent, plugin.uninstall, plugin.back_by_hand, [], dry_run=dry_run, json=json)


def session_start() -> None:
    """Say what waits, where the settings of nights want that; agents' hooks call it. Always ends with 0."""
    from skillopt_sleep import open_context  # nights are large, and the other commands need none of them
    from skillopt_sleep.notices import banner

    with contextlib.suppress(SkillOptError, OSError, ValueError, RecursionError):
        sent = loads(hook_input() or b"{}")
        cwd = sent.get("cwd") if isinstance(sent, dict) else None
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


def agent_names() -> list[str]:
    """The agents that SkillOpt can be installed into, as they are typed."""
    return [one.name.replace("_", "-") for one in agents() if one.plugin is not None]


def plugin_of(name: str) -> AgentPlugin:
    """How SkillOpt comes into an agent. Raises `UnknownName` with the near miss."""
    plugin = agent_of(name).plugin if name.replace("_", "-") in agent_names() else None
    if plugin is None:
        raise UnknownName("agent", name, agent_names())
    return plugin


def plugin_folder() -> Path:
    """The shipped plugin: in the wheel beside the code, in a checkout at its root."""
    package = Path(__file__).parents[1]
    shipped = package / "plugins"
    return (shipped if shipped.is_dir() else package.parents[1] / "plugins") / "claude-code"


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


def _carry_out(
    agent: str,
    commands: Sequence[Sequence[str]],
    by_hand: str,
    remarks: Sequence[str],
    *,
    dry_run: bool,
    json: bool,
) -> None:
    """Run the agent's commands and say what they printed; or say which they are, or what to do by hand."""
    folder = str(plugin_folder())
    by_hand = by_hand.replace(FOLDER, folder)
    lines = [[word.replace(FOLDER, folder) for word in command] for command in commands]
    printed = [] if dry_run else _run(lines)
    data = {
        "agent": agent,
        "dry_run": dry_run,
        "commands": lines,
        "printed": printed,
        "by_hand": by_hand,
        "remarks": remarks,
    }
    shown = [f"would run: {shlex.join(line)}" for line in lines] if dry_run else printed
    tell(data, [*shown, *([by_hand] if by_hand else []), *remarks], json=json)


def _run(lines: Sequence[Sequence[str]]) -> list[str]:
    """What the commands print. Raises `UsageError` with that where the last one fails."""
    printed: list[str] = []
    for number, (program, *words) in enumerate(lines, start=1):
        # By its path: on Windows these programs are scripts, which are not found by name alone.
        path = shutil.which(program)
        if path is None:
            raise UsageError(
                f"There is no program {program!r} on the PATH. Install it; then these lines do it:\n"
                + "\n".join(map(shlex.join, lines))
            )
        try:
            done = ask_process([path, *words], env=os.environ, timeout=_SECONDS)
        except Fault as fault:
            raise UsageError(f"{fault.detail}. Run it yourself: {shlex.join([program, *words])}") from fault
        output = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
        printed.append(f"$ {shlex.join([program, *words])}\n{output}")
        if done.code and number == len(lines):
            raise UsageError("\n".join([*printed, f"`{program}` ended with {done.code}."]))
    return printed
