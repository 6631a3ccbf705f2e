"""What is to run every night, and its definition for schedulers that a person sets up: launchd, Windows."""

from __future__ import annotations

import plistlib
import shlex
import subprocess
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, model_validator

from skillopt.errors import ConfigError, Fault, UsageError
from skillopt.files import make_private_folder
from skillopt.process import Finished

RunProgram: TypeAlias = Callable[[Sequence[str], "bytes | None"], Finished]
"""Runs a program to its end with this input; raises `Fault` when it cannot be started."""
_LAUNCHD_LABEL, _WINDOWS_NAME = "skillopt.night.", "SkillOpt-Sleep-"


class Schedule(BaseModel):
    """One entry. A scheduler keeps it as a comment beside what it renders, and reads that comment back: a
    definition that is no longer what the comment renders to was changed by somebody.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Tells our entries apart: `project_id` of the project."""
    hour: int
    minute: int
    command: tuple[str, ...]
    """The program by its whole path, and every argument: no PATH and no shell is known there."""
    folder: Path
    log: Path | None = None
    """Where output is added; None leaves it to the command itself."""
    environment: tuple[tuple[str, str], ...] = ()

    @model_validator(mode="after")
    def _can_be_kept(self) -> Schedule:
        if not (0 <= self.hour <= 23 and 0 <= self.minute <= 59):
            raise ConfigError(
                f"{self.hour}:{self.minute:02d} is no time of day: --hour is 0 to 23 and --minute 0 to 59."
            )
        if len(self.id) != 12 or not set(self.id) <= set("0123456789abcdef"):
            raise ConfigError(f"{self.id!r} is no id of a schedule.")
        if not self.command or not self.command[0]:
            raise ConfigError("There is no command to schedule.")
        for name, _ in self.environment:
            if not (name.isascii() and name.isidentifier()):
                raise ConfigError(f"{name!r} is no name of an environment variable.")
        paths = [str(path) for path in (self.folder, self.log) if path is not None]
        for text in (*self.command, *paths, *(value for _, value in self.environment)):
            if any(unicodedata.category(char) in ("Cc", "Cs") or char in "\ufffe\uffff" for char in text):
                raise ConfigError(
                    f"{text!r} holds a line break or another control character, which no scheduler keeps."
                    " Take it out."
                )
        return self

    @property
    def time(self) -> str:
        """The time of day as people write it."""
        return f"{self.hour:02d}:{self.minute:02d}"

    def comment(self) -> str:
        """The entry in one line that crontabs and units take for a comment."""
        return f"# {self.model_dump_json()}"

    @classmethod
    def of_comment(cls, line: str) -> Schedule | None:
        """The entry of such a line; None for any other."""
        try:
            return cls.model_validate_json(line.removeprefix("# "))
        except (ValueError, ConfigError):
            return None


def make_log_folder(schedule: Schedule) -> None:
    """See that the log can be written: no scheduler makes folders."""
    if schedule.log is not None:
        make_private_folder(schedule.log.parent)


def run_or_refuse(run: RunProgram, argv: Sequence[str], data: bytes | None = None) -> Finished:
    """Run a program that has to succeed. Raises `UsageError` with what it said, or that it is not there."""
    try:
        done = run(argv, data)
    except Fault as fault:
        raise UsageError(f"{fault.detail}. Nothing else was changed; choose another scheduler.") from fault
    if done.code != 0:
        output = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())[:300]
        raise UsageError(
            f"`{' '.join(argv)}` ended with {done.code}: {output or 'it said nothing'}. Nothing else was"
            " changed."
        )
    return done


