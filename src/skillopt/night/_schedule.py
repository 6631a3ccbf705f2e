"""What is to run every night, whatever starts it: one command with all its arguments, a time, a folder and a
log.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from skillopt.errors import ConfigError, Fault, UsageError
from skillopt.process import Finished

Run: TypeAlias = Callable[[Sequence[str], "bytes | None"], Finished]
"""Runs a program to its end with this input and returns what it printed; raises `Fault` when it cannot be
started.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One entry. What is parsed from a scheduler equals what was rendered for it."""

    id: str
    """Tells our entries apart: `schedule_id` of the project."""
    hour: int
    minute: int
    command: tuple[str, ...]
    """The program by its whole path, and every argument: the scheduler's own environment knows neither the
    user's PATH nor a shell.
    """
    folder: Path
    log: Path | None = None
    """Where output is added; None leaves it to the command itself."""
    environment: tuple[tuple[str, str], ...] = field(default=())

    def __post_init__(self) -> None:
        if not (0 <= self.hour <= 23 and 0 <= self.minute <= 59):
            raise ConfigError(
                f"{self.hour}:{self.minute:02d} is no time of day: --hour is 0 to 23 and --minute 0 to 59."
            )
        if len(self.id) != 12 or not set(self.id) <= set("0123456789abcdef"):
            raise ConfigError(f"{self.id!r} is no id of a schedule.")
        if not self.command or not self.command[0]:
            raise ConfigError("There is no command to schedule.")
        names = [name for name, _ in self.environment]
        if any(
            not (name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit())
            for name in names
        ):
            raise ConfigError(f"One of {', '.join(map(repr, names))} is no name of an environment variable.")
        paths = [str(path) for path in (self.folder, self.log) if path is not None]
        for text in (*self.command, *paths, *(value for _, value in self.environment)):
            if any(unicodedata.category(char) in ("Cc", "Cs") or char in "\ufffe\uffff" for char in text):
                raise ConfigError(
                    f"{text!r} holds a line break or another control character, which no scheduler keeps."
                    " Take it out."
                )

    @property
    def time(self) -> str:
        """The time of day as people write it."""
        return f"{self.hour:02d}:{self.minute:02d}"


class Timer(Protocol):
    """A scheduler of the system. It runs in the user's name, and only our own entries are ever touched."""

    @property
    def name(self) -> str: ...

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries as they are now. Raises `UsageError` when what is there cannot be read."""
        ...

    def install(self, schedule: Schedule) -> None:
        """Put the entry in, in place of an earlier one with the same id, and see that it is there."""
        ...

    def uninstall(self, id: str) -> bool:
        """Take exactly this entry out; False when there is none."""
        ...


def schedule_id(project: Path | str) -> str:
    """The same for the same project, and different for any other."""
    return hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def make_log_folder(schedule: Schedule) -> None:
    """See that the log can be written: no scheduler makes folders."""
    if schedule.log is not None:
        schedule.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def asked(run: Run, argv: Sequence[str], data: bytes | None = None) -> Finished:
    """Run a program that has to succeed. Raises `UsageError` with what it said, or that it is not there."""
    try:
        done = run(argv, data)
    except Fault as fault:
        raise UsageError(f"{fault.detail}. Nothing else was changed; choose another scheduler.") from fault
    if done.code != 0:
        said = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())[:300]
        raise UsageError(
            f"`{' '.join(argv)}` ended with {done.code}: {said or 'it said nothing'}. Nothing else was"
            " changed."
        )
    return done
