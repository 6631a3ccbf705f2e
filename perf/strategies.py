"""Which search strategy finds more, in nine kinds of simulated world: free, and at the same budget."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from _strategies import ARMS, BUDGET, Row, run
from _worlds import KINDS, TRAIN_CASES, TRUTH_CASES

HEAD = ("world", "arm", "true score", "against paper", "seed", "tokens", "calls", "harmful", "accepts", "cpu")


def main() -> None:
    """Run every arm in every world on the same seeds, and end with a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default %(default)s)")
    parser.add_argument("--worlds", nargs="+", choices=list(KINDS), default=list(KINDS), help="default: all")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="default: all")
    parser.add_argument(
        "--budget", type=int, default=BUDGET, help="tokens of the arms with a budget (default %(default)s)"
    )
    parser.add_argument(
        "--rows",
        type=Path,
        help="file that keeps finished runs, one a line: they are not run again, so a stopped comparison goes"
        " on; make a new one when a strategy or a world changes",
    )
    parser.add_argument("--json", action="store_true", help="print all runs and the figures as JSON")
    arguments = parser.parse_args()
    started = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    jobs = list(product(arguments.worlds, arguments.arms, seeds, [arguments.budget]))
    done = _kept(arguments.rows)
    left = [job for job in jobs if job not in done]
    with ProcessPoolExecutor(2) as pool:
        for number, row in enumerate(pool.map(run, *zip(*left, strict=True)) if left else (), 1):
            done[row.key] = row
            if arguments.rows:
                with arguments.rows.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            print(f"\r{number} of {len(left)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rows = [done[job] for job in jobs]
    figures = [
        _figures(_of(rows, world, arm), _of(rows, world, arm.replace("proof", "paper")))
        for world, arm in product(arguments.worlds, arguments.arms)
    ]
    seconds = time.monotonic() - started
    if arguments.json:
        told = {"simulated": True, "rows": list(map(asdict, rows)), "figures": figures, "seconds": seconds}
        print(json.dumps(told, indent=1))
        return
    print(
        f"Simulated throughout: {len(seeds)} seeds from {seeds.start}, {TRAIN_CASES} train cases, the true score on"
        f" {TRUTH_CASES:,} fresh cases without noise; +- is a standard error, budgets are"
        f" {arguments.budget:,} tokens; {seconds:.0f} s.\n"
    )
    print(_row(HEAD), _row("---" for _ in HEAD), *(_row(_shown(one)) for one in figures), sep="\n")


def _kept(file: Path | None) -> dict[tuple[str, str, int, int], Row]:
    lines = file.read_text().splitlines() if file and file.exists() else []
    return {row.key: row for row in (Row(**json.loads(line)) for line in lines)}


def _of(rows: Sequence[Row], world: str, arm: str) -> list[Row]:
    return [row for row in rows if (row.world, row.arm) == (world, arm)]


def _figures(rows: Sequence[Row], paper: Sequence[Row]) -> dict[str, Any]:
    """The means of one arm in one world, and its difference to `paper` on the same seeds, if that ran."""
    names = ("score", "seed_score", "tokens", "calls", "harmful", "accepts", "cpu")
    figures: dict[str, Any] = {"world": rows[0].world, "arm": rows[0].arm}
    figures |= {name: mean(getattr(row, name) for row in rows) for name in names}
    figures["stages"] = {
        stage: mean(row.stages.get(stage, 0) for row in rows)
        for stage in sorted({stage for row in rows for stage in row.stages})
    }
    figures["error"] = _error([row.score for row in rows])
    if paper and paper != rows:
        gaps = [row.score - other.score for row, other in zip(rows, paper, strict=True)]
        figures |= {"gap": mean(gaps), "gap_error": _error(gaps)}
        figures["token_share"] = figures["tokens"] / mean(row.tokens for row in paper)
    return figures


def _error(values: Sequence[float]) -> float:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _shown(one: dict[str, Any]) -> list[str]:
    against = f"{one['gap']:+.3f} +- {one['gap_error']:.3f}" if "gap" in one else ""
    share = f" ({one['token_share']:.2f})" if "gap" in one else ""
    return [
        one["world"],
        one["arm"],
        f"{one['score']:.3f} +- {one['error']:.3f}",
        against,
        f"{one['seed_score']:.3f}",
        f"{one['tokens'] / 1000:.0f}k{share}",
        f"{one['calls']:.0f}",
        f"{one['harmful']:.2f}",
        f"{one['accepts']:.1f}",
        f"{one['cpu']:.1f} s",
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