class Launchd:
    """launchd on macOS: the agent's property list, and the commands that load and remove it."""

    def definition(self, schedule: Schedule) -> str:
        """The property list of the agent; words are a list in it, so nothing needs quoting."""
        agent: dict[str, Any] = {
            "Label": f"{_LAUNCHD_LABEL}{schedule.id}",
            "ProgramArguments": list(schedule.command),
            "WorkingDirectory": str(schedule.folder),
            "StartCalendarInterval": {"Hour": schedule.hour, "Minute": schedule.minute},
        }
        if schedule.environment:
            agent["EnvironmentVariables"] = dict(schedule.environment)
        if schedule.log is not None:
            agent["StandardOutPath"] = agent["StandardErrorPath"] = str(schedule.log)
        return plistlib.dumps(agent, sort_keys=False).decode()

    def how_to_install(self, schedule: Schedule, home: Path) -> str:
        """The definition, and what to do with it."""
        path = shlex.quote(str(home / "Library" / "LaunchAgents" / f"{_LAUNCHD_LABEL}{schedule.id}.plist"))
        command = f"launchctl bootstrap gui/$(id -u) {path}"
        return f"{self.definition(schedule)}\nSave this as {path}, then run:\n  {command}"

    def how_to_look(self, id: str) -> str:
        """The command that says whether the agent is loaded."""
        return f"launchctl print gui/$(id -u)/{_LAUNCHD_LABEL}{id}"

    def how_to_remove(self, id: str, home: Path) -> str:
        """The commands that unload the agent and take it away."""
        path = shlex.quote(str(home / "Library" / "LaunchAgents" / f"{_LAUNCHD_LABEL}{id}.plist"))
        return f"launchctl bootout gui/$(id -u)/{_LAUNCHD_LABEL}{id}; rm {path}"


class TaskScheduler:
    """The Windows Task Scheduler: the task's definition, and the commands that a person runs."""

    def definition(self, schedule: Schedule) -> str:
        """The definition of the task, which starts the program without a shell or a script."""
        if schedule.log is not None or schedule.environment:
            raise UsageError(
                "The Task Scheduler can neither redirect output nor set variables; give the command a log"
                " option of its own."
            )
        task = ET.Element(
            "Task", {"version": "1.2", "xmlns": "http://schemas.microsoft.com/windows/2004/02/mit/task"}
        )
        for path, text in (
            ("Triggers/CalendarTrigger/StartBoundary", f"2024-01-01T{schedule.time}:00"),
            ("Triggers/CalendarTrigger/ScheduleByDay/DaysInterval", "1"),
            # In the user's own session: no password is kept anywhere, and no rights beyond the user's.
            ("Principals/Principal/LogonType", "InteractiveToken"),
            ("Principals/Principal/RunLevel", "LeastPrivilege"),
            ("Settings/MultipleInstancesPolicy", "IgnoreNew"),
            ("Settings/DisallowStartIfOnBatteries", "false"),
            ("Settings/StopIfGoingOnBatteries", "false"),
            ("Settings/StartWhenAvailable", "true"),
            ("Actions/Exec/Command", schedule.command[0]),
            ("Actions/Exec/Arguments", subprocess.list2cmdline(schedule.command[1:])),
            ("Actions/Exec/WorkingDirectory", str(schedule.folder)),
        ):
            element = task
            for name in path.split("/"):
                found = element.find(name)
                element = ET.SubElement(element, name) if found is None else found
            element.text = text
        ET.indent(task)
        return ET.tostring(task, encoding="unicode")

    def how_to_install(self, schedule: Schedule, home: Path) -> str:
        """The definition, and what to do with it."""
        name = f"{_WINDOWS_NAME}{schedule.id}"
        return (
            f"{self.definition(schedule)}\n\nSave this as {name}.xml, then run in PowerShell:\n"
            f"  Register-ScheduledTask -TaskName {name} -Xml (Get-Content -Raw -Encoding UTF8 {name}.xml)"
        )

    def how_to_look(self, id: str) -> str:
        """The command that says whether the task is registered."""
        return f"schtasks /query /tn {_WINDOWS_NAME}{id}"

    def how_to_remove(self, id: str, home: Path) -> str:
        """The command that takes the task out."""
        return f"schtasks /delete /tn {_WINDOWS_NAME}{id} /f"


PRINTED: Mapping[str, Launchd | TaskScheduler] = {"launchd": Launchd(), "task_scheduler": TaskScheduler()}
"""Schedulers whose definition is printed for a person to install."""
