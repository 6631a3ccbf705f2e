"""Starts every child process of the project: never through a shell, never with our environment, and ended with its whole tree."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from skillopt.errors import Fault

_LEFTOVER_GRACE = 1.0
"""Seconds that what a finished program left behind may still hold its pipes before it is ended too."""
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")
_KEPT_ON_WINDOWS = ("PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "USERPROFILE", "TEMP", "TMP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a process ended and what it printed; `cut` is True when a stream was longer than the limit and lost its end."""

    code: int
    stdout: bytes
    stderr: bytes
    cut: bool = False


def minimal_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: what a program needs to start, plus `extra`. API keys are never in it."""
    kept = _KEPT_VARIABLES + (_KEPT_ON_WINDOWS if sys.platform == "win32" else ())
    return {name: os.environ[name] for name in kept if name in os.environ} | dict(extra or {})


async def run_process(
    argv: Sequence[str],
    *,
    input: bytes | None,
    env: Mapping[str, str],
    cwd: Path | str | None,
    timeout: float,
    max_output: int = 1 << 20,
) -> Finished:
    """Run a program to its end and return what it printed, each stream up to `max_output` bytes.

    Raises `Fault("spawn")` when it cannot be started and `Fault("timeout")` when it has not ended in `timeout` seconds. After a timeout,
    a cancellation, or an end that left children holding its output, every process of its group is killed.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, pipes = await loop.subprocess_exec(
            lambda: _Pipes(loop, max_output),
            *argv,
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            **_own_group(),
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in an argument
        raise Fault("spawn", f"{argv[0]} could not be started: {error}") from error
    try:
        if input is not None:
            stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
            stdin.write(input)
            stdin.close()
        await asyncio.wait([pipes.exited], timeout=timeout)
        if not pipes.exited.done():
            raise Fault("timeout", f"{argv[0]} did not end within {timeout:g} s")
        await asyncio.wait([pipes.closed], timeout=_LEFTOVER_GRACE)
    finally:
        if not pipes.closed.done():
            await _kill_tree(transport.get_pid())
            await asyncio.wait([pipes.exited], timeout=5)
        transport.close()
    code = transport.get_returncode()
    assert code is not None, "a process that exited has a return code"
    return Finished(code=code, stdout=bytes(pipes.streams[1]), stderr=bytes(pipes.streams[2]), cut=pipes.cut)


class _Pipes(asyncio.SubprocessProtocol):
    """Collects output up to a limit and drops the rest, so a chatty child neither blocks nor fills our memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.streams = {1: bytearray(), 2: bytearray()}
        self.cut = False
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """Exited, and nobody holds its pipes any more."""
        self._limit = limit

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        room = self._limit - len(self.streams[fd])
        self.streams[fd] += data[:room]
        self.cut = self.cut or len(data) > room

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


async def _kill_tree(pid: int) -> None:
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        await asyncio.to_thread(subprocess.run, command, capture_output=True, creationflags=subprocess.CREATE_NO_WINDOW)
        return
    try:
        os.killpg(pid, signal.SIGKILL)  # the session we started it in has its own pid as group id
    except ProcessLookupError:
        return
