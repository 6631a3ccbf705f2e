"""How full a training run keeps its slots when a provider has tails: wall clock, calls in flight, wall clock over
the longest chain of calls, and what the empty slots wait for; in virtual time on the *simulated* world.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import _virtual
from _provider import Latency
from skillopt.config.load import load
from skillopt.messages import Reply, Request
from skillopt.models.providers.world import World
from skillopt.models.stack.rate_limits import RateLimits
from skillopt.models.world.rules import WorldRules
from skillopt.money import HEDGE_STAGE, Entry
from skillopt.registry.kinds import register
from skillopt.run import open_run, prepare, train

STRATEGIES = {"paper": ["train.batch_size=40"], "proof": ["train.batch_size=120"]}
ARMS = [f"{strategy}/{hedge}" for strategy in STRATEGIES for hedge in ("off", "auto")]
UNLIMITED = 100_000
"""Slots of a run that waits for nothing but replies: its wall clock is its longest chain of calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to run: what is varied."""

    strategy: str
    hedge: str
    workers: int
    more: tuple[str, ...]


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
    parser.add_argument("--first-seed", type=int, default=0, help="of the worlds (default %(default)s)")
    parser.add_argument("--workers", type=int, default=24, help="default %(default)s")
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS, help="default all of them")
    parser.add_argument(
        "--chain", action="store_true", help="also run without a limit on slots, for `/ best`"
    )
    parser.add_argument("--idle", action="store_true", help="also print what empty slots wait for")
    parser.add_argument("--set", action="append", default=[], help="a further option of the configuration")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    worlds = [
        Latency(seed=arguments.first_seed + at, target=0.8, optimizer=4.0, tails=arguments.tails)
        for at in range(arguments.seeds)
    ]
    figures = {
        name: over(
            Arm(
                strategy=name.partition("/")[0],
                hedge=name.partition("/")[2],
                workers=arguments.workers,
                more=tuple(arguments.set),
            ),
            worlds,
            chain=arguments.chain,
        )
        for name in arguments.arms
    }
    if arguments.json:
        print(json.dumps({"simulated": True, "arms": figures}, indent=2))
    else:
        show(figures, idle=arguments.idle)


def over(arm: Arm, worlds: list[Latency], *, chain: bool) -> dict[str, Any]:
    """The means over some worlds of what a run comes to, with `chain` also of its longest chain."""
    runs = []
    for latency in worlds:
        run = _virtual.run(measure(latency, arm))
        if chain:
            longest = _virtual.run(measure(latency, replace(arm, workers=UNLIMITED)))["wall_s"]
            # No schedule is shorter than the longest chain, nor than all seconds spread over all slots.
            run["over_best"] = run["wall_s"] / max(longest, run["wall_s"] * run["in_flight"] / arm.workers)
        runs.append(run)
    idle = Counter[str]()
    for run in runs:
        idle.update(run.pop("idle"))
    figures: dict[str, Any] = {name: mean(run[name] for run in runs) for name in runs[0]}
    return {**figures, "idle": {what: seconds / len(runs) for what, seconds in idle.most_common()}}


async def measure(latency: Latency, arm: Arm) -> dict[str, Any]:
    """One training run of a world of 120 train, 60 val and 200 test cases, 2 epochs."""
    register("models", "slow", lambda spec: SlowWorld(latency))
    options = [
        "env.name=world",
        "env.train_cases=120",
        "env.val_cases=60",
        "env.test_cases=200",
        f"env.world_seed={latency.seed % 100}",
        f"env.workers={arm.workers}",
        f"gradient.analyst_workers={arm.workers}",
        "train.num_epochs=2",
        f"train.strategy={arm.strategy}",
        *STRATEGIES[arm.strategy],
        *(f"model.{role}=slow:m" for role in ("target", "optimizer")),
        *(f"model.{role}.hedge={arm.hedge}" for role in ("target", "optimizer")),
        *arm.more,
    ]
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=Path(folder)))
        async with open_run(job, Path(folder) / "run") as opened:
            started = time.monotonic()
            calls: list[tuple[float, float, str]] = []

            def note(entry: Entry) -> None:
                calls.append((entry.opened or 0.0, opened.elapsed(), entry.stage))

            opened.ledger.watch(note)
            result = await train(opened)
            wall = time.monotonic() - started
            whole = opened.ledger.account.total()
            return {
                "wall_s": wall,
                "in_flight": sum(end - start for start, end, _ in calls) / wall,
                "calls": whole.calls,
                "hedges": opened.ledger.account.total(HEDGE_STAGE).calls,
                "tokens": whole.tokens,
                "test": result.test.after if result.test is not None else 0.0,
                "idle": idle(calls, arm.workers),
            }


def idle(calls: Iterable[tuple[float, float, str]], slots: int) -> dict[str, float]:
    """Seconds of empty slots by what is out meanwhile: the stages of the open calls."""
    moments = sorted((at, by, stage) for start, end, stage in calls for at, by in ((start, 1), (end, -1)))
    out, found, before = Counter[str](), defaultdict[str, float](float), 0.0
    for at, by, stage in moments:
        waits_for = " + ".join(sorted(name for name, count in out.items() if count and name != HEDGE_STAGE))
        found[waits_for or "nothing"] += (at - before) * max(0, slots - sum(out.values()))
        out[stage] += by
        before = at
    return found


def show(figures: dict[str, dict[str, Any]], *, idle: bool) -> None:
    """The figures for a person."""
    print(
        f"{'strategy/hedge':<15}{'wall':>9}{'/ best':>8}{'in flight':>11}{'calls':>7}{'twice':>7}{'tokens':>9}"
        f"{'test':>7}"
    )
    for name, one in figures.items():
        over = f"{one['over_best']:.2f}" if "over_best" in one else ""
        print(
            f"{name:<15}{one['wall_s']:>7.1f} s{over:>8}{one['in_flight']:>11.1f}{one['calls']:>7.0f}"
            f"{one['hedges'] / one['calls']:>7.1%}{one['tokens']:>9,.0f}{one['test']:>7.3f}"
        )
    if {"paper/off", "proof/auto"} <= set(figures):
        ratio = figures["proof/auto"]["wall_s"] / figures["paper/off"]["wall_s"]
        print(f"wall clock, proof/auto / paper/off: {ratio:.2f} (simulated)")
    for name, one in figures.items() if idle else ():
        print(f"\n{name}: slot-seconds empty while these calls are out")
        for what, seconds in one["idle"].items():
            print(f"{seconds:>9.0f}  {what}")


if __name__ == "__main__":
    main()
