"""How often few tasks show a true gain: McNemar's exact test of single answers, and the test of cross-fitted
runs. Every figure is exact, summed over all outcomes; nothing is drawn and no engine runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import product
from math import comb

from skillopt.evaluation.significance import improvement_p

GAINS = (0.0, 0.15, 0.2, 0.25, 0.3, 0.4)


def conditional_p(fixed: int, broken: int, tasks: int) -> float:
    """McNemar's exact test, one-sided: the number of changed tasks is taken as given."""
    changed = fixed + broken
    return sum(comb(changed, k) for k in range(fixed, changed + 1)) / float(2**changed)


def error_of(noise: float, draws: int) -> float:
    """Chance that most of an odd number of answers are the opposite of what they should be."""
    return sum(
        comb(draws, k) * noise**k * (1 - noise) ** (draws - k) for k in range(draws // 2 + 1, draws + 1)
    )


def changes(gain: float, breaks: float, error: float) -> tuple[float, float]:
    """Chances that a task is seen fixed and seen broken, where both skills' answers may be in error."""
    right = (1 - error) ** 2, error * (1 - error), error**2  # both as they should be, one not, both not
    fixes, same = gain + breaks, 1 - gain - 2 * breaks
    return fixes * right[0] + same * right[1] + breaks * right[2], (
        breaks * right[0] + same * right[1] + fixes * right[2]
    )


def claimed(tasks: int, fixed: float, broken: float, p: Callable[[int, int, int], float]) -> float:
    """The chance that p is below 0.05, where tasks are seen fixed and broken with these chances."""
    return sum(
        comb(tasks, f) * comb(tasks - f, b) * fixed**f * broken**b * (1 - fixed - broken) ** (tasks - f - b)
        for f in range(tasks + 1)
        for b in range(min(f, tasks - f + 1))
        if p(f, b, tasks) < 0.05
    )


def main() -> None:
    """Print the chance of a claim for every number of tasks, noise and gain, with both tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", type=int, default=[10, 20, 30, 40], help="default: %(default)s")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.1], help="default: %(default)s")
    parser.add_argument(
        "--breaks",
        type=float,
        default=0.02,
        help="share of tasks that the skill breaks (default %(default)s)",
    )
    parser.add_argument("--draws", type=int, default=5, help="answers to a task (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    tests = {
        "McNemar, one answer": (conditional_p, 1),
        "ours, one answer": (improvement_p, 1),
        f"ours, most of {given.draws}": (improvement_p, given.draws),
    }
    found = [
        {
            "tasks": tasks,
            "noise": noise,
            "test": name,
            "claimed": {
                gain: round(claimed(tasks, *changes(gain, given.breaks, error_of(noise, draws)), p), 4)
                for gain in GAINS
            },
        }
        for tasks, noise, (name, (p, draws)) in product(given.tasks, given.noise, tests.items())
    ]
    if given.json:
        print(json.dumps(found, indent=1))
        return
    heads = ["tasks", "noise", "test", *(f"gain {gain:g}" for gain in GAINS)]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for one in found:
        shares = [f"{share:.2f}" if gain else f"{share:.3f}" for gain, share in one["claimed"].items()]
        print(f"| {one['tasks']} | {one['noise']:g} | {one['test']} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
