"""Runs environment work in one thread of this process: for debugging, and where a process is too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from skillopt.errors import Fault
from skillopt.executors.port import ExecutorPlugin, Handle, Result, told


class InProcess:
    """One thread, however many would be allowed: work that cannot bear threads never runs twice at once."""

    def __init__(self, most: int = 1) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skillopt-work")
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work in the thread."""
        if self._closed:
            raise Fault("sandbox", "the executor is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except Exception as error:  # work may raise anything, and all of it is told alike
            raise Fault(*told(error)) from error

    async def open(self, make: Callable[[], object]) -> Handle:
        """Make an object in the thread; only there it is touched."""
        made = await self.run(make)
        return Handle(lambda method, *arguments: self.run(lambda: getattr(made, method)(*arguments)))

    async def close(self) -> None:
        """Forget what has not begun. What runs is left to end by itself: a thread cannot be killed."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)


PLUGIN: ExecutorPlugin = InProcess
