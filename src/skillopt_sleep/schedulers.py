"""The schedulers that can start a night: systemd and cron are installed to and removed from here.

What we did not write is never touched, and raises `UsageError`.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt.errors import Fault, UnknownName, UsageError
from skillopt.files import write_text
from skillopt.process import Finished, minimal_env, run_process
from skillopt_sleep.schedule import PRINTED, RunProgram, Schedule, make_log_folder, run_or_refuse

KINDS = ("systemd", "cron", *PRINTED)
_KEPT = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "USER", "LOGNAME")
"""What `systemctl --user` and `crontab` need to find the user's own."""
_LONGEST = 900
"""Vixie cron cuts a command at 1,000 characters without a word; what is scheduled has to be what runs."""
_MARK = re.compile(r"^# (?:>>>|<<<) skillopt-sleep (?P<id>[0-9a-f]{12}) (?:>>>|<<<)[ \t\r]*$", re.MULTILINE)
_BLOCK = re.compile(
    r"^# >>> skillopt-sleep (?P<id>[0-9a-f]{12}) >>>[ \t\r]*\n(?P<body>.*?)"
    r"^# <<< skillopt-sleep (?P=id) <<<[ \t\r]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_NONE_YET = re.compile(r"no crontab for|can't open '[^']*': No such file", re.IGNORECASE)
_HEAD = "# Written by skillopt sleep schedule; unschedule takes it away."


def crontab_lines(schedule: Schedule) -> str:
    """The lines of an entry. In a crontab an unescaped `%` ends the command, also inside quotes."""
    words = [*(f"{name}={value}" for name, value in schedule.environment), *schedule.command]
    program = shlex.join(["env", *words] if schedule.environment else words)
    log = "" if schedule.log is None else f" >> {shlex.quote(str(schedule.log))} 2>&1"
    command = f"cd {shlex.quote(str(schedule.folder))} && {program}{log}".replace("%", r"\%")
    if len(command) > _LONGEST:
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
            if schedule is None or crontab_lines(schedule).rstrip() != block[0].rstrip():
                raise _damaged(id)
            found.append(schedule)
        return tuple(found)

    def install(self, schedule: Schedule) -> None:
        """Put the entry in, where an earlier one with its id stood or at the end, and see it there."""
        lines = crontab_lines(schedule)
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
        error = done.stderr.decode("utf-8", "replace")
        if done.code == 0 and not done.cut:
            # Bytes that are no UTF-8 come back as they were.
            return done.stdout.decode("utf-8", "surrogateescape")
        if done.code != 0 and not done.stdout and _NONE_YET.search(error):
            return ""
        why = (
            "it is too long"
            if done.cut
            else f"`crontab -l` ended with {done.code}: {' '.join(error.split())[:300] or 'it said nothing'}"
        )
        raise UsageError(
            f"The crontab cannot be read ({why}), so it is not changed. See that `crontab -l` works, or"
            " choose another scheduler."
        )

    def _write(self, crontab: str) -> None:
        run_or_refuse(self._run, ["crontab", "-"], crontab.encode("utf-8", "surrogateescape"))


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


def unit_name(id: str) -> str:
    """The name both units share."""
    return f"skillopt-sleep-{id}"


def units(schedule: Schedule) -> tuple[str, str]:
    """The service and the timer; every word is quoted against systemd's own `%`, `$` and `\\`."""
    environment = "".join(f"Environment={_word(f'{name}={value}')}\n" for name, value in schedule.environment)
    # These two take the rest of their line as it is: only `%` has a meaning there.
    log = "".join(
        f"Standard{side}=append:{_percents(str(schedule.log))}\n"
        for side in ("Output", "Error")
        if schedule.log is not None
    )
    head = f"{_HEAD}\n{schedule.comment()}\n[Unit]\nDescription=SkillOpt night shift"
    service = (
        f"{head}\n\n[Service]\nType=oneshot\n"
        f"WorkingDirectory={_percents(str(schedule.folder))}\n{environment}{log}"
        # Environment= expands no variables, a command line does.
        f"ExecStart={' '.join(_word(word).replace('$', '$$') for word in schedule.command)}\n"
    )
    timer = (
        f"{head} at {schedule.time}\n\n[Timer]\nOnCalendar=*-*-* {schedule.time}:00\n"
        # A night that was slept through by the machine itself is caught up with.
        "Persistent=true\n\n[Install]\nWantedBy=timers.target\n"
    )
    return service, timer


class Systemd:
    """The user's own units in `units` (`~/.config/systemd/user`), over `systemctl --user`."""

    name = "systemd"

    def __init__(self, run: RunProgram, units: Path) -> None:
        self._run = run
        self._units = units

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries."""
        timers = sorted(self._units.glob(f"{unit_name('*')}.timer")) if self._units.is_dir() else []
        return tuple(self._read(path.stem.removeprefix(unit_name(""))) for path in timers)

    def install(self, schedule: Schedule) -> None:
        """Write both units and start the timer; a unit of somebody else's is not overwritten."""
        service, timer = self._paths(schedule.id)
        if service.exists() or timer.exists():
            self._read(schedule.id)
        if not Path(schedule.command[0]).is_absolute():
            raise UsageError(
                f"systemd needs the whole path of a program, not {schedule.command[0]!r}. Nothing was"
                " scheduled."
            )
        for path in filter(None, (schedule.folder, schedule.log)):
            if str(path) != str(path).strip() or str(path).endswith("\\") or not path.is_absolute():
                raise UsageError(
                    f"systemd cannot keep {str(path)!r}: it wants a whole path that ends in no space or"
                    " backslash."
                )
        texts = units(schedule)
        make_log_folder(schedule)
        for path, text in zip((service, timer), texts, strict=True):
            write_text(path, text)
        try:
            run_or_refuse(self._run, ["systemctl", "--user", "daemon-reload"])
            run_or_refuse(self._run, ["systemctl", "--user", "enable", "--now", timer.name])
        except UsageError:
            # Units that never run would look like a schedule.
            self._remove(schedule.id)
            raise

    def uninstall(self, id: str) -> bool:
        """Stop the timer and take both units away."""
        service, timer = self._paths(id)
        if not service.exists() and not timer.exists():
            return False
        self._read(id)
        run_or_refuse(self._run, ["systemctl", "--user", "disable", "--now", timer.name])
        self._remove(id)
        run_or_refuse(self._run, ["systemctl", "--user", "daemon-reload"])
        return True

    def _paths(self, id: str) -> tuple[Path, Path]:
        return self._units / f"{unit_name(id)}.service", self._units / f"{unit_name(id)}.timer"

    def _read(self, id: str) -> Schedule:
        """The schedule of a service and a timer. Raises `UsageError` for units that we did not write."""
        try:
            texts = tuple(path.read_bytes().decode("utf-8") for path in self._paths(id))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"The units {unit_name(id)} in {self._units} cannot be read ({error}). They are left alone."
            ) from error
        schedule = Schedule.of_comment("".join(texts[0].split("\n")[1:2]))
        if schedule is None or schedule.id != id or units(schedule) != texts:
            raise UsageError(
                f"The units {unit_name(id)} were not written by us, or were changed since. They are left"
                " alone."
            )
        return schedule

    def _remove(self, id: str) -> None:
        for path in self._paths(id):
            path.unlink(missing_ok=True)


def _percents(text: str) -> str:
    return text.replace("%", "%%")


def _word(text: str) -> str:
    escaped = _percents(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


Scheduler = Cron | Systemd


def system(environ: Mapping[str, str], *, timeout: float = 60.0) -> RunProgram:
    """A runner of system programs such as crontab, in a small environment; not for use in an event loop."""
    env = minimal_env({name: environ[name] for name in _KEPT if name in environ})

    def run(argv: Sequence[str], data: bytes | None) -> Finished:
        return asyncio.run(run_process(argv, input=data, env=env, cwd=None, timeout=timeout))

    return run


def available(run: RunProgram, platform: str) -> tuple[str, ...]:
    """The schedulers that work here; first the one that catches up with a night slept through."""
    if platform in ("darwin", "win32"):
        return ("launchd",) if platform == "darwin" else ("task_scheduler",)
    asks = {"systemd": ["systemctl", "--user", "show", "--property=Version"], "cron": ["crontab", "-l"]}
    found = []
    for kind, argv in asks.items():
        try:
            # A person without a crontab gets another code from a cron that works.
            if run(argv, None).code == 0 or kind == "cron":
                found.append(kind)
        except Fault:  # the program is not there
            continue
    return tuple(found)


def scheduler_for(kind: str, run: RunProgram, home: Path) -> Scheduler:
    """A scheduler that installs, by its name."""
    if kind == "systemd":
        return Systemd(run, home / ".config" / "systemd" / "user")
    if kind == "cron":
        return Cron(run)
    raise UnknownName("scheduler", kind, KINDS)


def unschedule(scheduler: Scheduler, id: str | None = None) -> tuple[Schedule, ...]:
    """Take one entry out, or all of ours, and return what was taken out. Nobody else's entry is touched."""
    found = [entry for entry in scheduler.entries() if id is None or entry.id == id]
    return tuple(entry for entry in found if scheduler.uninstall(entry.id))
