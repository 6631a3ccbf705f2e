"""An event loop whose clock jumps to the next timer: a run that waits for simulated calls takes as long as its
CPU, and its wall clock is the same on a busy machine.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: the time that the loop would have slept has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is not None:
            self.now += max(0.0, timeout)
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time, which `time.monotonic` tells to everybody meanwhile."""
    selector, real = _Jumping(), time.monotonic
    time.monotonic = lambda: selector.now
    try:
        loop = asyncio.SelectorEventLoop(selector)
        try:
            return loop.run_until_complete(main)
        finally:
            loop.close()
    finally:
        time.monotonic = real
