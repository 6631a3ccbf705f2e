"""What `skillopt estimate` and a run's own projection say against the calls that *simulated* runs made."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from _estimates import KINDS, Row, run

BEFORE, AFTER = 2.0, 1.5
"""Factors within which the typical figure and the projection should lie."""


def main() -> None:
    """Run every kind on its seeds, and end with a table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="of each kind (default %(default)s)")
    parser.add_argument("--first", type=int, default=7, help="the first of them (default %(default)s)")
    parser.add_argument("--kinds", nargs="+", default=[], help="those whose name begins so; default: all")
    parser.add_argument("--json", action="store_true", help="print all runs as JSON")
    given = parser.parse_args()
    kinds = [kind for kind in KINDS if not given.kinds or kind.name.startswith(tuple(given.kinds))]
    # every kind has seeds of its own
    jobs = [
        (kind, given.first + number * len(KINDS) + KINDS.index(kind))
        for kind in kinds
        for number in range(given.seeds)
    ]
    rows = list[Row]()
    with ProcessPoolExecutor() as pool:
        for row in pool.map(run, *zip(*jobs, strict=True)):
            rows.append(row)
            print(f"{len(rows)} of {len(jobs)}: {row.kind}, {row.tasks} tasks", file=sys.stderr)
    if given.json:
        print(json.dumps(list(map(asdict, rows)), indent=2))
        return
    print(
        "| kind | tasks | at most | typical | after the baseline | calls | typical / calls | projected / calls |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        most = "no bound" if row.at_most is None else f"{row.at_most:,.0f}"
        ratios = f"{row.typical / row.calls:.2f} | {row.projected / row.calls:.2f}"
        print(
            f"| {row.kind} | {row.tasks} | {most} | {row.typical:,.0f} | {row.projected:,.0f} | {row.calls:,}"
            f" | {ratios} |"
        )
    bounded = sum(row.is_bounded for row in rows)
    before = sum(1 / BEFORE <= row.typical / row.calls <= BEFORE for row in rows)
    tokens = sum(1 / BEFORE <= row.typical_tokens / row.tokens <= BEFORE for row in rows if row.tokens)
    after = sum(1 / AFTER <= row.projected / row.calls <= AFTER for row in rows)
    print(
        f"\n{len(rows)} simulated runs: the bound held in {bounded}; calls as typical within a factor {BEFORE:g}"
        f" in {before}, tokens in {tokens}; the projection within a factor {AFTER:g} in {after}."
    )


if __name__ == "__main__":
    main()
