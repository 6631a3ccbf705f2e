"""Finds the CLI of an agent, checks that we can drive it, and runs it once; every failure has its kind."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from skillopt.errors import ConfigError, Fault
from skillopt.files import expand_home, write_text
from skillopt.process import TimedOut, ask_process, run_process
from skillopt.programs.events import kind_of
from skillopt.programs.place import bare_env, environment, fresh_place, wall
from skillopt.programs.port import OWN, Access, AgentDriver, AgentPlace, AgentReport, Launch
from skillopt.programs.settings import check_settings, text_setting

MOST_OUTPUT = 64 << 20
"""Bytes of events that are kept; a longer stream loses its end, and with it the result."""
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
        hint = f"Install it ({agent.package}), or set the path of {agent.binary!r}"
        if named:
            hint = f"Correct the path {wanted!r}"
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


class InstalledAgent:
    """One installed agent CLI with its settings and its access; shared by all of its runs."""

    def __init__(
        self, driver: AgentDriver, access: Access, settings: Mapping[str, Any], *, timeout: float
    ) -> None:
        check_settings(driver.name, settings, driver.settings)
        if access.provider != OWN and access.provider not in driver.providers:
            raise ConfigError(
                f"{driver.name} cannot use models of {access.provider!r}; it takes those of"
                f" {', '.join(sorted(driver.providers))}, and its own without a provider."
            )
        self.driver = driver
        self.access = access
        self.settings = dict(settings)
        self.timeout = timeout
        self.cli: Installed = installed(driver, settings)
        home = text_setting(settings, "home")
        self._config = None if home is None else expand_home(home).absolute()
        profile = text_setting(settings, "profile")
        self._named = [Path(profile).absolute()] if profile and Path(profile).is_file() else []

    @property
    def can_isolate_login(self) -> bool:
        """Whether a run can have a home of its own: it needs a credential that is passed on purpose."""
        return self.access.provider != OWN or self.access.key is not None

    @contextlib.contextmanager
    def place(self) -> Iterator[AgentPlace]:
        """Fresh folders for one run."""
        with fresh_place() as place:
            yield replace(place, config=self._config)

    async def run(
        self, place: AgentPlace, launch: Launch, *, skill: str | None, walled: bool = False
    ) -> AgentReport:
        """Start the CLI, wait for its end, read what it did. Raises `Fault` with the right kind.

        `walled` keeps the rest of the machine out of its sight, where this machine can.
        """
        check_flags(self.driver, self.cli)
        before = wall(self.cli.path, place, self._named) if walled else []
        for path, text in launch.files.items():
            write_text(path, text)
        for path, target in launch.links.items():
            with contextlib.suppress(OSError):  # Windows lets few people make one; the CLI goes without
                if target.exists():
                    path.symlink_to(target)
        env = environment(place, self.access, launch.env, own_home=launch.own_home)
        try:
            done = await run_process(
                [*before, str(self.cli.path.resolve() if before else self.cli.path), *launch.arguments],
                input=launch.stdin.encode(),
                env=env,
                cwd=place.workspace,
                timeout=self.timeout,
                max_output=MOST_OUTPUT,
                guarded=True,
                belongings=place.root,
            )
        except TimedOut as timed_out:
            raise self._hung(timed_out) from None
        except Fault as fault:
            raise Fault(fault.kind, f"{self.driver.name}: {fault.detail}") from fault
        return self.driver.report(done, place, skill)

    def _hung(self, timed_out: TimedOut) -> Fault:
        """What a CLI that waits for a dead network or login said last is the better reason."""
        streams = (timed_out.partial.stdout, timed_out.partial.stderr)
        ends = (stream[-2000:].decode("utf-8", "replace").strip() for stream in streams)
        said = next((end.rpartition("\n")[2] for end in ends if end), "")
        looks_like = kind_of(said) if '"error"' in said or said == said.strip("{}") else None
        hint = f"; it said last: {said[:200]}" if looks_like in ("auth", "unavailable", "rate_limit") else ""
        return Fault(
            "timeout", f"{self.driver.name} did not end within {self.timeout:g} s and was ended{hint}"
        )
