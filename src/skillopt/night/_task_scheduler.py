"""Nights started by the Windows Task Scheduler: decides what stands in the task's definition, and that no
other task is touched.
"""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from skillopt.errors import UsageError
from skillopt.files import write_bytes
from skillopt.night._schedule import Run, Schedule, asked

_SPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
_NAME = "SkillOpt-Sleep-"
_AUTHOR = "skillopt sleep schedule"
_LISTED = re.compile(rf'"\\?{_NAME}([0-9a-f]{{12}})"')
# CommandLineToArgvW: backslashes count only before a quote.
_PIECE = re.compile(r'(?P<slashes>\\*)(?P<quote>")|(?P<space>[ \t]+)|(?P<char>.)', re.DOTALL)


def render(schedule: Schedule) -> str:
    """The definition of the task. The program is started as it is, without a shell or a script that could be
    changed.
    """
    if schedule.log is not None or schedule.environment:
        raise UsageError(
            "The Task Scheduler can neither redirect output nor set variables; give the command a log option"
            " of its own."
        )
    task = ET.Element("Task", {"version": "1.2", "xmlns": _SPACE})
    _add(_add(task, "RegistrationInfo"), "Author", _AUTHOR)
    trigger = _add(_add(task, "Triggers"), "CalendarTrigger")
    _add(trigger, "StartBoundary", f"2024-01-01T{schedule.time}:00")
    _add(_add(trigger, "ScheduleByDay"), "DaysInterval", "1")
    principal = _add(_add(task, "Principals"), "Principal")
    # In the user's own session: no password is kept anywhere, and no rights beyond the user's.
    _add(principal, "LogonType", "InteractiveToken")
    _add(principal, "RunLevel", "LeastPrivilege")
    settings = _add(task, "Settings")
    _add(settings, "MultipleInstancesPolicy", "IgnoreNew")
    _add(settings, "DisallowStartIfOnBatteries", "false")
    _add(settings, "StopIfGoingOnBatteries", "false")
    _add(settings, "StartWhenAvailable", "true")
    action = _add(_add(task, "Actions"), "Exec")
    _add(action, "Command", schedule.command[0])
    _add(action, "Arguments", subprocess.list2cmdline(schedule.command[1:]))
    _add(action, "WorkingDirectory", str(schedule.folder))
    return '<?xml version="1.0" encoding="UTF-16"?>\n' + ET.tostring(task, encoding="unicode")


def parse(id: str, definition: str) -> Schedule:
    """The entry that a task of ours holds. Raises `UsageError` for what we did not write."""
    try:
        # What the program prints is text already; the declared encoding is that of a file.
        task = ET.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", definition.lstrip("\ufeff")))
        time = re.search(r"T(\d\d):(\d\d)", _text(task, "Triggers/CalendarTrigger/StartBoundary"))
        if time is None or _text(task, "RegistrationInfo/Author") != _AUTHOR:
            raise ValueError("not ours")
        return Schedule(
            id=id,
            hour=int(time[1]),
            minute=int(time[2]),
            command=(_text(task, "Actions/Exec/Command"), *split(_text(task, "Actions/Exec/Arguments"))),
            folder=Path(_text(task, "Actions/Exec/WorkingDirectory")),
        )
    except (ET.ParseError, ValueError, UsageError) as error:
        raise UsageError(
            f"The task {_NAME}{id} was not written by us, or was changed since. It is left alone."
        ) from error


def split(line: str) -> list[str]:
    """The arguments of a Windows command line, as programs there read them."""
    words: list[str] = []
    word: str | None = None
    is_quoted = False
    for piece in _PIECE.finditer(line):
        if piece["quote"]:
            slashes = len(piece["slashes"])
            word = (word or "") + "\\" * (slashes // 2)
            if slashes % 2:
                word += '"'
            else:
                is_quoted = not is_quoted
        elif piece["space"] and not is_quoted:
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + piece[0]
    return words if word is None else [*words, word]


class TaskScheduler:
    """The user's tasks, over `schtasks`. Definitions are handed over as files in `folder`, which is the
    user's state folder.
    """

    name = "task_scheduler"

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self._folder = folder

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries."""
        listed = asked(self._run, ["schtasks", "/query", "/fo", "csv", "/nh"]).stdout.decode(
            "utf-8", "replace"
        )
        return tuple(self._read(id) for id in dict.fromkeys(_LISTED.findall(listed)))

    def install(self, schedule: Schedule) -> None:
        """Put the task in and read it back; a task of somebody else's with this name is not overwritten."""
        if any(schedule.id == entry.id for entry in self.entries()):
            self._read(schedule.id)
        file = self._folder / f"{_NAME}{schedule.id}.xml"
        write_bytes(file, render(schedule).encode("utf-16"))
        try:
            asked(self._run, ["schtasks", "/create", "/tn", f"{_NAME}{schedule.id}", "/xml", str(file), "/f"])
        finally:
            file.unlink()
        if self._read(schedule.id) != schedule:
            raise UsageError(
                f"The Task Scheduler took the task {_NAME}{schedule.id} and does not show it as it was given."
            )

    def uninstall(self, id: str) -> bool:
        """Take the task out."""
        if id not in {entry.id for entry in self.entries()}:
            return False
        asked(self._run, ["schtasks", "/delete", "/tn", f"{_NAME}{id}", "/f"])
        return True

    def _read(self, id: str) -> Schedule:
        shown = asked(self._run, ["schtasks", "/query", "/tn", f"{_NAME}{id}", "/xml"]).stdout
        is_wide = shown.startswith((b"\xff\xfe", b"<\x00"))
        return parse(
            id,
            shown.decode(
                "utf-16" if shown[:2] == b"\xff\xfe" else "utf-16-le" if is_wide else "utf-8", "replace"
            ),
        )


def _add(parent: ET.Element, name: str, text: str | None = None) -> ET.Element:
    child = ET.SubElement(parent, name)
    child.text = text
    return child


def _text(task: ET.Element, path: str) -> str:
    found = task.find("/".join(f"{{{_SPACE}}}{name}" for name in path.split("/")))
    if found is None:
        raise ValueError(f"{path} is missing")
    return found.text or ""
