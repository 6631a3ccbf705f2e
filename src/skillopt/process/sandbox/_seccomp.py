"""Assembles the system-call filter of sandboxed programs.

Namespaces do not cover everything: the keys of the caller's session, sockets to the host of a virtual machine
(AF_VSOCK), and interfaces of the kernel that no scored program needs and that were often its way out. The
filter is classic BPF as `seccomp(2)` takes it; a call that it refuses fails with an error, so that a program
which only tries goes on.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel's `seccomp_data` has them; both machines are little-endian."""
_FAMILIES = (socket.AF_UNIX.value, socket.AF_INET.value, socket.AF_INET6.value, 16)
"""The sockets a program may open; 16 is AF_NETLINK, by which libraries ask for interfaces."""


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


def program(machine: str | None = None) -> bytes:
    """The filter for this machine, or the one named; empty for one that is not in the table."""
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
