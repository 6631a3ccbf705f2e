"""Analysts against a coding agent as proposer, at the same budget: what each finds in *simulated* worlds."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean, stdev

from _strategies import BUDGET, STRATEGIES, Row, run
from _worlds import KINDS

AGENT = Path(__file__).parent / "_proposing.py"
PROPOSERS = {"analysts": None, "agent": 10_000, "agent without instructions of its own": 0}
"""Tokens that an agent sends of its own with every turn; real ones send about 10,000."""
HEAD = (
    "world",
    "strategy",
    "proposer",
    "true score",
    "against analysts",
    "tokens",
    "of the proposer",
    "harmful",
)


def measured(world: str, strategy: str, proposer: str, seed: int, budget: int) -> Row:
    """One training run."""
    tokens = PROPOSERS[proposer]
    if tokens is None:
        return run(world, f"{strategy}, budget", seed, budget)
    command = shlex.join([sys.executable, str(AGENT), world, str(seed), str(tokens)])
    more = {"train.proposer": "agent", "model.proposer": f"cmd: {command}"}
    return run(world, f"{strategy}, budget", seed, budget, more)


def main() -> None:
    """Run every proposer under every strategy on the same seeds, and end with a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=40, help="the first of them (default %(default)s)")
    parser.add_argument("--worlds", nargs="+", choices=list(KINDS), default=["plain"], help="default: plain")
    parser.add_argument("--budget", type=int, default=BUDGET, help="tokens (default %(default)s)")
    arguments = parser.parse_args()
    began, seeds = time.monotonic(), range(arguments.first, arguments.first + arguments.seeds)
    arms = list(product(arguments.worlds, STRATEGIES, PROPOSERS))
    jobs = [(*arm, seed, arguments.budget) for arm, seed in product(arms, seeds)]
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(measured, *zip(*jobs, strict=True)))
    by_arm = {arm: rows[at * len(seeds) : (at + 1) * len(seeds)] for at, arm in enumerate(arms)}
    print(
        f"Simulated throughout: {len(seeds)} seeds from {seeds.start}, {arguments.budget:,} tokens each; +- is a"
        f" standard error; {time.monotonic() - began:.0f} s.\n"
    )
    print(_line(HEAD), _line(["---"] * len(HEAD)), sep="\n")
    for (world, strategy, proposer), found in by_arm.items():
        scores = [row.score for row in found]
        gaps = [
            row.score - other.score
            for row, other in zip(found, by_arm[world, strategy, "analysts"], strict=True)
        ]
        stages = (
            "proposer",
            "analyst_failure",
            "analyst_success",
            "analyst_proof",
            "merge",
            "ranking",
            "joining",
        )
        asked = mean(sum(row.stages.get(stage, 0) for stage in stages) for row in found)
        cells = (
            *(world, strategy, proposer),
            f"{mean(scores):.3f} +- {_error(scores):.3f}",
            "" if proposer == "analysts" else f"{mean(gaps):+.3f} +- {_error(gaps):.3f}",
            f"{mean(row.tokens for row in found) / 1000:.0f}k",
            f"{asked / 1000:.0f}k",
            f"{mean(row.harmful for row in found):.2f}",
        )
        print(_line(cells))


def _error(values: list[float]) -> float:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
