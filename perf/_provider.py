"""A loopback provider in a process of its own, with seeded latencies: what it costs is not counted as the
client's.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # the loopback provider lies there

from _loopback import Call, LoopbackProvider, world_answers
from _loopback import Logged as Logged
from _loopback import Quota as Quota
from skillopt.testing import WorldRules

SPREAD = 0.5
LONGEST = 4.0
"""No latency is longer than so many times the mean, but for those in the tail."""
TAIL = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Log-normal seconds that depend on the seed, the place, the draw and the attempt only; the means of both
    roles are given, without the share of calls in the tail, which take `TAIL` times as long.
    """

    seed: int = 0
    target: float = 0.08
    optimizer: float = 0.4
    tails: float = 0.0

    def of(self, place: str, draw: int, attempt: int = 0) -> float:
        """How long a call takes, the same in every run."""
        mean = self.target if place.startswith("rollout/") else self.optimizer
        again = f"/{attempt}" if attempt else ""
        dice = random.Random(f"{self.seed}/{place}/{draw}{again}")
        drawn = min(dice.lognormvariate(math.log(mean) - SPREAD**2 / 2, SPREAD), LONGEST * mean)
        return drawn * (TAIL if dice.random() < self.tails else 1.0)

    def __call__(self, call: Call) -> float:
        return self.of(call.place or "", call.draw or 0, call.attempt)


@dataclass(slots=True, kw_only=True)
class Served:
    """The provider's address, and after it was closed what it saw."""

    base_url: str
    log: tuple[Logged, ...] = ()
    cpu: float = 0.0


@contextmanager
def serving(
    latency: Latency, rules: WorldRules | None = None, quota: Quota | None = None
) -> Iterator[Served]:
    """The simulated world over HTTP; its log is in `Served.log` when the block has ended."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, latency, rules, quota), daemon=True)
    process.start()
    theirs.close()
    try:
        served = Served(base_url=ours.recv())
        yield served
        ours.send("stop")
        served.log, served.cpu = ours.recv()
    finally:
        ours.close()
        process.join(10)
        if process.is_alive():
            process.terminate()


def _serve(pipe: Connection, latency: Latency, rules: WorldRules | None, quota: Quota | None) -> None:
    async def serve() -> None:
        async with LoopbackProvider(world_answers(rules), latency=latency, quota=quota) as provider:
            pipe.send(provider.base_url)
            await asyncio.get_running_loop().run_in_executor(None, _until_told, pipe)
            log = tuple(provider.log)
        pipe.send((log, time.process_time()))

    asyncio.run(serve())


def _until_told(pipe: Connection) -> None:
    try:
        pipe.recv()
    except EOFError:  # the measuring process died; there is nobody to answer any more
        return
