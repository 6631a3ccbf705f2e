"""What the gate keeps out, on the simulated rule world: ten seeds with the gate, the same ten without."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

from _world import HARM, NOISE, SEEDS, VAL_CASES, Row, run_seed, share_through

LINE = "{:>5}  {:>8}  {:>8} {:>8}  {:>8} {:>8}  {:>9} {:>9}  {:>12}"


def main() -> None:
    """Run, print a line per seed, end with the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=len(SEEDS), help="how many seeds, from 0 (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the rows and means as JSON")
    arguments = parser.parse_args()
    started = time.monotonic()
    if not arguments.json:
        print(
            f"Simulated rule world: {VAL_CASES} val cases, noise {NOISE:.0%}, a harmful edit in a proposal"
            f" with chance {HARM:.0%}.\n"
        )
        print(
            LINE.format("seed", "test of", "gated", "ungated", "gated", "", "harmful", "rules", "gate rows")
        )
        print(
            LINE.format("", "seed", "best", "last", "accepted", "rejected", "gated", "ungated", "sent/full")
        )
    pairs: list[tuple[Row, Row]] = []
    for seed in range(arguments.seeds):
        pairs.append((run_seed(seed, use_gate=True), run_seed(seed, use_gate=False)))
        if not arguments.json:
            print(_line(*pairs[-1]), flush=True)
    figures = means(pairs)
    if arguments.json:
        rows = [asdict(row) for pair in pairs for row in pair]
        print(
            json.dumps(
                {"simulated": True, "rows": rows, "means": figures, "seconds": time.monotonic() - started},
                indent=2,
            )
        )
        return
    print(
        f"\nmean test score (simulated): seed {figures['test_seed']:.3f}, gated best"
        f" {figures['test_gated']:.3f}, ungated last {figures['test_ungated']:.3f}\nbest above seed on"
        f" {figures['gated_better']} of {len(pairs)} seeds\nproposals with a harmful edit:"
        f" {figures['harmful_proposals']:.0%}\nharmful rules that got through: {figures['through_gated']:.0%}"
        f" gated, {figures['through_ungated']:.0%} ungated\ngate rollouts saved by curtailment:"
        f" {figures['gate_rows_saved']} of {figures['gate_rows_full']}"
        f" ({figures['gate_rows_saved'] / max(1, figures['gate_rows_full']):.0%}), the verdicts are the"
        f" same\n{2 * len(pairs)} runs in {time.monotonic() - started:.1f} s"
    )


def means(pairs: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    """The figures over all seeds."""
    gated, ungated = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    both = gated + ungated
    return {
        "test_seed": mean(row.test_seed for row in gated),
        "test_gated": mean(row.test_end for row in gated),
        "test_ungated": mean(row.test_end for row in ungated),
        "gated_better": sum(row.gain > 0 for row in gated),
        "harmful_proposals": sum(row.harmful_proposals for row in both) / sum(row.proposals for row in both),
        "through_gated": share_through(gated),
        "through_ungated": share_through(ungated),
        "gate_rows_full": sum(row.gate_rows_full for row in gated),
        "gate_rows_saved": sum(row.gate_rows_saved for row in gated),
    }


def _line(gated: Row, ungated: Row) -> str:
    return LINE.format(
        gated.seed,
        f"{gated.test_seed:.3f}",
        f"{gated.test_end:.3f}",
        f"{ungated.test_end:.3f}",
        gated.accepted,
        gated.rejected,
        f"{gated.harmful_through} of {gated.harmful_proposed}",
        f"{ungated.harmful_through} of {ungated.harmful_proposed}",
        f"{gated.gate_rows_sent}/{gated.gate_rows_full}",
    )


if __name__ == "__main__":
    main()
