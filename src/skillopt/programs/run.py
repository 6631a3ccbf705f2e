"""Runs the CLI of an agent: finds it, checks its flags, gives it folders of its own and, with bubblewrap, a
wall.

Behind the wall an agent sees the system, its own program and its own folders, and has the network. Tasks with
references, the run folder, other rollouts and the user's home are not there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from skillopt.errors import ConfigError, Fault
from skillopt.files import caches_folder, expand_home, temporary_folder, write_text
from skillopt.process import TimedOut, ask_process, minimal_env, run_process
from skillopt.programs.events import kind_of
from skillopt.programs.port import (
    OWN,
    Access,
    AgentDriver,
    AgentPlace,
    AgentReport,
    Launch,
    check_settings,
    text_setting,
)

MOST_OUTPUT = 64 << 20
"""Bytes of events that are kept; a longer stream loses its end, and with it the result."""
_PATIENCE = 60.0
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_OUTSIDE = (*CERTIFICATES, *_PROXIES, *map(str.lower, _PROXIES))
"""What it takes to reach a provider through a company's network; not for one on this machine."""
_PREFIX = "skillopt-agent-"
UNPACKED = "COPILOT_PKG_CACHE_HOME"
"""The variable that says where Copilot unpacks its 235 MB; unset, in the home of every run anew."""
_LOOPBACK = ("http://127.", "http://localhost", "http://[::1]")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store")
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Where /etc/resolv.conf may lead to."""


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


@contextlib.contextmanager
def fresh_place() -> Iterator[AgentPlace]:
    """Folders for one run of a CLI, private and empty, gone afterwards."""
    with temporary_folder(_PREFIX) as root:
        place = AgentPlace(root=root, home=root / "home", workspace=root / "workspace", temp=root / "tmp")
        for folder in (place.home, place.workspace, place.temp):
            folder.mkdir()
        yield place


def environment(
    place: AgentPlace, access: Access, extra: Mapping[str, str], *, own_home: bool = False
) -> dict[str, str]:
    """The whole environment of a CLI: what it needs to start, a home, and what is passed on purpose."""
    env = minimal_env()
    if not own_home:
        env |= {"HOME": str(place.home), "TMPDIR": str(place.temp)}
        if sys.platform == "win32":
            env |= {name: str(place.home) for name in ("USERPROFILE", "APPDATA", "LOCALAPPDATA")}
            env |= {"TEMP": str(place.temp), "TMP": str(place.temp)}
    if not (access.base_url or "").startswith(_LOOPBACK):
        env |= {name: os.environ[name] for name in _OUTSIDE if name in os.environ}
    return env | dict(extra)


def unpacked() -> Path:
    """The user's folder where a CLI that unpacks itself leaves that for all its runs: asking its version does
    it, and a run behind a wall only reads it.
    """
    return caches_folder() / "programs"


def bare_env(place: AgentPlace) -> dict[str, str]:
    """An environment to ask a CLI its version in, so that even that touches nothing of the user's."""
    nobody = Access(provider="", model="", base_url=_LOOPBACK[0])
    return environment(place, nobody, {UNPACKED: str(unpacked())})


def wall(cli: Path, place: AgentPlace, also: Iterable[Path] = ()) -> list[str]:
    """The beginning of a command line that runs a CLI behind a wall; nothing where that does not work.

    `also` are files and folders of the user's that a setting names, and that are therefore to be seen.
    """
    if sys.platform != "linux" or not _holds(cli.resolve()):
        return []
    return _arguments(cli.resolve(), place, also)


@lru_cache(maxsize=64)
def _holds(program: Path) -> bool:
    """Whether the program starts behind a wall: not without bubblewrap, namespaces or a usual place."""
    is_unusual = any(one in (Path.home(), Path(one.anchor)) for one in _roots(program))
    if shutil.which("bwrap") is None or is_unusual:
        return False
    with fresh_place() as place:
        argv = [*_arguments(program, place, ()), str(program), "--version"]
        try:
            return ask_process(argv, env=bare_env(place), timeout=_PATIENCE).code == 0
        except Fault:
            return False


def _arguments(program: Path, place: AgentPlace, also: Iterable[Path]) -> list[str]:
    bwrap = shutil.which("bwrap")
    assert bwrap is not None, "it was looked for before"
    seen = [*_SYSTEM, *_RESOLVERS, *(os.environ[name] for name in CERTIFICATES if os.environ.get(name))]
    seen += [str(path) for path in (*_roots(program), unpacked(), *also)]
    writable = [str(path) for path in (place.root, place.config) if path is not None]
    return [
        *(bwrap, "--die-with-parent", "--unshare-pid", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *(part for path in dict.fromkeys(seen) for part in ("--ro-bind-try", path, path)),
        *(part for path in writable for part in ("--bind", path, path)),
        *(() if place.documents is None else ("--ro-bind", str(place.documents), str(place.documents))),
        *("--chdir", str(place.workspace), "--"),
    ]


def _roots(program: Path) -> list[Path]:
    """What a program needs of its own installation, and of Node's where that is outside of the system."""
    parts = program.parts
    own = Path(*parts[: parts.index("node_modules") + 1]) if "node_modules" in parts else program.parent
    node = shutil.which("node")
    return [own] if node is None else [own, Path(node).resolve().parent.parent]
