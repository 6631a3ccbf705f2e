"""What very many rollouts cost one process: its memory as they come in, and the CPU in which a stopped training
run of so many calls is taken up again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from skillopt.config.load import load
from skillopt.events import Arrived, Event, StageOpened
from skillopt.run import evaluate, open_run, prepare, train


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=20_000, help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        figures = asyncio.run(measure(Path(folder), arguments.rollouts))
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{figures['rollouts']} rollouts on the simulated world, in this process")
    print(f"memory after each tenth      {' '.join(f'{one:.0f}' for one in figures['mb'])} MB")
    print(f"last tenth / second tenth    {figures['ratio']:.2f}")
    print(f"CPU per rollout              {figures['cpu_ms']:.2f} ms")
    print(f"resuming {figures['resumed_calls']} calls       {figures['resume_cpu_s']:.1f} s CPU")


async def measure(folder: Path, rollouts: int) -> dict[str, Any]:
    """Evaluate the seed skill on so many test cases, then once more in the same folder."""
    options = [
        "env.name=world",
        "env.val_cases=5",
        f"env.test_cases={rollouts}",
        "model.target=world",
        "model.optimizer=world",
    ]
    job = prepare(load(None, flags={}, options=options, environ={}, cwd=folder))
    arrived, memory = 0, []

    def watch(event: Event) -> None:
        nonlocal arrived
        if isinstance(event, Arrived):
            arrived += 1
            if arrived % (rollouts // 10) == 0:
                memory.append(_resident_mb())

    cpu = time.process_time()
    await evaluate(job, {"seed": job.skill}, ["test"], folder / "run", sinks=[watch])
    cpu = time.process_time() - cpu
    resumed = await _resume(folder, rollouts)
    return {
        "simulated": True,
        "rollouts": rollouts,
        "mb": memory[:10],
        "ratio": memory[9] / memory[1],
        "cpu_ms": 1000 * cpu / rollouts,
        **resumed,
    }


class _Enough(Exception):
    """The run is stopped where a person would have stopped it."""


async def _resume(folder: Path, rollouts: int) -> dict[str, float]:
    """Stop a training run of about so many calls before its sealed test, and run the same command again."""
    options = [
        "env.name=world",
        "env.train_cases=80",
        f"env.val_cases={min(2_900, rollouts // 3)}",  # the world has no more cases for val
        f"evaluation.repeats={-(-rollouts // 3 // 2_900)}",
        "env.test_cases=5",
        "train.num_epochs=1",
        "optimizer.salvage=false",
        "model.target=world",
        "model.optimizer=world",
    ]
    job = prepare(load(None, flags={}, options=options, environ={}, cwd=folder))

    def stop(event: Event) -> None:
        if isinstance(event, StageOpened) and event.stage == "test":
            raise _Enough

    with contextlib.suppress(_Enough):
        async with open_run(job, folder / "train", sinks=[stop]) as opened:
            await train(opened)
    cpu = time.process_time()
    async with open_run(job, folder / "train") as opened:
        calls = opened.ledger.account.total().calls
        await train(opened)
    return {"resumed_calls": calls, "resume_cpu_s": time.process_time() - cpu}


def _resident_mb() -> float:
    """The memory this process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / (1 << 20)


if __name__ == "__main__":
    main()
