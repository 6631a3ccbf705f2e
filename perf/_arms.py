"""Trains on the *simulated* rule world under one gate policy or search setting and a fixed budget: the
computation behind `policies.py`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.config.load import load
from skillopt.events import Event, Judged
from skillopt.models.world.rules import HARMFUL, is_solved
from skillopt.run import open_run, prepare, train

ARMS: Mapping[str, Sequence[str]] = {
    "strict": (),
    "confirm": ("gate.policy=confirm",),
    "no_regression": ("gate.policy=no_regression",),
    "paired": ("gate.policy=paired",),
    "size_capped": ("gate.policy=size_capped", "gate.max_chars=1000"),
    "no salvage": ("optimizer.salvage=false",),
    "patience 4": ("train.patience=4",),
}
"""What each arm sets beside the defaults, which are strict, with salvage and without patience."""
SEEDS = tuple(range(10))
NOISES = (0.0, 0.1)
HARM = 0.4
VAL_CASES = 60
TEST_CASES = 100
CALLS = 2_000
EPOCHS = 12
"""More than the budget pays for, so that it is the budget that ends a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training run on the simulated world."""

    arm: str
    seed: int
    noise: float
    test_seed: float
    test_best: float
    """Mean hard score on the sealed test cases, with the noise of the simulated target."""
    true_best: float
    """Share of the sealed test cases that the best skill solves when there is no noise: the simulation knows
    it, a user would not.
    """
    harmful: int
    """Harmful rules in the best skill."""
    accepts: int
    verdicts: int
    """Candidates that were decided on, slow updates and halves of rejected bundles included."""
    calls: int
    steps: int
    chars: int
    """Length of the best skill."""
    ended: str
    """What ended the run: the plan, the budget, no headroom, or patience."""


def run_arm(arm: str, seed: int, noise: float, *, calls: int = CALLS, test_cases: int = TEST_CASES) -> Row:
    """Train on the cases, noise and proposals of one seed, in a folder that is thrown away."""
    return asyncio.run(_run(arm, seed, noise, calls, test_cases))


async def _run(arm: str, seed: int, noise: float, calls: int, test_cases: int) -> Row:
    events: list[Event] = []
    model = f"world:noise={noise},harm={HARM},seed={seed}"
    options = [
        "env.name=world",
        "evaluation.eval_test=true",
        f"env.world_seed={seed}",
        f"env.val_cases={VAL_CASES}",
        f"env.test_cases={test_cases}",
        f"model.target={model}",
        f"model.optimizer={model}",
        f"train.num_epochs={EPOCHS}",
        f"budget.calls={calls}",
        *ARMS[arm],
    ]
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=Path(folder)))
        async with open_run(job, Path(folder) / "run", sinks=[events.append]) as opened:
            result = await train(opened)
            best = opened.run.skills.get(result.state.best).rendered
    summary = result.summary
    if summary["test_hard"] is None:
        raise RuntimeError(
            f"{arm}, seed {seed}: the sealed test was not measured; the budget of {calls} calls is too small"
        )
    verdicts = [
        event
        for event in events
        if isinstance(event, Judged) and event.action in ("accept", "reject", "inconclusive")
    ]
    return Row(
        arm=arm,
        seed=seed,
        noise=noise,
        test_seed=summary["baseline_test_hard"],
        test_best=summary["test_hard"],
        true_best=sum(is_solved(task.id, best) for task in job.splits.test) / len(job.splits.test),
        harmful=sum(rule in best for rule in HARMFUL),
        accepts=sum(event.action == "accept" for event in verdicts),
        verdicts=len(verdicts),
        calls=summary["spending"]["calls"],
        steps=result.state.step,
        chars=len(best),
        ended=_ended(str(summary.get("stopped_because") or ""), finished=result.state.finished),
    )


def _ended(stopped: str, *, finished: bool) -> str:
    if not finished:
        return "budget"
    return "headroom" if "headroom" in stopped else "patience" if "patience" in stopped else "plan"
