"""Trains against a loopback provider with a quota and prints how near it comes to the best time that the
quota allows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import sqlite3
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from _provider import Latency, Quota, serving
from skillopt import run as api
from skillopt.config.load import load
from skillopt.events import Event, StageClosed
from skillopt.run import open_run, prepare
from skillopt.runs.log import DATABASE

OTHER = "rollout/another program"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=float, default=5.0, help="requests a second (default %(default)s)")
    parser.add_argument(
        "--tokens", type=float, default=20_000.0, help="tokens a minute (default %(default)s)"
    )
    parser.add_argument(
        "--cases",
        type=int,
        default=60,
        help="val and test cases; as many steps of 20 train cases as fit in it (default 60)",
    )
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="mean seconds a target's call takes (default %(default)s)"
    )
    parser.add_argument(
        "--others",
        type=float,
        default=0.0,
        help="share of the requests that another program with the same key takes (default %(default)s)",
    )
    parser.add_argument(
        "--processes", type=int, default=1, help="trainings at once with the same key (default %(default)s)"
    )
    parser.add_argument(
        "--no-headers", action="store_true", help="a provider that says nothing but Retry-After"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    quota = Quota(
        requests_per_second=arguments.requests,
        tokens_per_minute=arguments.tokens,
        says_what_is_left=not arguments.no_headers,
    )
    figures = asyncio.run(
        measure(quota, arguments.cases, arguments.seconds, arguments.others, arguments.processes)
    )
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(
        f"training on the simulated world, {arguments.requests:g} requests a second and"
        f" {arguments.tokens:,.0f} tokens a minute allowed\nadmitted                       "
        f" {figures['admitted']} calls, {figures['tokens']:,} tokens, {figures['others']} of another"
        " program\nrefused                        "
        f" {figures['refused']}, one call at most {figures['most_refused']} times\nrows that could not be"
        f" measured {figures['invalid']}\nwall clock / best possible      {figures['ratio']:.2f}"
        f" ({figures['seconds']:.1f} s / {figures['least']:.1f} s)"
    )
    if figures["shares"]:
        shares = ", ".join(f"{share:.0%}" for share in figures["shares"])
        print(f"of the rollouts while all ran   {shares}")


async def measure(
    quota: Quota, cases: int, seconds: float, others: float, processes: int = 1
) -> dict[str, Any]:
    """Small training runs. *Best possible* is the time in which the quota gives what was admitted, ours and
    that of another program, however quick a client were.
    """
    latency = Latency(target=seconds, optimizer=2 * seconds)
    with (
        tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder,
        serving(latency, quota=quota) as served,
        ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        rival = asyncio.ensure_future(_another(served.base_url, others * (quota.requests_per_second or 0)))
        loop = asyncio.get_running_loop()
        runs = [
            loop.run_in_executor(pool, _train, served.base_url, Path(folder) / f"run{number}", number, cases)
            for number in range(processes)
        ]
        trained = await asyncio.gather(*runs)
        rival.cancel()
    taken = [entry for entry in served.log if entry.status == 200]
    refused = Counter(
        (entry.place, entry.draw) for entry in served.log if entry.status == 429 and entry.place != OTHER
    )
    tokens = sum(entry.input_tokens + entry.output_tokens for entry in taken)
    least = quota.least_seconds(len(taken), tokens)
    wall = max(run.ended for run in trained) - min(run.began for run in trained)
    while_all = [
        sum(
            entry.place in run.places
            for entry in taken
            if max(one.began for one in trained) <= entry.started <= min(one.ended for one in trained)
        )
        for run in trained
    ]
    return {
        "simulated": True,
        "admitted": len(taken),
        "others": sum(entry.place == OTHER for entry in taken),
        "tokens": tokens,
        "refused": sum(refused.values()),
        "most_refused": max(refused.values(), default=0),
        "invalid": sum(run.invalid for run in trained),
        "seconds": wall,
        "least": least,
        "ratio": wall / least if least else None,
        "shares": [part / sum(while_all) for part in while_all] if processes > 1 else [],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trained:
    """What one process did; times of the clock that all processes of the machine share."""

    began: float
    ended: float
    invalid: int
    places: frozenset[str]
    """Of its rollouts."""


def _train(base_url: str, folder: Path, number: int, cases: int) -> _Trained:
    invalid = 0

    def watch(event: Event) -> None:
        nonlocal invalid
        if isinstance(event, StageClosed):
            invalid += sum(row.invalid is not None for row in event.rows)

    model = f"compatible:m{number}@{base_url}"
    options = [
        *("env.name=world", f"model.target={model}", f"model.optimizer={model}", "train.num_epochs=1"),
        *(f"env.train_cases={max(20, cases // 20 * 20)}", "train.batch_size=20"),
        *(f"env.val_cases={cases}", f"env.test_cases={cases}"),
    ]
    job = prepare(load(None, flags={}, options=options, environ={}, cwd=folder.parent))

    async def train() -> tuple[float, float]:
        async with open_run(job, folder, sinks=[watch]) as opened:
            began = time.monotonic()
            await api.train(opened)
            return began, time.monotonic()

    began, ended = asyncio.run(train())
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        found = database.execute("SELECT place FROM replies WHERE role = 'target'")
        places = frozenset(place for (place,) in found)
    return _Trained(began=began, ended=ended, invalid=invalid, places=places)


async def _another(base_url: str, per_second: float) -> None:
    """A program that knows no limit: it asks so many times a second, whatever comes back."""
    async with aiohttp.ClientSession(headers={"x-skillopt-place": f"{OTHER};draw=0"}) as client:

        async def ask() -> None:
            body = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "W000001"}]}
            with contextlib.suppress(aiohttp.ClientError):  # its last ones meet a server that is gone
                async with client.post(f"{base_url}/chat/completions", json=body) as response:
                    await response.read()

        asking: set[asyncio.Task[None]] = set()
        while per_second > 0:
            asking = {task for task in asking if not task.done()} | {asyncio.ensure_future(ask())}
            await asyncio.sleep(1 / per_second)


if __name__ == "__main__":
    main()
