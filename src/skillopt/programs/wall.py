"""Decides what of the machine an agent at work can see: with bubblewrap the system, its own program and its
own place, and nothing else.

Tasks with their references, the run folder, other rollouts and the user's home are not there. The network is:
the agent's model is on it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from skillopt.errors import Fault
from skillopt.process import ask_process
from skillopt.programs.place import CERTIFICATES, bare_env, fresh_place, unpacked
from skillopt.programs.port import AgentPlace

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store")
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Where /etc/resolv.conf may lead to."""
_PATIENCE = 60.0


def wall(cli: Path, place: AgentPlace, also: Iterable[Path] = ()) -> list[str]:
    """The beginning of a command line that runs a CLI behind a wall, or nothing where that does not work on
    this machine.

    `also` are files and folders of the user's that a setting names, and that are therefore to be seen.
    """
    if sys.platform != "linux" or not _holds(cli.resolve()):
        return []
    return _arguments(cli.resolve(), place, also)


@lru_cache(maxsize=64)
def _holds(program: Path) -> bool:
    """Whether the program starts behind a wall: no bubblewrap, no user namespaces or an unusual installation,
    and it does not.
    """
    if shutil.which("bwrap") is None or any(
        one in (Path.home(), Path(one.anchor)) for one in _roots(program)
    ):
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
    """What a program needs of its own installation, and Node's where it is a script for Node outside of the
    system.
    """
    parts = program.parts
    own = Path(*parts[: parts.index("node_modules") + 1]) if "node_modules" in parts else program.parent
    node = shutil.which("node")
    return [own] if node is None else [own, Path(node).resolve().parent.parent]
