"""What a long run costs: CPU of its first and last steps, the size of its log, and the CPU of opening it
again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from skillopt.config.load import load
from skillopt.events import Checkpoint, Event
from skillopt.run import open_run, prepare, train

EPOCHS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_600, help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        figures = asyncio.run(measure(Path(folder), arguments.steps))
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"steps                             {figures['steps']}")
    print(f"CPU per step, first sixth         {figures['first_ms']:.2f} ms")
    print(f"CPU per step, last sixth          {figures['last_ms']:.2f} ms")
    print(f"last sixth / first sixth          {figures['ratio']:.2f}")
    print(f"events.jsonl                      {figures['log_mb']:.2f} MB")
    for name, size in figures["log_mb_by_type"].items():
        print(f"  {name:30}  {size:.2f} MB")
    print(f"opening again                     {figures['reopen_s']:.2f} s CPU")


async def measure(folder: Path, steps: int) -> dict[str, Any]:
    """One run of that many steps without a gate on the *simulated* world, then the same folder once more."""
    options = [
        "env.name=world",
        f"env.train_cases={steps // EPOCHS}",
        "env.val_cases=5",
        "env.test_cases=5",
        "model.target=world",
        "model.optimizer=world",
        f"train.num_epochs={EPOCHS}",
        "train.batch_size=1",
        "evaluation.use_gate=false",
        "evaluation.repeats=1",
    ]
    closed: list[float] = []

    def clock(event: Event) -> None:
        if isinstance(event, Checkpoint) and event.kind in ("baseline", "step"):
            closed.append(time.process_time())

    job = prepare(load(None, flags={}, options=options, environ={}, cwd=folder))
    async with open_run(job, folder / "run", sinks=[clock]) as opened:
        await train(opened)
    before = time.process_time()
    async with open_run(job, folder / "run"):
        reopen = time.process_time() - before
    took = [after - since for since, after in pairwise(closed)]
    sixth = len(took) // 6
    first, last = sum(took[:sixth]) / sixth, sum(took[-sixth:]) / sixth
    log = (folder / "run" / "events.jsonl").read_bytes()
    sizes: Counter[str] = Counter()
    for line in log.splitlines():
        sizes[json.loads(line)["type"]] += len(line) + 1
    return {
        "steps": len(took),
        "first_ms": 1000 * first,
        "last_ms": 1000 * last,
        "ratio": last / first,
        "log_mb": len(log) / 1e6,
        "log_mb_by_type": {name: size / 1e6 for name, size in sizes.most_common()},
        "reopen_s": reopen,
    }


if __name__ == "__main__":
    main()
