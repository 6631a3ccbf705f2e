"""Runs programs: one to its end, after which nothing of it is left; our own; and one that outlives us."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from skillopt.errors import Fault, UsageError
from skillopt.process import _reaper

_LEFTOVER_GRACE = 1.0
"""Seconds that what a finished program left behind may still hold its pipes before it is ended too."""
# `python -m` looks for modules in the working directory before anywhere else. That is somebody's project: a
# file `typer.py` in it would run in place of the library. `-P` forbids it, but only from Python 3.11 on.
_START = (
    "import sys; sys.path[:] = [path for path in sys.path if path]; sys.argv[0] = {name!r}; from {module}"
    " import main; main()"
)
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")
_KEPT_ON_WINDOWS = ("PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "USERPROFILE", "TEMP", "TMP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a process ended and what it printed; `cut` is True when a stream was longer than the limit and lost
    its end.
    """

    code: int
    stdout: bytes
    stderr: bytes
    cut: bool = False


class TimedOut(Fault):
    """A program that was ended because its time was up; `partial` is what it had printed until then."""

    def __init__(self, detail: str, partial: Finished) -> None:
        super().__init__("timeout", detail)
        self.partial = partial


def minimal_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: what a program needs to start, plus `extra`. API keys are never in it."""
    kept = _KEPT_VARIABLES + (_KEPT_ON_WINDOWS if sys.platform == "win32" else ())
    return {name: os.environ[name] for name in kept if name in os.environ} | dict(extra or {})


def git_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a git that asks nothing and starts no program that a cloned folder names."""
    settings = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}
    given = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return minimal_env({**given, **(extra or {})})


async def run_process(
    argv: Sequence[str],
    *,
    input: bytes | None,
    env: Mapping[str, str],
    cwd: Path | str | None,
    timeout: float,
    max_output: int = 1 << 20,
    guarded: bool = False,
    belongings: Path | None = None,
    grace: float = 0,
    heard: Callable[[bytes], None] | None = None,
) -> Finished:
    """Run a program to its end and return what it printed, each stream up to `max_output` bytes.

    Raises `Fault("spawn")` when it cannot be started and `TimedOut` when it has not ended in `timeout`
    seconds. After a timeout, a cancellation, or an end that left children holding its output, every process
    of its group is killed. A `guarded` program is one that starts programs itself: whatever it started ends
    with it, also what left its group (where there is a /proc), and also when this process is killed;
    `belongings` is a folder that is removed in that last case, when nobody else is left to do it. With
    `grace` a cancelled program is first asked to stop (SIGINT; not on Windows) and has so many seconds to do
    so; a second cancellation ends it at once. `heard` is told what arrives on stderr.
    """
    loop = asyncio.get_running_loop()
    mark = uuid.uuid4().hex if guarded else None
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Pipes(loop, max_output, heard),
            *argv,
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env) if mark is None else {**env, _reaper.MARK: mark},
            cwd=cwd,
            **own_group(),
        )
    )
    try:
        # Shielded, and waited for: in Python 3.10 and 3.11 a start that is cancelled half-way can wait for
        # ever for a program that is gone.
        transport, pipes = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        await _end_unwanted(starting, grace)
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in an argument
        raise Fault("spawn", f"{argv[0]} could not be started: {error}") from error
    pid = transport.get_pid()
    child = json.dumps([pid, mark, None if belongings is None else str(belongings)])
    if mark is not None:
        _GUARD.tell(f"+{child}")
    try:
        if input is not None:
            stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
            stdin.write(input)
            stdin.close()
        await asyncio.wait([pipes.exited], timeout=timeout)
        if not pipes.exited.done():
            raise TimedOut(f"{argv[0]} did not end within {timeout:g} s", pipes.so_far(-1))
        await asyncio.wait([pipes.closed], timeout=_LEFTOVER_GRACE)
    except asyncio.CancelledError:
        await _ask_to_stop(transport, pipes, grace)
        raise
    finally:
        if mark is not None or not pipes.closed.done():
            await _end(pid, mark)
            await asyncio.wait([pipes.exited], timeout=5)
        if mark is not None:
            _GUARD.tell(f"-{child}")
        transport.close()
    code = transport.get_returncode()
    assert code is not None, "a process that exited has a return code"
    return pipes.so_far(code)


