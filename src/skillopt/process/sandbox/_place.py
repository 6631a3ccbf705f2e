"""Decides what a sandboxed program sees: the system read-only, an empty box and tmp, no network.

With bubblewrap. As root its programs run under another user, because the kernel counts no processes against
root; the mounts are then made by root first, so that an interpreter in a home of root's can be reached. The
other mode, `limits`, hides nothing and has to be asked for.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
import shutil
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from skillopt.errors import ConfigError, Fault
from skillopt.process import ask_process, minimal_env

Mode = Literal["bubblewrap", "limits"]
BOX = "/box"
"""Where a program in the sandbox starts and finds its files."""
BOX_BESIDE_ALL = "/dev/box"
"""The same where the whole machine can be read: the one folder that is the sandbox's own."""
_OLDEST = (0, 8)
"""The first bubblewrap that forbids nested namespaces and limits the size of a tmpfs."""
_SHARED_MEMORY = 16 << 20
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FURTHER = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/alternatives", "/etc/localtime", "/nix/store"),
)
_FIRST_UID, _UIDS = 59_000, 1_000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel's `seccomp_data` has them; both machines are little-endian."""
_FAMILIES = (socket.AF_UNIX.value, socket.AF_INET.value, socket.AF_INET6.value, 16)
"""The sockets a program may open; 16 is AF_NETLINK, by which libraries ask for interfaces."""


def require(mode: Mode, *, remedy: str) -> None:
    """Raise `ConfigError` where this machine lacks that mode; `remedy` is an alternative to installing."""
    if mode == "limits" and os.name != "posix":
        raise ConfigError("Programs cannot be limited on this system. Use Linux or macOS.")
    trouble = _trouble() if mode == "bubblewrap" else None
    if trouble is not None:
        raise ConfigError(f"The sandbox cannot be used: {trouble}, or {remedy}.")


def is_there() -> bool:
    """Whether programs can be shut in on this machine."""
    return _trouble() is None


def python_roots() -> tuple[Path, ...]:
    """Where the interpreter and its packages lie."""
    real = Path(sys.executable).resolve().parent.parent
    return tuple(dict.fromkeys([Path(sys.prefix), Path(sys.base_prefix), real]))


def seen_anyway(path: Path) -> bool:
    """Whether the sandbox shows this path as part of the system or of our interpreter."""
    return any(path.is_relative_to(root) for root in (Path("/usr"), *python_roots()))


