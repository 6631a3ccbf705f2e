"""Watches over one program: gives it files and limits, ends it with all it started, returns what it left.

A program of its own (`python -I -S -c <this text>`) which imports nothing of ours. In the sandbox it is
process 1 of its namespace: what it watches can neither kill, stop nor trace it, and everything ends when it
does. It is asked on stdin and answers on stdout, both as an eight-byte length, a JSON object of that length,
and then the contents that the object lists. Before the answer comes the mark that the job names, as soon as
the program may run: whatever happens to the watcher after it can be that program's doing.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1
_LOOK_EVERY = 0.05
_SOON = 0.005
"""A program that has closed its output is about to end."""
_LEFTOVER = 2.0
"""Seconds to wait for what was killed to be gone."""
_FILES_OPEN = 256
_MARK = "SKILLOPT_PROCESS"
"""By this variable whoever guards us, where no namespace does, finds what we started."""


def main() -> None:
    """Read the job, run it, report."""
    job = json.loads(_take(int.from_bytes(_take(8), "big")))
    box = Path(job["box"])
    for name, size in job["files"]:
        path = box / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_take(size))
    given = _take(job["input"])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if keyctl := _KEYCTL.get(os.uname().machine):  # a keyring of its own, instead of the caller's
            libc.syscall(keyctl, _JOIN_SESSION_KEYRING, None)
    for number in _signals():  # process 1 gets only those it handles, and Python handles SIGINT
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.buffer.write(job["started"].encode())
    sys.stdout.buffer.flush()
    watch = _Watch(job)
    watch.run(given)
    contents = [_collect(box, name, most) for name, most in job["collect"]]
    report = {
        "code": watch.code,
        "stopped": watch.stopped,
        "cut": watch.cut,
        "error": watch.error,
        "streams": [len(stream) for stream in watch.streams],
        "collected": [content if isinstance(content, str) else len(content) for content in contents],
    }
    head = json.dumps(report).encode()
    out = sys.stdout.buffer
    out.write(len(head).to_bytes(8, "big") + head)
    for blob in [*watch.streams, *contents]:
        if not isinstance(blob, str):
            out.write(blob)
    out.flush()


class _Watch:
    """One program and everything it starts."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.code: int | None = None
        self.stopped: str | None = None
        self.error: str | None = None
        self.cut = False
        self.streams = [bytearray(), bytearray()]
        self.child = 0
        self._alone = os.getpid() == 1
        self._exec_error = b""

    def run(self, given: bytes) -> None:
        """Start it, feed it, and look after it until it has ended or must end."""
        stdin, stdout, stderr, failed = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child == 0:
            self._become(stdin[0], stdout[1], stderr[1], failed[1])
        for end in (stdin[0], stdout[1], stderr[1], failed[1]):
            os.close(end)
        os.set_blocking(stdin[1], False)
        until = time.monotonic() + float(self.job["seconds"])
        self._attend(stdin[1], given, {stdout[0]: 0, stderr[0]: 1, failed[0]: None}, until)
        if self._exec_error:
            self.error = self._exec_error.decode(errors="replace")

    def _become(self, stdin: int, stdout: int, stderr: int, failed: int) -> None:
        """The child: limits on, then the program."""
        try:
            os.setsid()
            for number in _signals():  # ignored here, which its children would inherit
                signal.signal(number, signal.SIG_DFL)
            for place, end in enumerate((stdin, stdout, stderr)):
                os.dup2(end, place)
            os.closerange(3, failed)
            os.set_inheritable(failed, False)
            os.closerange(failed + 1, _FILES_OPEN)
            for name, value in self.job["rlimits"].items():
                limited = getattr(resource, name)
                hard = resource.getrlimit(limited)[1]
                least = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(limited, (least, least))
            os.chdir(self.job["cwd"])
            if self.job["filter"]:
                _install(bytes.fromhex(self.job["filter"]))
            marked = {name: os.environ[name] for name in (_MARK,) if name in os.environ}
            os.execvpe(self.job["argv"][0], self.job["argv"], {**self.job["env"], **marked})
        except BaseException as error:  # noqa: BLE001 - whatever it is must be told, and this process must not go on
            os.write(failed, f"{self.job['argv'][0]}: {error}".encode())
        os._exit(127)

    def _attend(self, stdin: int, given: bytes, pipes: dict[int, int | None], until: float) -> None:
        poll = select.poll()
        for end in pipes:
            poll.register(end, select.POLLIN)
        poll.register(stdin, select.POLLOUT)
        # an error there: whoever asked is gone, and nothing may outlive them
        poll.register(sys.stdout.fileno(), 0)
        fed, feeding = 0, True
        while True:
            for end, event in poll.poll((_LOOK_EVERY if pipes else _SOON) * 1000):
                if end == sys.stdout.fileno():
                    self._end()
                    sys.exit("nobody waits for the report any more")
                if end == stdin:
                    sent = _feed(stdin, given[fed : fed + 65536]) if event & select.POLLOUT else None
                    fed += sent or 0
                    if sent is None or fed >= len(given):
                        poll.unregister(stdin)
                        os.close(stdin)
                        feeding = False
                elif not self._hear(end, pipes[end]):
                    poll.unregister(end)
                    del pipes[end]
            self._reap()
            if self.code is not None or self._must_stop(until):
                break
        if feeding:
            os.close(stdin)
        self._end()
        for end, stream in pipes.items():
            os.set_blocking(end, False)
            while self._hear(end, stream):
                pass

    def _hear(self, end: int, stream: int | None) -> bool:
        """Take what a pipe holds, up to the limit; False when there is no more."""
        try:
            data = os.read(end, 65536)
        except BlockingIOError:
            return False
        if stream is None:
            self._exec_error += data
        else:
            room = int(self.job["output"]) - len(self.streams[stream])
            self.streams[stream] += data[:room]
            self.cut = self.cut or len(data) > room
        return bool(data)

    def _reap(self) -> None:
        """Take up every child that ended; process 1 also inherits the orphans."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.child:
                    self.code = os.waitstatus_to_exitcode(status)

    def _must_stop(self, until: float) -> bool:
        if time.monotonic() >= until:
            self.stopped = "time"
        else:
            family = self._family()
            if len(family) > self.job["processes"]:
                self.stopped = "processes"
            elif sum(family.values()) > self.job["memory"]:
                self.stopped = "memory"
            elif any(_files_in(folder) > self.job["most_files"] for folder in self.job["counted"]):
                self.stopped = "files"
        return self.stopped is not None

    def _family(self) -> dict[int, int]:
        """Every process of the program with the memory it holds; where there is no /proc, none is seen."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:  # gone meanwhile
                continue
            pid = int(folder.name)
            if pid != os.getpid() and (self._alone or int(fields[3]) == self.child):  # the session it leads
                found[pid] = int(fields[21]) * resource.getpagesize()
        return found

    def _end(self) -> None:
        """Nothing of it lives on: what it left is read when nobody can change it any more."""
        until = time.monotonic() + _LEFTOVER
        while time.monotonic() < until:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._alone:
                    os.kill(-1, signal.SIGKILL)
                else:
                    os.killpg(self.child, signal.SIGKILL)
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == self.child:
                self.code = os.waitstatus_to_exitcode(status)
            if pid == 0:
                time.sleep(0.005)


