"""Trains against a loopback provider with a quota and prints how near it comes to the best time that the
quota allows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from _provider import Latency, serving
from skillopt import api
from skillopt.build import open_run, prepare
from skillopt.config import load
from skillopt.events import Event, StageClosed
from skillopt.testing import Quota

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
        "--no-headers", action="store_true", help="a provider that says nothing but Retry-After"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    quota = Quota(
        requests_per_second=arguments.requests,
        tokens_per_minute=arguments.tokens,
        says_what_is_left=not arguments.no_headers,
    )
    figures = asyncio.run(measure(quota, arguments.cases, arguments.seconds, arguments.others))
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


async def measure(quota: Quota, cases: int, seconds: float, others: float) -> dict[str, Any]:
    """One small training run. *Best possible* is the time in which the quota gives what was admitted, ours and
    that of another program, however quick a client were.
    """
    invalid = 0

    def watch(event: Event) -> None:
        nonlocal invalid
        if isinstance(event, StageClosed):
            invalid += sum(row.invalid is not None for row in event.rows)

    latency = Latency(target=seconds, optimizer=2 * seconds)
    with (
        tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder,
        serving(latency, quota=quota) as served,
    ):
        model = f"compatible:m@{served.base_url}"
        sizes = [
            f"env.train_cases={max(20, cases // 20 * 20)}",
            f"env.val_cases={cases}",
            f"env.test_cases={cases}",
            "train.batch_size=20",
        ]
        options = [
            "env.name=world",
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.num_epochs=1",
            *sizes,
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=Path(folder)))
        async with open_run(job, Path(folder) / "run", sinks=[watch]) as opened:
            rival = asyncio.ensure_future(
                _another(served.base_url, others * (quota.requests_per_second or 0))
            )
            started = time.monotonic()
            await api.train(opened)
            wall = time.monotonic() - started
            rival.cancel()
    taken = [entry for entry in served.log if entry.status == 200]
    refused = Counter(
        (entry.place, entry.draw) for entry in served.log if entry.status == 429 and entry.place != OTHER
    )
    tokens = sum(entry.input_tokens + entry.output_tokens for entry in taken)
    least = quota.least_seconds(len(taken), tokens)
    return {
        "simulated": True,
        "admitted": len(taken),
        "others": sum(entry.place == OTHER for entry in taken),
        "tokens": tokens,
        "refused": sum(refused.values()),
        "most_refused": max(refused.values(), default=0),
        "invalid": invalid,
        "seconds": wall,
        "least": least,
        "ratio": wall / least if least else None,
    }


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