def shut_in(argv: Sequence[str], *, visible: Iterable[Path], hidden: Iterable[Path], disk: int) -> list[str]:
    """The command line for `argv` in the sandbox; `visible` can be read there, `hidden` is covered."""
    roots = [*python_roots(), *visible]
    sight = [*_system(), *_seen(roots), *_covered(hidden, [Path("/usr"), *roots])]
    inner = [*_bubblewrap(), *_private(("/tmp", BOX), disk), *sight]
    inner += ["--remount-ro", "/", "--chdir", BOX, "--", *argv]
    if os.geteuid() != 0:
        return inner
    uid = str(_FIRST_UID + secrets.randbelow(_UIDS))
    outer = [_program("bwrap"), "--die-with-parent", "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"]
    outer += ["--perms", "0755", "--dir", "/tmp", *sight, "--"]  # bubblewrap itself needs a /tmp to stand on
    setpriv = [_program("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]
    return [*outer, *setpriv, *inner]


def held_back(argv: Sequence[str], *, disk: int) -> list[str]:
    """The command line that runs `argv` as the user: all files can be read, none changed, no network.

    The kernel counts no processes against root, so there the limit on them is kept by watching alone.
    """
    return [*_bubblewrap(), "--ro-bind", "/", "/", *_private((BOX_BESIDE_ALL,), disk), "--", *argv]


def _bubblewrap() -> list[str]:
    return [
        *(_program("bwrap"), "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"),
        *("--new-session", "--as-pid-1", "--hostname", "sandbox", "--cap-drop", "ALL", "--clearenv"),
    ]


def _private(folders: Iterable[str], disk: int) -> list[str]:
    """Processes, devices and empty folders of the sandbox's own."""
    arguments = ["--proc", "/proc", "--dev", "/dev", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm"]
    for folder in folders:
        arguments += ["--size", str(disk), "--tmpfs", folder]
    return [*arguments, "--remount-ro", "/dev"]


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for link in map(Path, _LINKS):
        if link.is_symlink():
            arguments += ["--symlink", str(link.readlink()), str(link)]
        elif link.is_dir():
            arguments += ["--ro-bind", str(link), str(link)]
    return [*arguments, *_seen(path for path in map(Path, _FURTHER) if path.exists())]


def _seen(paths: Iterable[Path]) -> list[str]:
    """Bind every path where it is, in folders for everybody: bubblewrap would make them for one user."""
    arguments: list[str] = []
    made: set[Path] = {Path("/"), Path("/usr")}
    for path in dict.fromkeys(paths):
        if path.is_relative_to("/usr"):
            continue
        for folder in reversed(path.parents):
            if folder not in made:
                made.add(folder)
                arguments += ["--perms", "0755", "--dir", str(folder)]
        arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _covered(paths: Iterable[Path], roots: Sequence[Path]) -> list[str]:
    """Lay something empty over each of these that would show."""
    arguments: list[str] = []
    for path in dict.fromkeys(path.resolve() for path in paths):
        if not any(path.is_relative_to(root.resolve()) for root in roots):
            continue
        if path.is_dir():
            arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            arguments += ["--ro-bind", "/dev/null", str(path)]
    return arguments


def _program(name: str) -> str:
    found = shutil.which(name, path=os.defpath + os.pathsep + os.environ.get("PATH", ""))
    if found is None:
        raise Fault("sandbox", f"the program {name!r} is not installed")
    return found


@cache
def _trouble() -> str | None:
    """Why programs cannot be shut in here, and the remedy; None when they can, which is tried once."""
    if sys.platform != "linux":
        return "it needs Linux and bubblewrap"
    try:
        version = ask_process([_program("bwrap"), "--version"], env=minimal_env(), timeout=20).stdout.decode()
        if os.geteuid() == 0:
            _program("setpriv")
    except Fault as fault:
        package = "util-linux" if "setpriv" in fault.detail else "bubblewrap"
        return f"{fault.detail}. Install the package {package} (apt install {package})"
    numbers = re.findall(r"\d+", version)
    if tuple(map(int, numbers[:2])) < _OLDEST:
        return f"{version.strip()} is too old. Install bubblewrap {'.'.join(map(str, _OLDEST))} or newer"
    argv = shut_in([sys.executable, "-I", "-S", "-c", "print(1)"], visible=(), hidden=(), disk=1 << 20)
    try:
        tried = ask_process(argv, env=minimal_env(), timeout=20)
    except Fault as fault:
        return fault.detail
    if tried.code != 0 or tried.stdout.strip() != b"1":
        said = tried.stderr.decode(errors="replace").strip()[-300:] or f"it ended with code {tried.code}"
        allow = "Allow user namespaces (in a container, start it with --privileged)"
        return f"bubblewrap does not work here: {said}. {allow}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    architecture: int
    socket: int
    refused: tuple[int, ...]
    other_abi: int | None = None
    """Numbers from here on belong to a second table of the same machine (x32), which we do not list."""


# Refused, in this order: add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd, kexec_load,
# kexec_file_load, and the three of io_uring, which would open sockets past this filter.
_MACHINES = {
    "x86_64": _Machine(
        architecture=0xC000003E,
        socket=41,
        refused=(248, 249, 250, 321, 298, 323, 246, 320, 425, 426, 427),
        other_abi=0x40000000,
    ),
    "aarch64": _Machine(
        architecture=0xC00000B7, socket=198, refused=(217, 218, 219, 280, 241, 282, 104, 294, 425, 426, 427)
    ),
}


def call_filter(machine: str | None = None) -> bytes:
    """The filter of system calls for this machine, or the one named; empty for one not in the table.

    Namespaces do not cover everything: the keys of the caller's session, sockets to the host of a virtual
    machine (AF_VSOCK), and interfaces of the kernel that no scored program needs and that were often its way
    out. The filter is classic BPF as `seccomp(2)` takes it; a call that it refuses fails with an error, so
    that a program which only tries goes on.
    """
    known = _MACHINES.get(machine or platform.machine())
    return b"" if known is None else _assembled(known)


def _assembled(machine: _Machine) -> bytes:
    """Each step is (code, value, where to go if true, if false); names of later steps are resolved last."""
    steps: list[tuple[int, int, str, str]] = [
        (_LOAD, _ARCHITECTURE, "", ""),
        (_EQUAL, machine.architecture, "", "unknown"),  # calls of another architecture have other numbers
        (_LOAD, _NUMBER, "", ""),
    ]
    if machine.other_abi is not None:
        steps.append((_AT_LEAST, machine.other_abi, "unknown", ""))
    steps += [(_EQUAL, number, "refused", "") for number in machine.refused]
    steps += [(_EQUAL, machine.socket, "", "allowed"), (_LOAD, _FIRST_ARGUMENT, "", "")]
    steps += [(_EQUAL, family, "allowed", "") for family in _FAMILIES]
    ends = {
        "family": _ERROR | errno.EAFNOSUPPORT,
        "refused": _ERROR | errno.EPERM,
        "unknown": _ERROR | errno.ENOSYS,
        "allowed": _ALLOW,
    }
    places = {name: len(steps) + at for at, name in enumerate(ends)}

    def jump(at: int, name: str) -> int:
        return places[name] - at - 1 if name else 0

    packed = [
        struct.pack("<HBBI", code, jump(at, true), jump(at, false), value)
        for at, (code, value, true, false) in enumerate(steps)
    ]
    return b"".join([*packed, *(struct.pack("<HBBI", _RETURN, 0, 0, value) for value in ends.values())])
