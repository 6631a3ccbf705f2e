"""The Windows Task Scheduler: the task's definition, and the commands that a person runs."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from skillopt.errors import UsageError
from skillopt_sleep.schedulers.port import Schedule

_NAME = "SkillOpt-Sleep-"


def render(schedule: Schedule) -> str:
    """The definition of the task, which starts the program without a shell or a script."""
    if schedule.log is not None or schedule.environment:
        raise UsageError(
            "The Task Scheduler can neither redirect output nor set variables; give the command a log option"
            " of its own."
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


def how_to_install(schedule: Schedule, home: Path) -> str:
    """The definition, and what to do with it."""
    name = f"{_NAME}{schedule.id}"
    return (
        f"{render(schedule)}\n\nSave this as {name}.xml, then run in PowerShell:\n"
        f"  Register-ScheduledTask -TaskName {name} -Xml (Get-Content -Raw -Encoding UTF8 {name}.xml)"
    )


def how_to_look(id: str) -> str:
    """The command that says whether the task is registered."""
    return f"schtasks /query /tn {_NAME}{id}"


def how_to_remove(id: str, home: Path) -> str:
    """The command that takes the task out."""
    return f"schtasks /delete /tn {_NAME}{id} /f"
