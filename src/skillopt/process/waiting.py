"""Waiting: a gather that cancels its siblings on the first failure, and an `asyncio.run` whose Ctrl-C cancels
only the main task.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """All results in order. On a failure, or when cancelled, the rest is cancelled and waited for first."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
        return [task.result() for task in tasks]
    except BaseException:  # also when whoever waits is cancelled: that must reach all of them
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def to_the_end(started: asyncio.Task[T]) -> T:
    """Wait for paid work until its end even if the caller is cancelled meanwhile, so that the result is kept.

    A cancelled caller still gets the result, to store it; the cancellation surfaces if the work failed.
    """
    cancelled: asyncio.CancelledError | None = None
    while not started.done():
        try:
            await asyncio.wait([started])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and (started.cancelled() or started.exception() is not None):
        raise cancelled
    return started.result()


@contextmanager
def signals_heard(numbers: Iterable[signal.Signals], heard: Callable[[int], None]) -> Iterator[None]:
    """Tell `heard` of signals, inside the running event loop; whoever heard them before does so again after.

    signal.signal and not loop.add_signal_handler: the latter does not exist on Windows.
    """
    loop = asyncio.get_running_loop()
    before = {
        number: signal.signal(number, lambda number, frame: loop.call_soon_threadsafe(heard, number))
        for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def run_gently(main: Coroutine[Any, Any, T]) -> T:
    """Run an event loop. Ctrl-C, and any signal that was made to act like it, takes back `main` alone, which
    can still wait for calls that were sent; a second one ends at once.

    `asyncio.run` does the same from Python 3.11 on; on 3.10 it takes back every task, and with them replies
    that are already paid.
    """
    numbers = [number for number in signal.Signals if signal.getsignal(number) is signal.default_int_handler]
    if not numbers or threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)
    interrupted = False

    async def session() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def handle(number: int, frame: object) -> None:
            nonlocal interrupted
            if interrupted:
                raise KeyboardInterrupt
            interrupted = True
            loop.call_soon_threadsafe(task.cancel)

        for number in numbers:
            signal.signal(number, handle)
        try:
            return await main
        finally:
            for number in numbers:
                signal.signal(number, signal.default_int_handler)

    try:
        return asyncio.run(session())
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
