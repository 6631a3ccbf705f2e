"""The schedulers that can start a night: systemd and cron are installed to and removed from; for launchd and
the Windows Task Scheduler the definition is printed with the command that a person runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt.errors import Fault, UnknownName
from skillopt.process import Finished, minimal_env, run_process
from skillopt_sleep.schedulers import launchd, task_scheduler
from skillopt_sleep.schedulers.cron import Cron
from skillopt_sleep.schedulers.port import RunProgram, Schedule
from skillopt_sleep.schedulers.systemd import Systemd

PRINTED = {"launchd": launchd, "task_scheduler": task_scheduler}
"""Schedulers whose definition is printed: `how_to_install(schedule, home)`, `how_to_look(id)` and
`how_to_remove(id, home)`.
"""
Scheduler = Cron | Systemd
"""Installs in the user's name. `entries` are ours, `install` puts one in place of an earlier one with its id,
`uninstall` says whether there was one; what we did not write is never touched, and raises `UsageError`.
"""
KINDS = ("systemd", "cron", *PRINTED)
_KEPT = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "USER", "LOGNAME")
"""What `systemctl --user` and `crontab` need to find the user's own."""


def system(environ: Mapping[str, str], *, timeout: float = 60.0) -> RunProgram:
    """Runs programs of the system, such as crontab, in a small environment. Not inside a loop."""
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