def _signals() -> list[int]:
    """Every signal whose handling can be chosen; SIGCHLD stays, or the kernel would reap children for us."""
    return [*(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})]


def _install(program: bytes) -> None:
    """Put a filter of system calls on this process and all it will start."""
    held = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    given = Filter(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def _files_in(folder: str) -> int:
    """The files of a folder that is a file system of its own; empty ones take memory of the kernel's."""
    about = os.statvfs(folder)
    return about.f_files - about.f_ffree


def _feed(end: int, data: bytes) -> int | None:
    """Hand on a piece of input; None when nobody reads it any more."""
    try:
        return os.write(end, data) if data else 0
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return None


def _collect(box: Path, name: str, most: int) -> bytes | str:
    """The content of a file that was left, or in a word why there is none."""
    try:
        end = os.open(box / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return "missing"
    except OSError:  # a link, a folder, a file without permission
        return "unreadable"
    try:
        about = os.fstat(end)
        if not stat.S_ISREG(about.st_mode):
            return "unreadable"
        if about.st_size > most:
            return "too large"
        return b"".join(iter(lambda: os.read(end, 1 << 20), b""))
    finally:
        os.close(end)


def _take(size: int) -> bytes:
    data = sys.stdin.buffer.read(size)
    if len(data) != size:
        sys.exit("the job was cut off")
    return data


if __name__ == "__main__":
    main()
