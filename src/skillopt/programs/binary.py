"""Decides whether the installed CLI is one we can drive: where it is, its version, and its flags."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skillopt.errors import ConfigError, Fault
from skillopt.process import ask_process
from skillopt.programs.place import bare_env, fresh_place
from skillopt.programs.port import AgentDriver

_PATIENCE = 60.0
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A CLI on this machine."""

    path: Path
    version: str


def installed(agent: AgentDriver, settings: Mapping[str, object]) -> Installed:
    """Find the CLI and ask its version. Raises `ConfigError` with the remedy where there is none."""
    named = settings.get("path")
    wanted = str(named or agent.binary)
    found = shutil.which(wanted)
    if found is None:
        hint = (
            f"Correct the path {wanted!r}"
            if named
            else f"Install it ({agent.package}), or set the path of {agent.binary!r}"
        )
        raise ConfigError(f"There is no program {wanted!r} for {agent.name}. {hint}.")
    path = Path(found).absolute()
    return Installed(path=path, version=_version(*_stamp(path)))


def check_flags(agent: AgentDriver, cli: Installed) -> None:
    """Raise `Fault("contract")`, with the remedy, for a flag of the driver that this version lacks."""
    text = _help(*_stamp(cli.path), agent.help)
    gone = [flag for flag in agent.flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text)]
    if gone:
        raise Fault(
            "contract",
            f"{agent.name}: version {cli.version} of {cli.path} does not know {', '.join(gone)}. Install a"
            f" version that does (tried with {agent.tested}: {agent.package}), or name another program.",
        )


def _stamp(path: Path) -> tuple[Path, int, int]:
    """A program and what changes when another version takes its place."""
    stat = path.stat()
    return path, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=64)
def _version(path: Path, _modified: int, _size: int) -> str:
    text = _said(path, ("--version",))
    match = _VERSION.search(text)
    return match[0] if match else text.strip()[:60] or "unknown"


@lru_cache(maxsize=64)
def _help(path: Path, _modified: int, _size: int, arguments: tuple[str, ...]) -> str:
    return _said(path, arguments)


def _said(path: Path, arguments: tuple[str, ...]) -> str:
    with fresh_place() as place:
        done = ask_process([str(path), *arguments], env=bare_env(place), timeout=_PATIENCE)
    return (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
