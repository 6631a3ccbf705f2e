"""The commands that tools start: processes of their own, heard while they run, stopped gently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

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
_PLAIN = {
    "PYTHONIOENCODING": "utf-8",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "200",
    "TYPER_USE_RICH": "0",
}
"""Variables by which a command prints plain lines."""


def program(line: Sequence[str]) -> list[str]:
    """The command line of this program, never through a shell."""
    return [*own_program(), *line]


class RunningCommand(NamedTuple):
    """A command under way; its lines of progress end with None."""

    task: asyncio.Task[Finished]
    project: Path
    lines: asyncio.Queue[str | None]


@dataclass(slots=True, kw_only=True)
class CommandRunner:
    """Runs the commands of a server."""

    most_long: int = MOST_LONG
    cancel_grace: float = CANCEL_GRACE
    close_grace: float = CLOSE_GRACE
    heartbeat: float = HEARTBEAT
    program: Callable[[Sequence[str]], Sequence[str]] = program
    _slots: dict[bool, asyncio.Semaphore] = field(init=False)
    _running: list[RunningCommand] = field(default_factory=list)
    _stopping: list[RunningCommand] = field(default_factory=list)
    _is_closing: bool = False

    def __post_init__(self) -> None:
        self._slots = {True: asyncio.Semaphore(self.most_long), False: asyncio.Semaphore(MOST_SHORT)}

    async def run(
        self,
        line: Sequence[str],
        project: Path,
        *,
        is_long: bool,
        environ: Mapping[str, str],
        tell: Callable[[str], Awaitable[object]],
    ) -> Finished | None:
        """Run a command to its end and tell its lines of progress; None if it was stopped. Whatever ends the
        waiting, such as a cancelled call or a client that is gone, stops the command, so that its run is
        closed.
        """
        if self._is_closing:
            raise UsageError("The server is closing; nothing new is begun.")
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        # In a task of its own: who waits for it may go away without tearing it down.
        task = asyncio.ensure_future(self._do(line, project, lines.put_nowait, is_long, environ))
        command = RunningCommand(task, project, lines)
        self._running.append(command)
        task.add_done_callback(lambda task: self._ended(command))
        try:
            await self._report(command, tell)
        except BaseException:
            self._stop(command)
            raise
        return None if task.cancelled() else task.result()

    async def close(self) -> None:
        """Stop everything: gently, and what has not ended in time at once. Nothing new is begun."""
        self._is_closing = True
        for command in [*self._running]:
            self._stop(command)
        for grace in (self.close_grace, 5):
            if tasks := [command.task for command in (*self._running, *self._stopping)]:
                await asyncio.wait(tasks, timeout=grace)
            for task in tasks:
                task.cancel()

    def _stop(self, command: RunningCommand) -> None:
        if command in self._running:
            self._running.remove(command)
            self._stopping.append(command)
            command.task.cancel()

    def _ended(self, command: RunningCommand) -> None:
        for commands in (self._running, self._stopping):
            if command in commands:
                commands.remove(command)
        command.lines.put_nowait(None)
        if not command.task.cancelled():
            command.task.exception()  # whoever waits reads it; if nobody does any more, it is no surprise

    async def _report(self, command: RunningCommand, tell: Callable[[str], Awaitable[object]]) -> None:
        """Tell lines as they arrive, and a sign of life where none do."""
        silent = 0.0
        while True:
            try:
                line = await asyncio.wait_for(command.lines.get(), self.heartbeat)
            except asyncio.TimeoutError:
                silent += self.heartbeat
                await tell(f"still working, {silent:.0f} s without news")
                continue
            if line is None:
                return
            silent = 0.0
            await tell(line)

    async def _do(
        self,
        line: Sequence[str],
        project: Path,
        say: Callable[[str], None],
        is_long: bool,
        environ: Mapping[str, str],
    ) -> Finished:
        # Let cancelled commands of the project close first: they may hold the run this one goes on with.
        if others := [command.task for command in self._stopping if command.project == project]:
            say("waiting for a cancelled work of this project to close its run")
            await asyncio.wait(others)
        slot = self._slots[is_long]
        if slot.locked():
            kind = "long " if is_long else ""
            say(f"waiting: {kind}works are running here already, this one begins when one of them ends")
        rest = bytearray()

        def hear(data: bytes) -> None:
            nonlocal rest
            *whole, rest = (rest + data).split(b"\n")
            for each in whole:
                if text := each[:_MOST_LINE].decode("utf-8", "replace").strip():
                    say(text)
            del rest[_MOST_LINE:]

        async with slot:
            return await run_process(
                self.program(line),
                input=None,
                env={**environ, **_PLAIN},
                cwd=project,
                timeout=_LONGEST,
                max_output=_MOST_OUTPUT,
                guarded=True,
                grace=self.cancel_grace,
                heard=hear,
            )
