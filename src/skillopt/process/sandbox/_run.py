"""Runs one program in the sandbox; an end of the program's own doing is a result, any other a fault."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import platform
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache, partial
from importlib.resources import files as package_files
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from skillopt.errors import Fault
from skillopt.files import temporary_folder
from skillopt.process import Finished, TimedOut, minimal_env, run_process
from skillopt.process.sandbox._place import (
    BOX,
    BOX_BESIDE_ALL,
    Mode,
    call_filter,
    held_back,
    seen_anyway,
    shut_in,
)

_GRACE = 20.0
"""Seconds beyond a program's own limit after which the watcher itself is given up."""
_HEAD = 1 << 16
_STARTED = b"started\n"
"""What the watcher writes before it starts the program."""
_OPEN_FILES = 256
_COUNTED_SINCE = (5, 14)
"""The Linux that counts processes for each namespace; older ones would count all that the user runs."""
_ENVIRONMENT: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}

LimitReached = Literal["time", "memory", "processes", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What one program may use; sizes in bytes."""

    seconds: float = 60.0
    """By the clock; the same number limits the processor time of each process."""
    memory: int = 2 << 30
    """Address space of each process, and what all of them hold together."""
    processes: int = 32
    disk: int = 256 << 20
    """Space for files in the box, and as much in tmp; a quarter of it for one file."""
    files: int = 20_000
    """How many may lie in the box, and as many in tmp; not counted where nothing is shut in."""
    output: int = 64 << 10
    """Kept of each stream; the rest is read and dropped."""
    collected: int = 32 << 20
    """The largest file that is handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended: `code` (negative for a signal), and `stopped` when it was over a limit."""

    code: int
    stdout: bytes
    stderr: bytes
    stopped: LimitReached | None = None
    cut: bool = False
    """True when a stream was longer than the limit and lost its end."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files that were asked for and are there."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """The others, each with a word why: `missing`, `unreadable` (a link or no file), `too large`."""

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself and without an error."""
        return self.code == 0 and self.stopped is None


@dataclass(eq=False)
class Sandbox:
    """A place for programs, a few at a time: each in a box with copies of its files, which ends with it."""

    mode: Mode
    _: KW_ONLY
    limits: ProcessLimits = ProcessLimits()
    visible: Sequence[Path] = ()
    """Can be read where it is."""
    hidden: Sequence[Path] = ()
    """Covered, should it lie in something visible."""
    packages: Sequence[Path] = ()
    """Folders whose Python packages can be imported, should they lie apart from our interpreter's own."""
    at_once: int | None = None
    """How many programs run together; unset, one for each core."""
    own_program: bool = False
    """For a program that the user wrote, never a generated one: it runs as the user and may read the same."""

    def __post_init__(self) -> None:
        self._apart = [folder for folder in self.packages if not seen_anyway(folder)]
        self._elsewhere: Callable[[Callable[[], Ran]], Awaitable[Ran]] | None = None
        self._slots = asyncio.Semaphore(self.at_once or os.cpu_count() or 1)

    def __reduce__(self) -> tuple[Callable[[], Sandbox], tuple[()]]:
        """A sandbox in another process is made there."""
        return partial(Sandbox, **{each.name: getattr(self, each.name) for each in fields(self)}), ()

    def elsewhere(self, run: Callable[[Callable[[], Ran]], Awaitable[Ran]]) -> Sandbox:
        """The same sandbox in another process or on another machine, where `run` does a piece of work."""
        there = copy.copy(self)  # the copy that is sent to `run` is made anew, so it runs where it is
        there._elsewhere = run
        return there

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        collect: Sequence[str] = (),
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        limits: ProcessLimits | None = None,
        cwd: Path | None = None,
    ) -> Ran:
        """Run a program in a fresh box that holds `files`, and hand back the files named in `collect`.

        It starts in the box, or in `cwd` where that is visible. `python` is the interpreter we run on. Raises
        `Fault("sandbox")` when the sandbox itself failed and `Fault("spawn")` when the program cannot be
        started; how the program fares is a `Ran`.
        """
        for name in (*(files or {}), *collect):
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or not name:
                raise Fault("contract", f"{name!r} is no name for a file inside the sandbox")
        if self._elsewhere is not None:
            call: dict[str, Any] = {"collect": collect, "input": input, "limits": limits, "cwd": cwd}
            call |= {"files": dict(files or {}), "env": dict(env or {})}
            return await self._elsewhere(partial(_run_there, self, list(argv), call))
        async with self._slots:
            with self._box() as box:
                job = self._job(list(argv), box, cwd, env or {}, limits or self.limits)
                return await self._run(job, dict(files or {}), collect, input, limits or self.limits)

    @contextlib.contextmanager
    def _box(self) -> Iterator[str]:
        if self.mode == "bubblewrap":
            yield BOX_BESIDE_ALL if self.own_program else BOX
            return
        with temporary_folder("skillopt-box-") as folder:
            box = folder / "box"  # beside the lock, which is not the program's
            box.mkdir()
            yield str(box)

    def _job(
        self, argv: list[str], box: str, cwd: Path | None, env: Mapping[str, str], limits: ProcessLimits
    ) -> dict[str, Any]:
        """What the watcher is told, but for the files."""
        inside = self.mode == "bubblewrap"
        tmp = "/tmp" if box == BOX else box
        usual = os.defpath if inside else os.environ.get("PATH", os.defpath)
        search = [str(Path(sys.executable).parent), usual]
        packages = os.pathsep.join(map(str, self._apart))
        places = {"PATH": os.pathsep.join(search), "HOME": tmp, "TMPDIR": tmp, "PYTHONPATH": packages}
        return {
            "argv": argv,
            "env": {**_ENVIRONMENT, **places, **env},
            "started": _STARTED.decode(),
            "box": box,
            "cwd": str(cwd or box),
            **{name: getattr(limits, name) for name in ("seconds", "memory", "processes", "output")},
            "rlimits": _rlimits(limits, inside),
            "most_files": limits.files,
            "counted": list(dict.fromkeys([box, tmp, "/dev/shm"])) if inside else [],
            "filter": call_filter().hex() if sys.platform == "linux" else "",
        }

    async def _run(
        self,
        job: dict[str, Any],
        files: Mapping[str, bytes],
        collect: Sequence[str],
        input: bytes,
        limits: ProcessLimits,
    ) -> Ran:
        inside = self.mode == "bubblewrap"
        job["files"] = [(name, len(content)) for name, content in files.items()]
        job |= {"input": len(input), "collect": [(name, limits.collected) for name in collect]}
        head = json.dumps(job).encode()
        watcher = [sys.executable, "-I", "-S", "-c", _watcher()]
        if inside and self.own_program:
            watcher = held_back(watcher, disk=limits.disk)
        elif inside:
            watcher = shut_in(
                watcher, visible=(*self.visible, *self._apart), hidden=self.hidden, disk=limits.disk
            )
        try:
            done = await run_process(
                watcher,
                input=b"".join([len(head).to_bytes(8, "big"), head, *files.values(), input]),
                env=minimal_env(),
                cwd="/",
                timeout=limits.seconds + _GRACE,
                max_output=_HEAD + 2 * limits.output + len(collect) * limits.collected,
                guarded=not inside,
            )
        except TimedOut as late:
            if not inside and late.partial.stdout.startswith(_STARTED):
                return _watcher_lost(-signal.SIGKILL, collect, stopped="time")
            raise Fault("sandbox", f"the sandbox did not end by itself: {late.detail}") from late
        except Fault as fault:
            raise Fault("sandbox", f"the sandbox could not be started: {fault.detail}") from fault
        # In a namespace of its own nothing inside can end process 1, so its end is not the program's doing.
        if not inside and done.code < 0 and done.stdout.startswith(_STARTED):
            return _watcher_lost(done.code, collect)
        return _read(done, collect)


