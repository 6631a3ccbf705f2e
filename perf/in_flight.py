"""Holds hundreds of calls in flight against a slow loopback provider and prints what each of them costs the
client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _provider import Latency, serving
from skillopt.config.load import load
from skillopt.run import evaluate, prepare


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--calls", type=int, default=500, help="calls to hold in flight (default %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how many times as many calls are made (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="mean seconds a call takes (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.calls, arguments.rounds, arguments.seconds))
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(
        f"{figures['calls']} calls of {arguments.seconds:g} s on average (simulated answers, loopback HTTP),"
        f" {arguments.calls} workers\nmost in flight at the provider  {figures['max_in_flight']} of"
        f" {arguments.calls}\npeak memory of the client       {figures['peak_mb_before']:.1f} MB before,"
        f" {figures['peak_mb_after']:.1f} MB after\nmemory per call in flight      "
        f" {figures['mb_per_call']:.3f} MB\nclient CPU per call             {figures['cpu_ms_per_call']:.2f}"
        f" ms\nwall clock                      {figures['seconds']:.1f} s"
    )


async def measure(calls: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Evaluate the seed skill on `rounds` times `calls` simulated cases; the val case before it opens the
    client and its modules.
    """
    with (
        tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder,
        serving(Latency(target=seconds)) as served,
    ):
        model = f"compatible:m@{served.base_url}"
        options = [
            "env.name=world",
            "env.val_cases=1",
            f"env.test_cases={calls * rounds}",
            f"env.workers={calls}",
            f"model.target={model}",
            f"model.optimizer={model}",
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=Path(folder)))
        await evaluate(job, {"seed": job.skill}, ["val"], Path(folder) / "warm")
        before, cpu, started = peak_mb(), time.process_time(), time.monotonic()
        (result,) = await evaluate(job, {"seed": job.skill}, ["test"], Path(folder) / "run")
        after, cpu, wall = peak_mb(), time.process_time() - cpu, time.monotonic() - started
    reached = max(entry.in_flight for entry in served.log)
    return {
        "simulated": True,
        "calls": result.n,
        "invalid": result.invalid,
        "max_in_flight": reached,
        "peak_mb_before": before,
        "peak_mb_after": after,
        "mb_per_call": (after - before) / reached,
        "cpu_ms_per_call": 1000 * cpu / result.n,
        "seconds": wall,
    }


def peak_mb() -> float:
    """The most memory this process ever held, in megabytes; Linux counts kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
