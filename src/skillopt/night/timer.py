"""The schedule of nights: decides which scheduler of the system starts them, and what is known of the last
one.

What was scheduled is what runs: an entry holds the whole command with every flag, is read back after it was
written, and is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from skillopt.errors import Fault, UnknownName, UsageError
from skillopt.night._cron import Cron
from skillopt.night._launchd import Launchd
from skillopt.night._schedule import Run, Schedule, Timer, schedule_id
from skillopt.night._systemd import Systemd
from skillopt.night._task_scheduler import TaskScheduler
from skillopt.process import Finished, minimal_env, run_process

__all__ = [
    "KINDS",
    "NightLog",
    "Run",
    "Schedule",
    "Timer",
    "available",
    "log_tail",
    "schedule_id",
    "system",
    "timer_for",
    "unschedule",
]

_KEPT = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "USER", "LOGNAME")
"""What `systemctl --user` and `crontab` need to find the user's own."""
KINDS = ("systemd", "cron", "launchd", "task_scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightLog:
    """The end of a night's log, and when it was last written."""

    written: datetime
    lines: tuple[str, ...]


def system(environ: Mapping[str, str], *, timeout: float = 60.0) -> Run:
    """Runs programs of the system, such as crontab, with what they need of the environment to find the user's
    own. Not inside a loop.
    """
    env = minimal_env({name: environ[name] for name in _KEPT if name in environ})

    def run(argv: Sequence[str], data: bytes | None) -> Finished:
        return asyncio.run(run_process(argv, input=data, env=env, cwd=None, timeout=timeout))

    return run


def available(run: Run, platform: str) -> tuple[str, ...]:
    """The schedulers that work here, the best first: one that catches up with a night the machine slept
    through.
    """
    if platform == "darwin":
        return ("launchd",)
    if platform == "win32":
        return ("task_scheduler",)
    asks = {"systemd": ["systemctl", "--user", "show", "--property=Version"], "cron": ["crontab", "-l"]}
    return tuple(kind for kind, argv in asks.items() if _answers(run, argv, any_code=kind == "cron"))


def timer_for(
    kind: str, run: Run, *, home: Path, state: Path, uid: int = 0, units: Path | None = None
) -> Timer:
    """A scheduler by name. `units` is where systemd reads the user's units, where that is not below the home
    folder's `.config`.
    """
    if kind == "systemd":
        return Systemd(run, units or home / ".config" / "systemd" / "user")
    if kind == "cron":
        return Cron(run)
    if kind == "launchd":
        return Launchd(run, home / "Library" / "LaunchAgents", uid)
    if kind == "task_scheduler":
        return TaskScheduler(run, state)
    raise UnknownName("scheduler", kind, KINDS)


def unschedule(timer: Timer, id: str | None = None) -> tuple[Schedule, ...]:
    """Take one entry out, or all of ours, and return what was taken out. Nobody else's entry is touched."""
    found = [entry for entry in timer.entries() if id is None or entry.id == id]
    return tuple(entry for entry in found if timer.uninstall(entry.id))


def log_tail(schedule: Schedule, lines: int = 20) -> NightLog | None:
    """The end of the log, without control characters; None where no night has written one yet."""
    if schedule.log is None:
        return None
    try:
        with schedule.log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 64 * 1024))
            text = file.read().decode("utf-8", "replace")
        written = datetime.fromtimestamp(schedule.log.stat().st_mtime, tz=timezone.utc)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"The log {schedule.log} cannot be read: {error.strerror or error}.") from error
    shown = (
        "".join(char if char.isprintable() or char == "\t" else " " for char in line)
        for line in text.split("\n")
    )
    return NightLog(written=written, lines=tuple(line.rstrip() for line in shown if line.strip())[-lines:])


def _answers(run: Run, argv: list[str], *, any_code: bool) -> bool:
    try:
        return run(argv, None).code == 0 or any_code
    except Fault:  # the program is not there
        return False
