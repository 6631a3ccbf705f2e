"""Nights started by launchd on macOS: decides what stands in the agent's property list, and that no other
agent is touched.
"""

from __future__ import annotations

import plistlib
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from skillopt.errors import UsageError
from skillopt.files import write_bytes
from skillopt.night._schedule import Run, Schedule, asked, make_log_folder

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


def parse(data: bytes) -> Schedule:
    """The entry that an agent of ours holds. Raises `UsageError` for what we did not write."""
    try:
        agent = plistlib.loads(data)
        when = agent["StartCalendarInterval"]
        return Schedule(
            id=agent["Label"].removeprefix(_LABEL),
            hour=when["Hour"],
            minute=when["Minute"],
            command=tuple(agent["ProgramArguments"]),
            folder=Path(agent["WorkingDirectory"]),
            log=Path(agent["StandardOutPath"]) if "StandardOutPath" in agent else None,
            environment=tuple(agent.get("EnvironmentVariables", {}).items()),
        )
    except (ValueError, KeyError, TypeError, AttributeError, ExpatError, UsageError) as error:
        raise UsageError(
            "An agent with our name was not written by us, or was changed since. It is left alone."
        ) from error


class Launchd:
    """The user's agents in `agents` (`~/Library/LaunchAgents`), over `launchctl`, in the session of user
    number `uid`.
    """

    name = "launchd"

    def __init__(self, run: Run, agents: Path, uid: int) -> None:
        self._run = run
        self._agents = agents
        self._domain = f"gui/{uid}"

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries."""
        return (
            tuple(self._read(path) for path in sorted(self._agents.glob(f"{_LABEL}*.plist")))
            if self._agents.is_dir()
            else ()
        )

    def install(self, schedule: Schedule) -> None:
        """Write the agent and load it; an earlier one with this id is unloaded first."""
        path = self._path(schedule.id)
        if path.exists():
            self._read(path)
            self._unload(schedule.id)
        make_log_folder(schedule)
        write_bytes(path, render(schedule), mode=0o644)
        try:
            asked(self._run, ["launchctl", "bootstrap", self._domain, str(path)])
        except UsageError:
            # An agent that is not loaded would look like a schedule.
            path.unlink()
            raise

    def uninstall(self, id: str) -> bool:
        """Unload the agent and take it away."""
        path = self._path(id)
        if not path.exists():
            return False
        self._read(path)
        self._unload(id)
        path.unlink()
        return True

    def _unload(self, id: str) -> None:
        # An agent that is not loaded, say after a restart without login, is as good as unloaded.
        self._run(["launchctl", "bootout", f"{self._domain}/{_LABEL}{id}"], None)

    def _path(self, id: str) -> Path:
        return self._agents / f"{_LABEL}{id}.plist"

    def _read(self, path: Path) -> Schedule:
        try:
            schedule = parse(path.read_bytes())
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror or error}. It is left alone."
            ) from error
        if self._path(schedule.id) != path:
            raise UsageError(f"{path} holds another agent than its name says. It is left alone.")
        return schedule
