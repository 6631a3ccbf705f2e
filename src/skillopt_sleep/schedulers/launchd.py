"""launchd on macOS: the agent's property list, and the commands that a person loads and removes it with."""

from __future__ import annotations

import plistlib
import shlex
from pathlib import Path
from typing import Any

from skillopt_sleep.schedulers.port import Schedule

_LABEL = "skillopt.night."


def render(schedule: Schedule) -> bytes:
    """The property list of the agent; words are a list in it, so nothing needs quoting."""
    agent: dict[str, Any] = {
        "Label": f"{_LABEL}{schedule.id}",
        "ProgramArguments": list(schedule.command),
        "WorkingDirectory": str(schedule.folder),
        "StartCalendarInterval": {"Hour": schedule.hour, "Minute": schedule.minute},
    }
    if schedule.environment:
        agent["EnvironmentVariables"] = dict(schedule.environment)
    if schedule.log is not None:
        agent["StandardOutPath"] = agent["StandardErrorPath"] = str(schedule.log)
    return plistlib.dumps(agent, sort_keys=False)


def how_to_install(schedule: Schedule, home: Path) -> str:
    """The definition, and what to do with it."""
    path = shlex.quote(str(home / "Library" / "LaunchAgents" / f"{_LABEL}{schedule.id}.plist"))
    command = f"launchctl bootstrap gui/$(id -u) {path}"
    return f"{render(schedule).decode()}\nSave this as {path}, then run:\n  {command}"


def how_to_look(id: str) -> str:
    """The command that says whether the agent is loaded."""
    return f"launchctl print gui/$(id -u)/{_LABEL}{id}"


def how_to_remove(id: str, home: Path) -> str:
    """The commands that unload the agent and take it away."""
    path = shlex.quote(str(home / "Library" / "LaunchAgents" / f"{_LABEL}{id}.plist"))
    return f"launchctl bootout gui/$(id -u)/{_LABEL}{id}; rm {path}"
