"""The port of everything that runs environment work, and how work that failed is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from skillopt.errors import Fault, Kind

Result = TypeVar("Result")
TRIES = 3
"""Of work whose worker is lost."""


class WorkerLost(Fault):
    """The worker went away with the work: nobody knows how far it came, or what it cost."""

    def __init__(self, detail: str) -> None:
        super().__init__("spawn", detail)


class Handle:
    """An object that lives where the executor put it, such as a game with its state."""

    def __init__(
        self, call: Callable[..., Awaitable[Any]], end: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`call` calls a method of the object by its name, `end` lets go of it."""
        self._call: Callable[..., Awaitable[Any]] | None = call
        self._end = end

    async def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the object returns. Calls of one handle run one after another."""
        if self._call is None:
            raise Fault("sandbox", "the handle is closed")
        return await self._call(method, *arguments)

    async def close(self) -> None:
        """Let go of the object; never fails, and may be called twice."""
        if self._call is not None:
            self._call = None
            if self._end is not None:
                await self._end()


class Executor(Protocol):
    """Runs work that would hold up the event loop, or that cannot bear threads.

    Work, arguments and results must be picklable: `functools.partial` of functions and classes that stand in
    a module. Whatever work raises comes back as a `Fault`: its own kind if it raised one, else `sandbox` with
    the type and message. Work that cannot go on - its process died, its time was up - is a `Fault` too, and
    so is every later call of a handle that was lost with it.
    """

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work once and return its result."""
        ...

    async def open(self, make: Callable[[], object]) -> Handle:
        """Make an object where the work is done, and keep it there until its handle is closed."""
        ...

    async def close(self) -> None:
        """End everything that is under way; nothing can be run afterwards."""
        ...


async def run_again(executor: Executor, work: Callable[[], Result]) -> Result:
    """Do work that costs nothing and changes nothing: where its worker is lost, in another."""
    for tries_left in reversed(range(TRIES)):
        try:
            return await executor.run(work)
        except WorkerLost:
            if not tries_left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


ExecutorPlugin: TypeAlias = Callable[[int], Executor]
"""`PLUGIN` of every file in this folder: makes an executor that does up to so many pieces of work at once."""


def told(error: Exception) -> tuple[Kind, str]:
    """An error of some work as kind and detail of a `Fault`."""
    if isinstance(error, Fault):
        return error.kind, error.detail
    return "sandbox", f"{type(error).__name__}: {error}"
