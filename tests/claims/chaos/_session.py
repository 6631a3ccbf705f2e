"""One command of the program in a process of its own, with the fault that strikes it from inside.

Sessions are forked from a server that has imported everything already: two hundred of them cost what they
compute, not what Python takes to start. Moments are chosen in CPU seconds, so that a busy machine changes
nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import forkserver, get_context
from pathlib import Path
from typing import Any

from claims._product import Retry, skillopt

KILLED = frozenset({-signal.SIGPROF, -signal.SIGKILL})
"""Exit codes of a program that had no chance to say anything."""
CLEAN = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 130})
"""Exit codes of a program that ended by itself."""
LONGEST = 600.0
_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        *("claims.chaos._session", "claims.chaos._warm", "aiohttp", "encodings.idna", "rich._emoji_codes"),
        *(f"skillopt.cli.{name}" for name in ("train", "check", "sleep")),
        *("skillopt.models.providers.compatible", "skillopt.harnesses.chat", "skillopt.benchmarks.own"),
        *("skillopt.executors.in_process", "skillopt.optimizer.proposers.analysts"),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Session:
    """A command, where it runs, and what goes wrong inside of it."""

    argv: Sequence[str]
    cwd: Path
    notes: Path
    """Where a session leaves what it said and took; outside of what it works in."""
    environ: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, float] | None = None
    """`kill`, `kill group`, `terminate` or `hang up`, after so many CPU seconds."""
    streams: str = "file"
    """`file`, `closed` (nobody reads the pipe) or `full` (/dev/full)."""
    largest: int | None = None
    """No file may grow beyond so many bytes: what a full disk is to a program."""
    powerless: bool = False
    """Without the rights of root, so that a read-only folder is one."""
    clock: float = 0.0
    """Seconds the clock jumps by, there and back, every tenth of a CPU second."""
    nameless: bool = False
    """No host name can be resolved."""
    tracker: bool = False
    """A tracker that raises whatever it is told."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a session ended."""

    code: int
    said: str
    seconds: float
    """CPU."""

    @property
    def is_clean(self) -> bool:
        """Whether it was killed, or ended by itself and without a traceback."""
        return self.code in KILLED or (self.code in CLEAN and "Traceback" not in self.said)


def run(session: Session) -> Ended:
    """Run a session to its end."""
    return finish(start(session), session)


def start(session: Session) -> Any:
    """Start a session; `finish` waits for it."""
    _ensure_server()
    process = _SERVER.Process(target=_inside, args=(session,))
    process.start()
    return process


def finish(process: Any, session: Session) -> Ended:
    """Wait for a session and tell how it ended."""
    process.join(LONGEST)
    if process.exitcode is None:
        process.kill()
        process.join()
        return Ended(code=-999, said=f"did not end within {LONGEST:.0f} s", seconds=LONGEST)
    said, used = _output(session, process.pid), session.notes / f"cpu.{process.pid}"
    seconds = float(used.read_text() or 0) if used.exists() else 0.0
    for path in (_said(session, process.pid), used):
        path.unlink(missing_ok=True)
    return Ended(code=process.exitcode, said=said, seconds=seconds)


@cache
def _ensure_server() -> None:
    """Start the server with the tests on its path: what it cannot import beforehand, it leaves out in
    silence.
    """
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


def _said(session: Session, pid: int) -> Path:
    return session.notes / f"said.{pid}"


def _output(session: Session, pid: int) -> str:
    path = _said(session, pid)
    return path.read_text(errors="replace") if path.exists() else ""


def _inside(session: Session) -> None:
    os.setsid()
    os.chdir(session.cwd)
    os.environ.clear()
    os.environ.update(session.environ)
    _streams(session)
    used = session.notes / f"cpu.{os.getpid()}"
    used.touch()
    used.chmod(0o666)
    begun = time.process_time()
    _hurt(session)
    try:
        skillopt.cli.main(list(session.argv))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - begun
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        used.write_text(str(seconds))


def _streams(session: Session) -> None:
    said = os.open(_said(session, os.getpid()), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666)
    out = said
    if session.streams == "closed":
        reading, out = os.pipe()
        os.close(reading)
    elif session.streams == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(said if session.streams == "file" else out, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)


def _hurt(session: Session) -> None:
    Retry.__init__.__kwdefaults__.update(first_delay=0.01, longest_delay=0.05)  # loopback
    if session.after is not None:
        how, seconds = session.after
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process at once
        if how != "kill":
            signal.signal(signal.SIGPROF, lambda *_: _strike(how))
        signal.setitimer(signal.ITIMER_PROF, max(0.001, seconds))
    if session.largest is not None:
        limit = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (session.largest, limit))
    if session.clock:
        real = time.time
        time.time = lambda: real() + session.clock * (int(time.process_time() * 10) % 2)
    if session.nameless:
        socket.getaddrinfo = _no_names
    if session.tracker:
        _register_tracker()
    if session.powerless:
        # No capability is left, so that modes of folders count for root too. Version 3 of the call takes two
        # records of three words.
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        ctypes.CDLL(None).capset(header, none)


def _strike(how: str) -> None:
    if how == "kill group":
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM if how == "terminate" else signal.SIGHUP)


def _no_names(*_: Any, **__: Any) -> Any:
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def _register_tracker() -> None:
    from claims._product import TrackerPlugin, register

    class Raising:
        reference = None

        def tell(self, event: Any) -> None:
            raise RuntimeError("the tracker crashed")

        def close(self) -> None:
            raise RuntimeError("the tracker crashed again")

    register("trackers", "raising", TrackerPlugin(open=lambda opening: Raising()))


def as_json(text: str) -> Any:
    """The JSON value that a command printed, whatever else it said."""
    return json.loads(text[text.index("{") :])
