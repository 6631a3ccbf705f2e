"""Waits for several things at once; the first failure takes the others back, so that nothing goes on for a stage that is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """All results in order. On the first failure, or when cancelled, the rest is cancelled and waited for before the failure is raised."""
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
