"""What is to run every night, whatever starts it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, model_validator

from skillopt.errors import ConfigError, Fault, UsageError
from skillopt.files import make_private_folder
from skillopt.process import Finished

RunProgram: TypeAlias = Callable[[Sequence[str], "bytes | None"], Finished]
"""Runs a program to its end with this input; raises `Fault` when it cannot be started."""


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


def asked(run: RunProgram, argv: Sequence[str], data: bytes | None = None) -> Finished:
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
