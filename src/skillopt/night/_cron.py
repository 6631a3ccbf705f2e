"""Nights started by cron: decides what our lines in a crontab are, and that no other line is ever lost."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from skillopt.errors import UsageError
from skillopt.night._schedule import Run, Schedule, asked, make_log_folder

LONGEST = 900
"""Vixie cron cuts a command at 1,000 characters without a word; what is scheduled has to be what runs."""
_START, _END = "# >>> skillopt-sleep {id} >>>", "# <<< skillopt-sleep {id} <<<"
_MARK = re.compile(r"# (?P<side>>>>|<<<) skillopt-sleep (?P<id>[0-9a-f]{12}) (?:>>>|<<<)")
_LINE = re.compile(r"(?P<minute>\d{1,2}) (?P<hour>\d{1,2}) \* \* \* (?P<command>.+)")
_NONE_YET = re.compile(r"no crontab for|can't open '[^']*': No such file", re.IGNORECASE)


def render(schedule: Schedule) -> str:
    """The lines of an entry. In a crontab an unescaped `%` ends the command, also inside quotes."""
    words = [*(f"{name}={value}" for name, value in schedule.environment), *schedule.command]
    program = shlex.join(["env", *words] if schedule.environment else words)
    log = "" if schedule.log is None else f" >> {shlex.quote(str(schedule.log))} 2>&1"
    command = f"cd {shlex.quote(str(schedule.folder))} && {program}{log}".replace("%", r"\%")
    if len(command) > LONGEST:
        raise UsageError(
            f"The command has {len(command)} characters and cron may cut it at 1,000, so nothing was"
            " scheduled. Put options into the configuration file instead of the command line."
        )
    if re.search(r"\\\\%", command):
        raise UsageError(
            "The command holds a backslash before a percent sign, which cron cannot keep. Rename that path or"
            " argument."
        )
    return (
        f"{_START.format(id=schedule.id)}\n{schedule.minute} {schedule.hour} * * *"
        f" {command}\n{_END.format(id=schedule.id)}\n"
    )


def parse(crontab: str) -> dict[str, Schedule]:
    """Our entries in a crontab by id. Raises `UsageError` for lines between our marks that are not ours."""
    return {id: _schedule(id, lines) for id, (_, _, lines) in _blocks(crontab).items()}


def added(crontab: str, schedule: Schedule) -> str:
    """The crontab with this entry, in the place of an earlier one with its id or at the end; every other line
    as it was.
    """
    found = _blocks(crontab).get(schedule.id)
    if found is not None:
        return crontab[: found[0]] + render(schedule) + crontab[found[1] :]
    ending = "" if not crontab or crontab.endswith("\n") else "\n"
    return crontab + ending + render(schedule)


def removed(crontab: str, id: str) -> str:
    """The crontab without this entry; every other line as it was."""
    found = _blocks(crontab).get(id)
    return crontab if found is None else crontab[: found[0]] + crontab[found[1] :]


class Cron:
    """The user's crontab, over the program `crontab`."""

    name = "cron"

    def __init__(self, run: Run) -> None:
        self._run = run

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries."""
        return tuple(parse(self._read()).values())

    def install(self, schedule: Schedule) -> None:
        """Put the entry in and read it back."""
        if parse(render(schedule)) != {schedule.id: schedule}:
            raise UsageError(
                "The command reads like a part of a crontab line and would not come back as it is. Nothing"
                " was scheduled."
            )
        make_log_folder(schedule)
        self._write(added(self._read(), schedule))
        if parse(self._read()).get(schedule.id) != schedule:
            raise UsageError(
                "crontab took the entry and does not show it as it was given. Look at it with `crontab -l`."
            )

    def uninstall(self, id: str) -> bool:
        """Take the entry out; a crontab that holds none is not written at all."""
        crontab = self._read()
        without = removed(crontab, id)
        if without == crontab:
            return False
        self._write(without)
        return True

    def _read(self) -> str:
        """The crontab. An error is no empty crontab: writing that back would lose everything in it."""
        done = self._run(["crontab", "-l"], None)
        said = done.stderr.decode("utf-8", "replace")
        if done.code == 0 and not done.cut:
            # Bytes that are no UTF-8 come back as they were.
            return done.stdout.decode("utf-8", "surrogateescape")
        if done.code != 0 and not done.stdout and _NONE_YET.search(said):
            return ""
        why = (
            "it is too long"
            if done.cut
            else f"`crontab -l` ended with {done.code}: {' '.join(said.split())[:300] or 'it said nothing'}"
        )
        raise UsageError(
            f"The crontab cannot be read ({why}), so it is not changed. See that `crontab -l` works, or"
            " choose another scheduler."
        )

    def _write(self, crontab: str) -> None:
        asked(self._run, ["crontab", "-"], crontab.encode("utf-8", "surrogateescape"))


def _blocks(crontab: str) -> dict[str, tuple[int, int, list[str]]]:
    """By id: where an entry starts and ends, and its lines."""
    blocks: dict[str, tuple[int, int, list[str]]] = {}
    begun: tuple[str, int, list[str]] | None = None
    offset = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", crontab):
        mark = _MARK.fullmatch(line.rstrip())
        if mark is not None and mark["side"] == ">>>" and begun is None and mark["id"] not in blocks:
            begun = (mark["id"], offset, [])
        elif mark is not None and mark["side"] == "<<<" and begun is not None and begun[0] == mark["id"]:
            blocks[begun[0]] = (begun[1], offset + len(line), begun[2])
            begun = None
        elif mark is not None:
            raise _damaged(mark["id"])
        elif begun is not None:
            begun[2].append(line.rstrip("\r\n"))
        offset += len(line)
    if begun is not None:
        raise _damaged(begun[0])
    return blocks


def _schedule(id: str, lines: list[str]) -> Schedule:
    found = _LINE.fullmatch(lines[0]) if len(lines) == 1 else None
    if found is None:
        raise _damaged(id)
    try:
        words = shlex.split(found["command"].replace(r"\%", "%"))
        if words[0] != "cd" or words[2] != "&&":
            raise _damaged(id)
        folder, words, log = Path(words[1]), words[3:], None
        if words[-1:] == ["2>&1"] and words[-3] == ">>":
            words, log = words[:-3], Path(words[-2])
        environment: list[tuple[str, str]] = []
        if words[0] == "env":
            del words[0]
            while "=" in words[0]:
                environment.append((words[0].partition("=")[0], words.pop(0).partition("=")[2]))
        return Schedule(
            id=id,
            hour=int(found["hour"]),
            minute=int(found["minute"]),
            command=tuple(words),
            folder=folder,
            log=log,
            environment=tuple(environment),
        )
    except (ValueError, IndexError, UsageError) as error:
        raise _damaged(id) from error


def _damaged(id: str) -> UsageError:
    return UsageError(
        f"The crontab holds marks of skillopt-sleep {id} that do not pair up, or lines between them that are"
        " not ours. It is not changed; put it right with `crontab -e`."
    )
