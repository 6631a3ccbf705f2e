"""Launching: what a form becomes on the command line, where output goes, how runs stop and go on.

A run is a child of the same command line, never a task here: closing the dashboard ends no paid work.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.config.load import Resolved, load
from skillopt.config.record import refuse_foreign
from skillopt.errors import ConfigError, UsageError
from skillopt.files import holder, make_private_folder, write_bytes
from skillopt.process import own_program, start_detached
from skillopt.redact import Scrubber, looks_secret
from skillopt.runs.notes import origin_folder
from skillopt.runs.reader import is_run
from skillopt_webui._runs import Roots

KEPT = "launched"
"""Folder of the person's with one folder for each start: runs may come from somebody else with what they say
of starts.
"""
_NOT_HERE = (
    "{}: a credential given here would stand in a command line and in a file. "
    "Put it into the environment, or into .env of the folder in which the dashboard runs."
)
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
_TAIL = 16_384
ENDINGS = {
    0: "finished",
    2: "refused: nothing was paid",
    3: "stopped by an outage, by your own code, unusable replies or unusable input; resume goes on",
    4: "the budget was spent; raise it and resume",
    5: "questions by hand wait for answers",
    130: "stopped; resume goes on",
}


class LaunchRequest(BaseModel):
    """What a person wants to train: a config by its name or path, and keys over it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: str
    options: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The words after `skillopt train`."""
        return [f"--config={self.config}", *(f"--cfg-options={option}" for option in self.options)]

    def spoken(self, command: str = "train") -> str:
        """The command as one would write it."""
        options = ["--cfg-options", *self.options] if self.options else []
        return shlex.join(["skillopt", command, "--config", self.config, *options])


class RunLaunch(LaunchRequest):
    """One start, as it is remembered."""

    id: str
    folder: str
    pid: int
    started: datetime


@dataclass(slots=True)
class Launches:
    """Where runs are started, stopped and taken up again. One for the whole dashboard."""

    roots: Roots
    cwd: Path
    environ: Mapping[str, str] = field(repr=False)
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _folders: dict[str, Path] = field(default_factory=dict)

    def resolve(self, wish: LaunchRequest) -> Resolved:
        """The configuration as the command line reads it. Raises the same errors."""
        for option in wish.options:
            if looks_secret(option.partition("=")[0]):
                raise ConfigError(_NOT_HERE.format(option.partition("=")[0]))
        resolved = load(wish.config, flags={}, options=wish.options, environ=self.environ, cwd=self.cwd)
        refuse_foreign(resolved)
        scrubber = Scrubber(resolved.secrets)
        for option in wish.options:
            if scrubber.scrub(option) != option:
                raise ConfigError(_NOT_HERE.format(option.partition("=")[0]))
        return resolved

    def start(self, wish: LaunchRequest, now: datetime | None = None) -> RunLaunch:
        """Start a run in a folder below the roots. Raises `UsageError` for what cannot be started."""
        moment = now or datetime.now(timezone.utc)
        resolved = self.resolve(wish)
        folder = Path(wish.config) if is_run(Path(wish.config)) else resolved.config.env.out_root
        if folder is None:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(wish.config).with_suffix("").name) or "run"
            folder = self._unused(self.roots.folders[0] / f"{name}-{moment:%Y%m%d-%H%M%S}")
            wish = LaunchRequest(config=wish.config, options=(*wish.options, f"env.out_root={folder}"))
        folder = Path(os.path.realpath(folder))
        if not any(folder.is_relative_to(os.path.realpath(root)) for root in self.roots.folders):
            raise UsageError(
                f"The run folder {folder} lies outside of {self.roots.spoken}, so no page here could show it."
                " Name one inside, or start the dashboard with --root."
            )
        if (pid := holder(folder / ".lock") or self._starting(folder)) is not None:
            raise UsageError(f"{folder} is being worked on by process {pid} already.")
        id = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        place = self.home / id
        make_private_folder(place)
        argv = [*own_program(), "train", *wish.arguments, "--plain"]
        child = start_detached(argv, env=self.environ, cwd=self.cwd, output=place / "output.log")
        self._children[id] = child
        self._folders[id] = folder
        made = RunLaunch(
            id=id, config=wish.config, options=wish.options, folder=str(folder), pid=child.pid, started=moment
        )
        write_bytes(place / "launched.json", f"{made.model_dump_json(indent=1)}\n".encode(), mode=0o600)
        return made

    def resume(self, folder: Path) -> RunLaunch:
        """Go on with a run where it stopped: by the command that started it here, else by its folder."""
        started = self.of(folder)
        return self.start(started or LaunchRequest(config=str(folder)))

    def stop(self, folder: Path) -> int:
        """Ask the process that works on a run to stop, as Ctrl-C does, and return its id."""
        pid = holder(folder / ".lock")
        if pid is None or not pid.isdigit():
            raise UsageError("Nothing works on this run at the moment, so there is nothing to stop.")
        if sys.platform == "win32":
            raise UsageError(
                "Windows cannot interrupt a process of another window; stop the run there with Ctrl-C."
            )
        try:
            os.kill(int(pid), signal.SIGINT)
        except OSError as error:
            raise UsageError(
                f"Process {pid} works on this run and cannot be stopped from here: {error.strerror}."
            ) from error
        return int(pid)

    def all(self) -> list[RunLaunch]:
        """Every start, the newest first; what cannot be read is not ours."""
        found = []
        for note in sorted(self.home.glob("*/launched.json"), reverse=True):
            with contextlib.suppress(UsageError):  # half written by a crash, or somebody else's
                found.append(self.load(note.parent.name))
        return found

    def of(self, folder: Path) -> RunLaunch | None:
        """The last start of a run folder; None for a run that was not started from here."""
        real = os.path.realpath(folder)
        return next((one for one in self.all() if os.path.realpath(one.folder) == real), None)

    def load(self, id: str) -> RunLaunch:
        """One start by its id. Raises `UsageError` for what is none."""
        try:
            if not _ID.fullmatch(id):
                raise FileNotFoundError
            return RunLaunch.model_validate_json((self.home / id / "launched.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise UsageError(f"Nothing was started from here under the name {id[:40]!r}.") from error

    def state(self, one: RunLaunch) -> str:
        """running, or how it ended, in words."""
        # its own process, or one that took the run up elsewhere
        if holder(Path(one.folder) / ".lock") is not None:
            return "running"
        child = self._children.get(one.id)
        if child is None:
            return "ended"
        code = child.poll()
        return "starting" if code is None else ENDINGS.get(code, f"ended with code {code}")

    def output(self, one: RunLaunch) -> str:
        """The end of what it printed."""
        try:
            with (self.home / one.id / "output.log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _starting(self, folder: Path) -> str | None:
        """The process started on a folder that may not hold its lock yet: buttons are pressed twice."""
        pids = (
            str(child.pid)
            for id, child in self._children.items()
            if self._folders[id] == folder and child.poll() is None
        )
        return next(pids, None)

    def _unused(self, folder: Path) -> Path:
        """The folder, or the next name after it: two starts may fall into one second."""
        taken, wanted, number = set(self._folders.values()), folder, 2
        while folder.exists() or Path(os.path.realpath(folder)) in taken:
            folder, number = wanted.with_name(f"{wanted.name}-{number}"), number + 1
        return folder

    @property
    def home(self) -> Path:
        """Where starts below the first root are remembered."""
        return origin_folder(self.roots.folders[0]) / KEPT


def split_options(text: str) -> tuple[str, ...]:
    """One `key=value` a line; empty lines and lines with # are for people."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
