"""What the commands of `skillopt sleep` share: their options, the context of a night, and its view."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import typer

from skillopt.cli import _run
from skillopt.cli._console import echo
from skillopt.cli._options import option, parameter, with_options
from skillopt.config.files import read_dotenv
from skillopt.errors import UsageError
from skillopt.events import Sink
from skillopt.files import as_usage_error, expand_home, make_private_folder
from skillopt.process import Finished, own_program
from skillopt.run import Job, OpenRun
from skillopt_sleep import NightContext, open_context, with_tasks
from skillopt_sleep.schedulers import system
from skillopt_sleep.settings import DEAD, PATHS, REFUSED, NightSettings

FLAGS: Mapping[str, str] = {
    "project": "invoked_project",
    "scope": "projects",
    "source": "transcript_source",
    **{name: f"{name}_model" for name in ("target", "optimizer", "judge", "reader")},
    **{
        f"max-{name}": f"max_{name}_per_night"
        for name in ("sessions", "tasks", "tokens", "dollars", "minutes")
    },
    "skill-root": "skill_roots",
    **{
        field.replace("_", "-"): field
        for field in (
            *("backend", "model", "lookback_hours", "edit_budget", "preferences", "target_skill_path"),
            *("claude_home", "codex_home", "cursor_home", "pi_home"),
            *("vscode_workspace_storage", "copilot_cli_session_store", "opencode_db"),
        )
    },
}
"""The options every command of the group takes, by the setting each of them stands for."""
PUBLIC_ONLY: Mapping[str, Any] = {
    **{"auto-adopt": bool, "opencode-tool-replay": bool, "progress": bool},
    **{"codex-path": str, "cursor-path": str, "pi-path": str, "opencode-path": str},
}
"""Public options of every command without effect here, or refused; not shown in help."""
ADOPT_ONLY: Mapping[str, tuple[Any, str, bool]] = {
    "staging": (
        str,
        "a proposal is named by its id: `skillopt sleep adopt ID`; `skillopt sleep status` lists them",
        True,
    ),
    "legacy": (bool, "there is one kind of proposal; --skill and --edit choose parts of it", True),
    "all-skills": (bool, "adopt takes all that is open unless --skill or --edit says less", False),
}
"""Public options of `adopt` alone: why, and whether the command is refused."""
_EITHER_SPELLING = {"token_normalize_func": lambda name: name.replace("_", "-")}
_PLACE_VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "OPENCODE_DB", "PI_CODING_AGENT_DIR"),
    *("SKILLOPT_DEVIN_WORKSPACES", "VSCODE_PORTABLE", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)


def register(group: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Add a command that takes `flags`: the common options that were given, by setting."""

    def common(flag: str, field: str) -> inspect.Parameter:
        setting = NightSettings.model_fields[field]
        kind: Any = setting.annotation if setting.annotation in (int, float) else str
        panel = "Settings, over those of the file"
        shown = option(f"--{flag}", setting.description or "", rich_help_panel=panel)
        return parameter(field, list[str] if field == "skill_roots" else kind, shown)

    public = {
        **PUBLIC_ONLY,
        **({flag: kind for flag, (kind, _, _) in ADOPT_ONLY.items()} if name == "adopt" else {}),
    }
    hidden = {flag.replace("-", "_"): flag for flag in public}

    def made(given: dict[str, Any]) -> dict[str, Any]:
        _answer([flag for word, flag in hidden.items() if given.pop(word, None)])
        return {field: _absolute(field, value) for field, value in given.items()}

    options = [
        *(common(flag, field) for flag, field in FLAGS.items()),
        *(
            parameter(word, public[flag], typer.Option(f"--{flag}", hidden=True))
            for word, flag in hidden.items()
        ),
    ]
    group.command(name, context_settings=_EITHER_SPELLING)(with_options(command, "flags", options, made))


def _answer(flags: Sequence[str]) -> None:
    """Say why public options have no effect here; raises where one would promise what does not happen."""
    for flag in flags:
        key = flag.replace("-", "_")
        why, refused = (
            ADOPT_ONLY[flag][1:]
            if flag in ADOPT_ONLY
            else ((REFUSED if key in REFUSED else DEAD)[key][0], key in REFUSED)
        )
        if refused:
            raise UsageError(f"--{flag} is refused: {why}.")
        echo(f"warning: --{flag} has no effect ({why})", err=True)


