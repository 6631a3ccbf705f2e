"""Runs environment work in a few processes; one that dies or hangs takes with it only what it kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

from skillopt.errors import Fault
from skillopt.executors._worker import LENGTH, pickled, result_of
from skillopt.executors.port import ExecutorPlugin, Handle, Result
from skillopt.process import end_tree, minimal_env, own_group, own_program

_LONGEST = 300.0
"""Seconds one piece of work may take before its process is ended."""
_GOODBYE = 2.0
"""Seconds a process has to end by itself once its stdin is closed."""
_TAIL = 2000
_RENEWED = 30
"""Objects that a process makes before another takes its place: native code may leak memory."""


class ProcessPool:
    """Up to `processes` worker processes (unset: one for each core), each started when it is first needed.

    A process does one thing at a time and may keep many objects. It is trusted: this is no sandbox.
    Everything it knows comes from its requests; it has no credentials in its environment. It ends when this
    process does, however that happens. A process that dies or has to be ended takes the objects with it that
    it kept; another takes its place for new work.
    """

    def __init__(
        self, processes: int | None = None, *, timeout: float = _LONGEST, renewed_after: int = _RENEWED
    ) -> None:
        self._most = processes or os.cpu_count() or 1
        self._timeout = timeout
        self._renewed_after = renewed_after
        self._workers: list[_Worker] = []
        self._numbers = itertools.count()
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work in the process that has least to do."""
        worker = self._least_busy()
        with worker.occupied():
            return cast(Result, await worker.ask("run", work))

    async def open(self, make: Callable[[], object]) -> Handle:
        """Make an object in the process that has least to do; there it stays."""
        worker, number = self._least_busy(), next(self._numbers)

        async def call(method: str, *arguments: Any) -> Any:
            return await worker.ask("call", number, method, arguments)

        async def end() -> None:
            try:
                with contextlib.suppress(Fault):  # an object that was lost is as good as closed
                    await worker.ask("close", number)
            finally:
                worker.release()

        handle = Handle(call, end)
        worker.load += 1
        worker.left -= 1
        try:
            await worker.ask("open", number, make)
        except BaseException:  # also when nobody waits for it any more: it must not stay there
            await handle.close()
            raise
        return handle

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        await asyncio.gather(*(worker.end("the executor is closed") for worker in self._workers))

    def _least_busy(self) -> _Worker:
        if self._closed:
            raise Fault("sandbox", "the executor is closed")
        self._workers = [worker for worker in self._workers if worker.gone is None]
        # The others only wait until their last object is closed.
        fresh = [worker for worker in self._workers if worker.left > 0]
        best = min(fresh, key=lambda worker: worker.load, default=None)
        if best is None or (best.load and len(fresh) < self._most):
            best = _Worker(self._timeout, self._renewed_after)
            self._workers.append(best)
        return best


def build(most: int) -> ProcessPool:
    """No more processes than there are cores."""
    return ProcessPool(min(most, os.cpu_count() or 1))


PLUGIN: ExecutorPlugin = build


class _Worker:
    """One process, started with its first request; requests wait for each other."""

    def __init__(self, timeout: float, objects: int) -> None:
        self.load = 0
        self.left = objects
        """How many objects it may still make."""
        self.gone: str | None = None
        """Why it can do nothing more, if so."""
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._said = bytearray()
        self._background: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def occupied(self) -> Iterator[None]:
        """Count as busy meanwhile."""
        self.load += 1
        try:
            yield
        finally:
            self.load -= 1

    async def ask(self, *request: Any) -> Any:
        """The answer to a request. It is awaited even if nobody wants it: the next is only sent then."""
        return await asyncio.shield(self._kept(self._exchange(pickled(request))))

    def release(self) -> None:
        """An object less; a process that may make no further one ends with its last."""
        self.load -= 1
        if self.left <= 0 and self.load == 0:
            self._kept(self.end("its process has ended"))

    async def end(self, why: str) -> None:
        """Let it end by itself, then with force."""
        self.gone = self.gone or why
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), _GOODBYE)
        await self._kill(process)

    async def _exchange(self, body: bytes) -> Any:
        async with self._turn:
            if self.gone is not None:
                raise Fault("sandbox", self.gone)
            process = self._process or await self._start()
            try:
                answer = await asyncio.wait_for(_talk(process, body), self._timeout)
            except asyncio.TimeoutError:
                self.gone = "its process was ended, because work in it took too long"
                await self._kill(process)
                raise Fault(
                    "timeout", f"work in another process did not end within {self._timeout:g} s"
                ) from None
            except (asyncio.IncompleteReadError, OSError):
                if self.gone is None:
                    code = await process.wait()
                    said = self._said.decode(errors="replace").strip()
                    last = f": {said}" if said else ""
                    self.gone = f"its process ended unexpectedly (exit code {code}){last}"
                raise Fault("sandbox", self.gone) from None
        return result_of(answer)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *own_program("skillopt.executors._worker", name="skillopt worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=worker_env(),
                **own_group(),
            )
        except OSError as error:
            self.gone = f"a process for environment work could not be started: {error}"
            raise Fault("spawn", self.gone) from error
        self._process = process
        self._kept(self._listen(process))
        return process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Keep the end of what it says beside its answers, for the message if it dies."""
        assert process.stderr is not None
        while said := await process.stderr.read(1 << 16):
            self._said = (self._said + said)[-_TAIL:]

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            end_tree(process.pid)
            await process.wait()

    def _kept(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has heard of it, or does not wait any more


async def _talk(process: asyncio.subprocess.Process, body: bytes) -> bytes:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(len(body).to_bytes(LENGTH, "big") + body)
    await process.stdin.drain()
    return await process.stdout.readexactly(int.from_bytes(await process.stdout.readexactly(LENGTH), "big"))


def worker_env() -> dict[str, str]:
    """The environment of a worker: it imports what we can, and walks through sets in one order."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - text, as the others are
    return minimal_env({"PYTHONPATH": paths, "PYTHONHASHSEED": "0"})