def _run_there(sandbox: Sandbox, argv: list[str], call: Mapping[str, Any]) -> Ran:
    return asyncio.run(sandbox.run(argv, **call))


def _watcher_lost(code: int, collect: Sequence[str], stopped: LimitReached | None = None) -> Ran:
    """A program that ended its watcher, which it can where nothing shuts it in, has failed."""
    said = b"The program ended the process that watched over it.\n"
    return Ran(code=code, stdout=b"", stderr=said, stopped=stopped, lost=dict.fromkeys(collect, "missing"))


def _read(done: Finished, collect: Sequence[str]) -> Ran:
    try:
        told = done.stdout.removeprefix(_STARTED)
        size = int.from_bytes(told[:8], "big")
        head = json.loads(told[8 : 8 + size])
        at = 8 + size
        blobs = []
        for length in [*head["streams"], *(size for size in head["collected"] if isinstance(size, int))]:
            blobs.append(told[at : at + length])
            at += length
        if at != len(told):
            raise ValueError("the report is not as long as it says")
    except (ValueError, KeyError, TypeError) as error:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        said = said or f"ended with code {done.code} and no report"
        raise Fault("sandbox", f"the sandbox failed: {said}") from error
    if head["error"]:
        raise Fault("spawn", f"could not be started in the sandbox: {head['error']}")
    if head["code"] is None:
        raise Fault("sandbox", "the sandbox failed: a program could not be ended")
    contents = iter(blobs[2:])
    named = list(zip(collect, head["collected"], strict=True))
    return Ran(
        code=int(head["code"]),
        stdout=blobs[0],
        stderr=blobs[1],
        stopped=cast("LimitReached | None", head["stopped"]),
        cut=bool(head["cut"]),
        files={name: next(contents) for name, size in named if isinstance(size, int)},
        lost={name: why for name, why in named if isinstance(why, str)},
    )


def _rlimits(limits: ProcessLimits, inside: bool) -> dict[str, int]:
    wanted = {
        "RLIMIT_CPU": int(limits.seconds) + 1,
        "RLIMIT_AS": limits.memory,
        "RLIMIT_FSIZE": limits.disk // 4,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_CORE": 0,
    }
    if sys.platform == "darwin":  # its kernel refuses to limit the address space
        del wanted["RLIMIT_AS"]
    if inside and tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= _COUNTED_SINCE:
        wanted["RLIMIT_NPROC"] = limits.processes
    return wanted


@cache
def _watcher() -> str:
    return (package_files("skillopt.process.sandbox") / "_inside.py").read_text(encoding="utf-8")
