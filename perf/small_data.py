"""What few tasks give, in *simulated* worlds, judged on fresh cases: cross-fitting against one split, as it is
by default and with the calls that cross-fitting took.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import skillopt
from _worlds import KINDS, SEED_SKILL, TRUTH_CASES, Cases, World
from _worlds_models import Simulated
from skillopt.tasks.splits import ratio_split
from skillopt.tasks.task import Split, Task

SIZES = (10, 20, 40, 59)
WORLDS = ("plain", "noise 10 %", "optimizer 70 % wrong", "nothing helps")
FOLDS, SPLIT, EQUAL = "folds", "one split", "one split, calls of the folds"
ARMS = {FOLDS: None, SPLIT: 1, EQUAL: 1}
LONGER = 10
"""Times the epochs of the others: what one split may do with as many calls, with `paper`, as `proof` ends after
a pass that brought nothing.
"""
LARGE = 0.2
"""A true gain that a claim should be able to show."""
HEAD = (
    "tasks",
    "world",
    "arm",
    "true gain",
    "claims",
    f"of those with a gain above {LARGE}",
    "false",
    "calls",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training run. `gain` is the true one of the skill handed over, on fresh cases and without noise."""

    tasks: int
    world: str
    arm: str
    seed: int
    gain: float
    claimed: bool
    """Whether the run says that the skill is better, and not that this can be chance."""
    p: float | None
    delta: float | None
    calls: int

    @property
    def key(self) -> tuple[int, str, str, int]:
        return self.tasks, self.world, self.arm, self.seed


class FewCases(Cases):
    """The first cases of a world, which nothing divides but the ratio of own tasks."""

    undivided = own_scorer = True

    def __init__(self, world: World, count: int) -> None:
        super().__init__(world)
        cases = [self._task(f"C{number:06d}") for number in range(count)]
        self._splits = ratio_split(cases, "2:2:1", seed=42)

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._splits.of(split)


def run(tasks: int, kind: str, arm: str, seed: int, calls: int | None = None) -> Row:
    """Train with so many tasks of one world, in a folder that is thrown away; `calls` are the most."""
    world = World(KINDS[kind], seed)
    options = {
        "train.strategy": "paper" if arm == EQUAL else "proof",
        "train.num_epochs": 3 * (LONGER if arm == EQUAL else 1),
        "train.folds": ARMS[arm],
        "budget.calls": calls,
    }
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        result = skillopt.optimize(
            target=Simulated(world, "target"),
            optimizer=Simulated(world, "optimizer"),
            benchmark=FewCases(world, tasks),
            out=f"{folder}/run",
            options={name: value for name, value in options.items() if value is not None},
        )
    before, after = (world.true_score(world.reading(skill)) for skill in (SEED_SKILL, result.best_skill))
    found = result.test
    return Row(
        tasks=tasks,
        world=kind,
        arm=arm,
        seed=seed,
        gain=after - before,
        claimed=found is not None and found.delta > 0 and found.p < 0.05,
        p=None if found is None else found.p,
        delta=None if found is None else found.delta,
        calls=result.summary["spending"]["calls"],
    )


def main() -> None:
    """Run every size in every world with all plans on the same seeds, and end with a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=1_000, help="the first of them (default %(default)s)")
    parser.add_argument("--tasks", nargs="+", type=int, default=list(SIZES), help="default: %(default)s")
    parser.add_argument(
        "--worlds", nargs="+", choices=list(KINDS), default=list(WORLDS), help="default: four"
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        choices=list(ARMS),
        default=list(ARMS),
        help="default: all; the last needs the first",
    )
    parser.add_argument(
        "--rows", type=Path, help="file that keeps finished runs, one a line; they are not run again"
    )
    parser.add_argument("--json", action="store_true", help="print all runs as JSON")
    given = parser.parse_args()
    kept = given.rows.read_text().splitlines() if given.rows and given.rows.exists() else []
    done = {row.key: row for row in (Row(**json.loads(line)) for line in kept)}
    seeds = range(given.first, given.first + given.seeds)
    jobs = [
        (*where, arm, seed) for *where, seed, arm in product(given.tasks, given.worlds, seeds, given.arms)
    ]
    for number, job in enumerate(jobs, 1):
        if job not in done:
            tasks, world, arm, seed = job
            done[job] = run(
                tasks, world, arm, seed, calls=done[tasks, world, FOLDS, seed].calls if arm == EQUAL else None
            )
            if given.rows:
                with given.rows.open("a") as file:
                    file.write(json.dumps(asdict(done[job])) + "\n")
        print(f"\r{number} of {len(jobs)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rows = [done[job] for job in jobs]
    if given.json:
        print(json.dumps({"simulated": True, "rows": list(map(asdict, rows))}, indent=1))
        return
    print(
        f"Simulated throughout: {given.seeds} seeds from {given.first}, the true gain on {TRUTH_CASES:,} fresh"
        " cases without noise; +- is a standard error. A claim is false where the true gain is not above 0.\n"
    )
    print(_line(HEAD), _line("---" for _ in HEAD), sep="\n")
    for tasks, world, arm in product(given.tasks, given.worlds, given.arms):
        print(_line(_shown([row for row in rows if (row.tasks, row.world, row.arm) == (tasks, world, arm)])))


def _shown(rows: Sequence[Row]) -> list[Any]:
    gains = [row.gain for row in rows]
    error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
    large = [row for row in rows if row.gain > LARGE]
    return [
        rows[0].tasks,
        rows[0].world,
        rows[0].arm,
        f"{mean(gains):+.3f} +- {error:.3f}",
        f"{sum(row.claimed for row in rows)} of {len(rows)}",
        f"{sum(row.claimed for row in large)} of {len(large)}",
        sum(row.claimed and row.gain <= 0 for row in rows),
        f"{mean(row.calls for row in rows):.0f}",
    ]


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
