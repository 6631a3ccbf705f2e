"""What an agent program can see: folders of its own outside the run folder, an environment with nothing of
ours in it, and with bubblewrap the system, its own program and its own place alone.

Tasks with references, the run folder, other rollouts and the user's home are not there; the network is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from skillopt.errors import Fault
from skillopt.files import caches_folder, temporary_folder
from skillopt.process import ask_process, minimal_env
from skillopt.programs.port import Access, AgentPlace

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_OUTSIDE = (*CERTIFICATES, *_PROXIES, *map(str.lower, _PROXIES))
"""What it takes to reach a provider through a company's network; not for one on this machine."""
_PREFIX = "skillopt-agent-"
UNPACKED = "COPILOT_PKG_CACHE_HOME"
"""The variable that says where Copilot unpacks its 235 MB; unset, in the home of every run anew."""
_LOOPBACK = ("http://127.", "http://localhost", "http://[::1]")


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


_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store")
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Where /etc/resolv.conf may lead to."""
_PATIENCE = 60.0


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
