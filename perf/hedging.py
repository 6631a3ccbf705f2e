"""What hedging does to a training run whose provider has tails: wall clock, calls in flight, tokens and the
calls asked twice, in virtual time on the *simulated* world.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import mean

import _virtual
from _provider import Latency
from skillopt import api
from skillopt.account import Entry
from skillopt.build import open_run, prepare
from skillopt.config import load
from skillopt.ledger import HEDGE_STAGE
from skillopt.messages import Reply, Request
from skillopt.models.providers.world import World
from skillopt.models.stack.rate_limits import RateLimits
from skillopt.models.world.rules import WorldRules
from skillopt.registries import register


class SlowWorld(World):
    """The simulated world with the latencies of a provider."""

    endpoint = "slow world"

    def __init__(self, latency: Latency) -> None:
        super().__init__(WorldRules(seed=latency.seed))
        self.limits = RateLimits()
        self._latency = latency
        self._asked: Counter[str] = Counter()

    async def complete(self, request: Request) -> Reply:
        attempt = self._asked[request.place]
        self._asked[request.place] += 1
        await asyncio.sleep(self._latency.of(request.place, request.draw, attempt))
        return await super().complete(request)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tails", type=float, default=0.05, help="share of calls 8 times as slow")
    parser.add_argument("--seeds", type=int, default=3, help="worlds (default %(default)s)")
    parser.add_argument("--workers", type=int, default=24, help="default %(default)s")
    parser.add_argument("--set", action="append", default=[], help="a further option of the configuration")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    figures = {}
    for hedge in ("off", "auto"):
        latencies = [
            Latency(seed=seed, target=0.8, optimizer=4.0, tails=arguments.tails)
            for seed in range(arguments.seeds)
        ]
        runs = [_virtual.run(measure(one, hedge, arguments.workers, arguments.set)) for one in latencies]
        figures[hedge] = {name: mean(run[name] for run in runs) for name in runs[0]}
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'hedge':<8}{'wall':>10}{'in flight':>11}{'calls':>8}{'twice':>8}{'tokens':>10}{'best':>8}")
    for hedge, one in figures.items():
        print(
            f"{hedge:<8}{one['wall_s']:>8.1f} s{one['in_flight']:>11.1f}{one['calls']:>8.0f}"
            f"{one['hedges'] / one['calls']:>8.1%}{one['tokens']:>10,.0f}{one['test']:>8.3f}"
        )
    print(f"wall clock, hedged / not: {figures['auto']['wall_s'] / figures['off']['wall_s']:.2f} (simulated)")


async def measure(latency: Latency, hedge: str, workers: int, more: list[str]) -> dict[str, float]:
    """One training run of a world of 120 train, 60 val and 200 test cases, 2 epochs in batches of 40."""
    register("models", "slow", lambda spec: SlowWorld(latency))
    options = [
        "env.name=world",
        "env.train_cases=120",
        "env.val_cases=60",
        "env.test_cases=200",
        f"env.world_seed={latency.seed}",
        f"env.workers={workers}",
        f"gradient.analyst_workers={workers}",
        "train.batch_size=40",
        "train.num_epochs=2",
        *(f"model.{role}=slow:m" for role in ("target", "optimizer")),
        *(f"model.{role}.hedge={hedge}" for role in ("target", "optimizer")),
        *more,
    ]
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=Path(folder)))
        async with open_run(job, Path(folder) / "run") as opened:
            started = time.monotonic()
            held = 0.0

            def count(entry: Entry) -> None:
                nonlocal held
                held += opened.seconds - (entry.opened or 0.0)

            opened.ledger.watch(count)
            result = await api.train(opened)
            wall = time.monotonic() - started
            whole = opened.ledger.account.total()
            return {
                "wall_s": wall,
                "in_flight": held / wall,
                "calls": whole.calls,
                "hedges": opened.ledger.account.total(HEDGE_STAGE).calls,
                "tokens": whole.tokens,
                "test": result.test.after if result.test is not None else 0.0,
            }


if __name__ == "__main__":
    main()