def ask_process(argv: Sequence[str], *, env: Mapping[str, str], timeout: float) -> Finished:
    """Ask a program a quick question such as its version, without an event loop. Raises like
    `run_process`.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(env),
            timeout=timeout,
            **own_group(),
        )
    except subprocess.TimeoutExpired as error:
        partial = Finished(code=-1, stdout=error.stdout or b"", stderr=error.stderr or b"")
        raise TimedOut(f"{argv[0]} did not end within {timeout:g} s", partial) from error
    except (OSError, ValueError) as error:
        raise Fault("spawn", f"{argv[0]} could not be started: {error}") from error
    return Finished(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


class _Pipes(asyncio.SubprocessProtocol):
    """Collects output up to a limit and drops the rest, so a chatty child neither blocks nor fills our
    memory.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit: int, heard: Callable[[bytes], None] | None = None
    ) -> None:
        self.streams = {1: bytearray(), 2: bytearray()}
        self.cut = False
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """Exited, and nobody holds its pipes any more."""
        self._limit = limit
        self._heard = heard

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2 and self._heard is not None:
            self._heard(data)
        room = self._limit - len(self.streams[fd])
        self.streams[fd] += data[:room]
        self.cut = self.cut or len(data) > room

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def so_far(self, code: int) -> Finished:
        """What was printed until now, and how it ended."""
        return Finished(code=code, stdout=bytes(self.streams[1]), stderr=bytes(self.streams[2]), cut=self.cut)


class _Guard:
    """The program that outlives us for a moment to end our guarded children; started with the
    first of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._program: subprocess.Popen[bytes] | None = None
        self._alive: set[str] = set()

    def tell(self, line: str) -> None:
        """Note a child (`+` and what it is) or its end (`-`)."""
        with self._lock:
            (self._alive.add if line[0] == "+" else self._alive.discard)(line[1:])
            if self._owner != os.getpid():  # a forked copy of us guards its own children
                self._owner, self._program = os.getpid(), None
            try:
                self._write(line)
            except OSError:  # somebody ended it: a new one is told of all that live
                self._program = None
                for child in self._alive:
                    self._write(f"+{child}")

    def _write(self, line: str) -> None:
        if self._program is None:
            self._program = subprocess.Popen(
                [sys.executable, "-I", "-S", _reaper.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=minimal_env(),
                cwd=Path(sys.executable).anchor,  # it must not hold somebody's temporary folder
                **own_group(),
            )
        assert self._program.stdin is not None
        self._program.stdin.write(line.encode() + b"\n")
        self._program.stdin.flush()


_GUARD = _Guard()


def own_group() -> dict[str, Any]:
    """Arguments that start a process in a group of its own."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


async def _ask_to_stop(transport: asyncio.SubprocessTransport, pipes: _Pipes, grace: float) -> None:
    if grace > 0 and sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            transport.send_signal(signal.SIGINT)
        await asyncio.wait([pipes.exited], timeout=grace)


async def _end_unwanted(
    starting: asyncio.Future[tuple[asyncio.SubprocessTransport, _Pipes]], grace: float
) -> None:
    """End a program that was still being started when nobody wanted it any more."""
    if starting.cancelled() or starting.exception() is not None:
        return
    transport, pipes = starting.result()
    try:
        await _ask_to_stop(transport, pipes, grace)
    finally:
        _reaper.end_tree(transport.get_pid(), None)
        transport.close()


async def _end(pid: int, mark: str | None) -> None:
    """End the tree without holding up the loop, and to the end even if we are cancelled meanwhile."""
    if mark is None and sys.platform != "win32":
        _reaper.end_tree(pid, None)
        return
    await asyncio.shield(asyncio.to_thread(_reaper.end_tree, pid, mark))


def own_program(module: str = "skillopt.cli", *, name: str = "skillopt") -> list[str]:
    """The words that start `main` of a module of ours; its arguments follow them."""
    return [sys.executable, "-c", _START.format(module=module, name=name)]


def start_detached(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, output: Path
) -> subprocess.Popen[bytes]:
    """Start a program that outlives us and return at once: it has a session of its own, and no signal meant
    for us reaches it. Both its streams are appended to `output`, which only the user can
    read.

    Raises `UsageError` when it cannot be started. The handle tells how it ended, should we live to see it.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        output.touch(mode=0o600)
        with output.open("ab") as file:
            return subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=_alone(),
            )
    except OSError as error:
        raise UsageError(f"{argv[0]} could not be started in {cwd}: {error.strerror or error}.") from error


def _alone() -> int:
    """What `start_new_session` is on Windows, where it does nothing."""
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS
    return 0
