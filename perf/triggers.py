"""How far a description gets that never loads its skill, and one that always does: a simulated router, held-out
queries, by chat.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from skillopt.config.load import load
from skillopt.run import open_run, prepare, train
from skillopt.skill.install import with_description
from skillopt.train.claim import Triggering

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _loopback import LoopbackProvider
from _router import SimulatedRouter

EXAMPLE = Path(__file__).parents[1] / "examples" / "triggers"
SEEDS = {
    "never loads": "House rules of the data team.",
    "always loads": "House rules of the data team. Use it for every request.",
}


async def run(description: str, seed: int, others: bool) -> tuple[Triggering, Triggering, float, float]:
    """Recall and precision on the sealed queries before and after, and the score of each."""
    rows = [json.loads(line) for line in (EXAMPLE / "triggers.jsonl").read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        skill = Path(folder) / "schema-migrations"
        skill.mkdir()
        text = (EXAMPLE / skill.name / "SKILL.md").read_text()
        (skill / "SKILL.md").write_text(with_description(text, description))
        async with LoopbackProvider(SimulatedRouter(row["prompt"] for row in rows)) as provider:
            flags = {
                "part": "description",
                "triggers": str(EXAMPLE / "triggers.jsonl"),
                "skill_init": str(skill),
                "target_model": f"compatible:simulated-router@{provider.base_url}",
                "optimizer_model": f"compatible:simulated-optimizer@{provider.base_url}",
                "triggers.skills": str(EXAMPLE / "others"),
                "triggers.others": others,
                "triggers.split_ratio": "1:1:1",
                "minibatch_size": 16,
                "failure_only": True,
                "seed": seed,
            }
            job = prepare(load(None, flags=flags, options=[], environ={}, cwd=Path(folder)))
            async with open_run(job, Path(folder) / "run") as opened:
                test = (await train(opened)).summary["test"]
    before, after = (Triggering(**test["triggering"][arm]) for arm in ("seed", "best"))
    return before, after, test["comparison"]["before"], test["comparison"]["after"]


def main() -> None:
    """Train both descriptions with several divisions of the queries, and end with a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=10, help="divisions of the queries (default %(default)s)"
    )
    seeds = range(parser.parse_args().seeds)
    print(f"Simulated router and optimizer, {len(seeds)} divisions of 40 queries, 12 of them sealed.\n")
    print(
        "| seed | other skills | right | recall | precision | runs better, equal, worse |\n|---|---|---|---|---|---|"
    )
    for name, description in SEEDS.items():
        for others in (True, False):
            found = [asyncio.run(run(description, seed, others)) for seed in seeds]
            before, after, low, high = zip(*found, strict=True)
            gains = [new - old for old, new in zip(low, high, strict=True)]
            better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
            cells = (
                f"{mean(low):.3f} to {mean(high):.3f}",
                f"{_mean([one.recall for one in before])} to {_mean([one.recall for one in after])}",
                f"{_mean([one.precision for one in before])} to {_mean([one.precision for one in after])}",
            )
            told = f"{better}, {len(gains) - better - worse}, {worse}"
            print(f"| {name} | {'6' if others else 'none'} | {' | '.join(cells)} | {told} |")


def _mean(values: Sequence[float | None]) -> str:
    known = [one for one in values if one is not None]
    return f"{mean(known):.3f}" if known else "none"


if __name__ == "__main__":
    main()
