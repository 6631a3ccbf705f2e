"""What gate policies, salvage and patience are worth at the same budget, on the simulated rule world."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean, stdev
from typing import Any

from _arms import ARMS, CALLS, HARM, NOISES, SEEDS, TEST_CASES, VAL_CASES, Row, run_arm

LINE = "{:<14} {:>6} {:>16} {:>6} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6}  {}"


def main() -> None:
    """Run every arm on every seed, with and without noise, and print a table for each noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=len(SEEDS), help="how many seeds, from 0 (default %(default)s)"
    )
    parser.add_argument(
        "--calls", type=int, default=CALLS, help="the budget of every run, in calls (default %(default)s)"
    )
    parser.add_argument(
        "--test-cases",
        type=int,
        default=TEST_CASES,
        help="sealed test cases, which the budget pays for (default %(default)s)",
    )
    parser.add_argument(
        "--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="which arms (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print the rows and means as JSON")
    arguments = parser.parse_args()
    started = time.monotonic()
    rows: list[Row] = []
    for noise in NOISES:
        at = [
            [
                run_arm(arm, seed, noise, calls=arguments.calls, test_cases=arguments.test_cases)
                for seed in range(arguments.seeds)
            ]
            for arm in arguments.arms
        ]
        rows += [row for arm in at for row in arm]
        if not arguments.json:
            _print(noise, at, arguments.seeds, arguments.calls)
    seconds = time.monotonic() - started
    if arguments.json:
        figures = [
            {"noise": noise, **_means([row for row in rows if (row.arm, row.noise) == (arm, noise)])}
            for noise in NOISES
            for arm in arguments.arms
        ]
        print(
            json.dumps(
                {
                    "simulated": True,
                    "rows": [asdict(row) for row in rows],
                    "means": figures,
                    "seconds": seconds,
                },
                indent=2,
            )
        )
    else:
        print(f"Simulated throughout; {len(rows)} runs in {seconds:.0f} s.")


def _print(noise: float, arms: Sequence[Sequence[Row]], seeds: int, calls: int) -> None:
    seed_score = mean(row.test_seed for row in arms[0])
    print(
        f"Simulated rule world, noise {noise:.0%}: {seeds} seeds, {VAL_CASES} val cases, at most {calls:,}"
        f" calls a run, a harmful edit in a proposal with chance {HARM:.0%}.\nSealed test of the seed skill"
        f" {seed_score:.3f}. 'against' is the mean difference to {arms[0][0].arm} on the same seed with its"
        " standard error."
    )
    print(
        LINE.format(
            "", "test", "against", "true", "harmful", "accepts", "of", "steps", "calls", "chars", "ended by"
        )
    )
    for rows in arms:
        figures = _means(rows)
        gaps = [row.test_best - other.test_best for row, other in zip(rows, arms[0], strict=True)]
        error = stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
        print(
            LINE.format(
                figures["arm"],
                f"{figures['test_best']:.3f}",
                "" if rows is arms[0] else f"{mean(gaps):+.3f} +- {error:.3f}",
                f"{figures['true_best']:.3f}",
                sum(row.harmful for row in rows),
                f"{figures['accepts']:.1f}",
                f"{figures['verdicts']:.1f}",
                f"{figures['steps']:.1f}",
                f"{figures['calls']:.0f}",
                f"{figures['chars']:.0f}",
                ", ".join(f"{why} {count}" for why, count in figures["ended"].items()),
            ),
            flush=True,
        )
    print()


def _means(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures of one arm over its seeds."""
    names = (
        "test_seed",
        "test_best",
        "true_best",
        "harmful",
        "accepts",
        "verdicts",
        "steps",
        "calls",
        "chars",
    )
    figures = {name: mean(getattr(row, name) for row in rows) for name in names}
    return {"arm": rows[0].arm, **figures, "ended": dict(sorted(Counter(row.ended for row in rows).items()))}


if __name__ == "__main__":
    main()
