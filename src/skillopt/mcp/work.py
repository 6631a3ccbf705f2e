"""The commands that tools start: processes of their own, heard while they run, stopped gently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skillopt.errors import UsageError
from skillopt.process import Finished, own_program, run_process

MOST_LONG = 4
MOST_SHORT = 4
"""How many works of a kind run at a time; looking things up never waits for training."""
HEARTBEAT = 10.0
"""Seconds of silence after which a client is told that the work goes on."""
CANCEL_GRACE = 60.0
CLOSE_GRACE = 10.0
"""How long a program may take to stop by itself; it then waits for calls that were already sent."""
_LONGEST = 30 * 24 * 3600.0
_MOST_OUTPUT = 32 << 20
_MOST_LINE = 2000


def program(line: Sequence[str]) -> list[str]:
    """The command line of this program, never through a shell."""
    return [*own_program(), *line]


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a work: the server's own, with the person's settings, and plain output."""
    return {
        **environ,
        "PYTHONIOENCODING": "utf-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "200",
        "TYPER_USE_RICH": "0",
    }


@dataclass(slots=True)
class RunningCommand:
    """One command under way. `news` tells its lines of progress until it has ended."""

    project: Path
    heartbeat: float = HEARTBEAT
    is_stopping: bool = False
    _heard: bytearray = field(default_factory=bytearray)
    _lines: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    _task: asyncio.Task[Finished] | None = None

    async def news(self) -> AsyncIterator[str]:
        """Lines of progress as they arrive, and a sign of life where none do."""
        silent = 0.0
        while True:
            try:
                line = await asyncio.wait_for(self._lines.get(), self.heartbeat)
            except asyncio.TimeoutError:
                silent += self.heartbeat
                yield f"still working, {silent:.0f} s without news"
                continue
            if line is None:
                return
            silent = 0.0
            yield line

    @property
    def finished(self) -> Finished | None:
        """How it ended, None for a work that was stopped; raises what it raised."""
        assert self._task is not None and self._task.done(), "asked after the news have ended"
        return None if self._task.cancelled() else self._task.result()

    def say(self, text: str) -> None:
        """Add a line of our own to the news."""
        self._lines.put_nowait(text)

    def hear(self, data: bytes) -> None:
        """Take in what the program printed on stderr."""
        self._heard += data
        *whole, rest = self._heard.split(b"\n")
        self._heard = bytearray(rest[:_MOST_LINE])
        for line in whole:
            if text := bytes(line[:_MOST_LINE]).decode("utf-8", "replace").strip():
                self.say(text)


@dataclass(slots=True, kw_only=True)
class CommandRunner:
    """All works of a server."""

    most_long: int = MOST_LONG
    cancel_grace: float = CANCEL_GRACE
    close_grace: float = CLOSE_GRACE
    heartbeat: float = HEARTBEAT
    program: Callable[[Sequence[str]], Sequence[str]] = program
    _slots: dict[bool, asyncio.Semaphore] = field(init=False)
    _works: dict[asyncio.Task[Finished], RunningCommand] = field(default_factory=dict)
    _is_closing: bool = False

    def __post_init__(self) -> None:
        self._slots = {True: asyncio.Semaphore(self.most_long), False: asyncio.Semaphore(MOST_SHORT)}

    def start(
        self, line: Sequence[str], project: Path, *, is_long: bool, environ: Mapping[str, str]
    ) -> RunningCommand:
        """Begin a work, in a task of its own: who waits for it may go away without tearing it down."""
        if self._is_closing:
            raise UsageError("The server is closing; nothing new is begun.")
        work = RunningCommand(project, self.heartbeat)
        task = asyncio.ensure_future(self._do(work, line, is_long=is_long, environ=environ))
        work._task = task
        self._works[task] = work
        task.add_done_callback(self._ended)
        return work

    def stop(self, work: RunningCommand) -> None:
        """Ask a work to stop; it ends in its own time, and at the latest after the grace."""
        work.is_stopping = True
        if work._task is not None and not work._task.done():
            work._task.cancel()

    async def close(self) -> None:
        """Stop everything: gently, and what has not ended in time at once. Nothing new is begun."""
        self._is_closing = True
        for work in list(self._works.values()):
            if not work.is_stopping:
                self.stop(work)
        if self._works:
            await asyncio.wait(list(self._works), timeout=self.close_grace)
        for task in list(self._works):
            task.cancel()
        if self._works:
            await asyncio.wait(list(self._works), timeout=5)

    async def _do(
        self, work: RunningCommand, line: Sequence[str], *, is_long: bool, environ: Mapping[str, str]
    ) -> Finished:
        # Let cancelled works of the project close first: they may hold the run this one goes on with.
        others = [
            task for task, other in self._works.items() if other.is_stopping and other.project == work.project
        ]
        if others:
            work.say("waiting for a cancelled work of this project to close its run")
            await asyncio.wait(others)
        slot = self._slots[is_long]
        if slot.locked():
            work.say(
                f"waiting: {'long ' if is_long else ''}works are running here already, this one begins when"
                " one of them ends"
            )
        async with slot:
            return await run_process(
                self.program(line),
                input=None,
                env=child_environment(environ),
                cwd=work.project,
                timeout=_LONGEST,
                max_output=_MOST_OUTPUT,
                guarded=True,
                grace=self.cancel_grace,
                heard=work.hear,
            )

    def _ended(self, task: asyncio.Task[Finished]) -> None:
        work = self._works.pop(task)
        work._lines.put_nowait(None)
        if not task.cancelled():
            task.exception()  # whoever waits reads it; if nobody does any more, it is no surprise
