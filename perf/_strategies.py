"""Trains in one *simulated* world with one search strategy: the computation behind `strategies.py`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import skillopt
from _worlds import KINDS, SEED_SKILL, Cases, World
from _worlds_models import Simulated

BUDGET = 600_000
STRATEGIES = ("paper", "proof")
ARMS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"train.strategy": name, "train.num_epochs": 2} for name in STRATEGIES},
    **{f"{name}, budget": {"train.strategy": name, "train.num_epochs": 12} for name in STRATEGIES},
}
"""What each arm sets. Two epochs, or as many as the budget pays for."""
_SAME_FOR_ALL = {
    "train.batch_size": 40,
    "evaluation.eval_test": False,
    # Caps close to what is answered: a budget sets the cap aside for every call under way.
    "model.target.max_tokens": 1_000,
    "model.optimizer.max_tokens": 4_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training run. Scores are those of the world itself on fresh cases, without noise."""

    world: str
    arm: str
    seed: int
    budget: int
    """Tokens that an arm with a budget may use."""
    seed_score: float
    score: float
    harmful: int
    """Lines of the best skill without which the score would be higher."""
    lines: int
    """Lines of the best skill that do anything."""
    tokens: int
    calls: int
    stages: Mapping[str, int]
    """Tokens by stage."""
    accepts: int
    cpu: float
    """Seconds of CPU that training took, without counting the truth."""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What a run is a function of, beside the code."""
        return self.world, self.arm, self.seed, self.budget


def run(
    world_name: str, arm: str, seed: int, budget: int = BUDGET, more: Mapping[str, Any] | None = None
) -> Row:
    """Train with one arm in the world of a kind and a seed, in a folder that is thrown away; `more` are
    further options.
    """
    world = World(KINDS[world_name], seed)
    limit = f"{budget} tokens" if arm.endswith("budget") else None
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        result = skillopt.optimize(
            target=Simulated(world, "target"),
            optimizer=Simulated(world, "optimizer"),
            benchmark=Cases(world),
            budget=limit,
            out=f"{folder}/run",
            options={**_SAME_FOR_ALL, **ARMS[arm], **(more or {})},
        )
    cpu = time.process_time() - began
    lines, spending = world.reading(result.best_skill), result.summary["spending"]
    return Row(
        world=world_name,
        arm=arm,
        seed=seed,
        budget=budget,
        seed_score=world.true_score(world.reading(SEED_SKILL)),
        score=world.true_score(lines),
        harmful=world.harmful(lines),
        lines=len(lines),
        tokens=spending["tokens"],
        calls=spending["calls"],
        stages={
            name: spent["total_tokens"] for name, spent in spending["stages"].items() if name != "_total"
        },
        accepts=result.summary["total_accepts"],
        cpu=cpu,
    )