def context_of(flags: Mapping[str, Any], tasks_file: Path | None = None) -> NightContext:
    """The context of a command; warnings about the settings go to stderr."""
    context = open_context(flags, home=Path.home(), cwd=Path.cwd(), environ=os.environ)
    for warning in context.warnings:
        echo(f"warning: {warning}", err=True)
    return context if tasks_file is None else with_tasks(context, tasks_file.absolute())


def scheduled_environ() -> dict[str, str]:
    """What a scheduled night finds of the environment: the person's own `.env`, and where programs are."""
    known = ("PATH", "HOME", "USERPROFILE", "SYSTEMROOT")
    kept = {name: os.environ[name] for name in known if name in os.environ}
    return {**kept, **read_dotenv(Path.home() / ".skillopt-sleep" / ".env")}


def environ() -> dict[str, str]:
    """The environment, over the person's own `~/.skillopt-sleep/.env`, which scheduled nights need."""
    return {**read_dotenv(Path.home() / ".skillopt-sleep" / ".env"), **os.environ}


def moment(text: str, now: datetime, option: str = "--since") -> datetime:
    """`2026-11-14`, a time with or without offset (UTC without), or how long ago: `12h`, `7d`."""
    units = {"h": "hours", "d": "days"}
    try:
        if text[-1:] in units and text[:-1].isdecimal():
            return now - timedelta(**{units[text[-1]]: int(text[:-1])})
        read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {text!r} is no time. Write 2026-11-14, 2026-11-14T09:00Z, 12h or 7d."
        ) from error
    return read if read.tzinfo is not None else read.replace(tzinfo=timezone.utc)


def utc_now() -> datetime:
    """The time."""
    return datetime.now(timezone.utc)


def run_program(argv: Sequence[str], data: bytes | None) -> Finished:
    """Run a program of the system, such as crontab, to its end."""
    return system(os.environ)(argv, data)


def places_of(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that say where transcripts lie, as far as they are set, for a schedule to keep."""
    return tuple((name, env[name]) for name in _PLACE_VARIABLES if env.get(name, "").strip())


def print_to(log: Path) -> None:
    """Send all that this program prints from now on to the end of a file for its owner alone."""
    with as_usage_error(f"--log {log}", "written", "Name another file."):
        make_private_folder(log.parent)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.flush()
        os.dup2(descriptor, number)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    os.close(descriptor)


def as_arguments(flags: Mapping[str, Any]) -> list[str]:
    """The common options as they stand on a command line."""
    named = {field: flag for flag, field in FLAGS.items()}
    words: list[str] = []
    for field, value in flags.items():
        words += [f"--{named[field]}={one}" for one in (value if isinstance(value, list) else [value])]
    return words


@dataclass(slots=True)
class NightView:
    """Shows a night's runs on the terminal and stops them on a signal."""

    quiet: bool
    plain: bool
    _view: Any = None

    def say(self, doing: str) -> None:
        """Show what the night begins to do before its runs."""
        if not self.quiet:
            echo(f"night: {doing}", err=True)

    def sinks(self, job: Job) -> Sequence[Sink]:
        """The view of this run."""
        self._view = _run.choose_view(job, quiet=self.quiet, plain=self.plain)
        return [self._view]

    @contextmanager
    def during(self, opened: OpenRun) -> Iterator[None]:
        """Watch one run."""
        self._view.follow(opened)
        try:
            with _run.scrubbed(opened.job.scrubber), _run.on_signal(opened.stop, self._view, opened.folder):
                yield
        finally:
            self._view.close()


def program() -> tuple[str, ...]:
    """This program by its whole path, as a scheduler needs it."""
    script = Path(sys.executable).with_name("skillopt-sleep.exe" if os.name == "nt" else "skillopt-sleep")
    if script.is_file():
        return (str(script),)
    return tuple(own_program("skillopt_sleep.__main__", name="skillopt-sleep"))


def _absolute(field: str, value: Any) -> Any:
    """A path as it is meant from here: a schedule runs elsewhere."""
    if field not in PATHS:
        return value
    if isinstance(value, list):
        return [str(expand_home(one).absolute()) for one in value]
    return str(expand_home(value).absolute())
