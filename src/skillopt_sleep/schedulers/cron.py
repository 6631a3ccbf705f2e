"""Nights started by cron: our lines in a crontab stand between marks, and no other line is ever lost."""

from __future__ import annotations

import re
import shlex

from skillopt.errors import UsageError
from skillopt_sleep.schedulers.port import RunProgram, Schedule, asked, make_log_folder

LONGEST = 900
"""Vixie cron cuts a command at 1,000 characters without a word; what is scheduled has to be what runs."""
_MARK = re.compile(r"^# (?:>>>|<<<) skillopt-sleep (?P<id>[0-9a-f]{12}) (?:>>>|<<<)[ \t\r]*$", re.MULTILINE)
_BLOCK = re.compile(
    r"^# >>> skillopt-sleep (?P<id>[0-9a-f]{12}) >>>[ \t\r]*\n(?P<body>.*?)"
    r"^# <<< skillopt-sleep (?P=id) <<<[ \t\r]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
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
    if r"\\%" in command:
        raise UsageError(
            "The command holds a backslash before a percent sign, which cron cannot keep. Rename that path or"
            " argument."
        )
    return (
        f"# >>> skillopt-sleep {schedule.id} >>>\n{schedule.comment()}\n"
        f"{schedule.minute} {schedule.hour} * * * {command}\n# <<< skillopt-sleep {schedule.id} <<<\n"
    )


class Cron:
    """The user's crontab, over the program `crontab`."""

    name = "cron"

    def __init__(self, run: RunProgram) -> None:
        self._run = run

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries."""
        found = []
        for id, block in _blocks(self._read()).items():
            schedule = Schedule.of_comment(block["body"].partition("\n")[0])
            if schedule is None or render(schedule).rstrip() != block[0].rstrip():
                raise _damaged(id)
            found.append(schedule)
        return tuple(found)

    def install(self, schedule: Schedule) -> None:
        """Put the entry in, where an earlier one with its id stood or at the end, and see it there."""
        lines = render(schedule)
        crontab = self._read()
        make_log_folder(schedule)
        if (earlier := _blocks(crontab).get(schedule.id)) is not None:
            self._write(crontab[: earlier.start()] + lines + crontab[earlier.end() :])
        else:
            ending = "" if not crontab or crontab.endswith("\n") else "\n"
            self._write(crontab + ending + lines)
        if lines not in self._read():
            raise UsageError(
                "crontab took the entry and does not show it as it was given. Look at it with `crontab -l`."
            )

    def uninstall(self, id: str) -> bool:
        """Take the entry out; a crontab that holds none is not written at all."""
        crontab = self._read()
        if (found := _blocks(crontab).get(id)) is None:
            return False
        self._write(crontab[: found.start()] + crontab[found.end() :])
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


def _blocks(crontab: str) -> dict[str, re.Match[str]]:
    """Our entries by id, with their marks. Raises `UsageError` where marks do not pair up."""
    found: dict[str, re.Match[str]] = {}
    for block in _BLOCK.finditer(crontab):
        if block["id"] in found or _MARK.search(block["body"]):
            raise _damaged(block["id"])
        found[block["id"]] = block
    if (left := _MARK.search(_BLOCK.sub("", crontab))) is not None:
        raise _damaged(left["id"])
    return found


def _damaged(id: str) -> UsageError:
    return UsageError(
        f"The crontab holds marks of skillopt-sleep {id} that do not pair up, or lines between them that are"
        " not ours. It is not changed; put it right with `crontab -e`."
    )
