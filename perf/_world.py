"""Trains on the *simulated* rule world with and without the gate: the computation behind `gates.py` and its
test.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.config.load import load
from skillopt.events import EpochEnded, Event, Judged, Reflected, Updated
from skillopt.models.world.rules import HARMFUL
from skillopt.run import open_run, prepare, train
from skillopt.skill.store import Skills

SEEDS = tuple(range(10))
NOISE = 0.02
HARM = 0.4
"""Chance that a simulated proposal carries a harmful edit before the limit of edits cuts some off again; a
good third is left.
"""
VAL_CASES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training run on the simulated world. Scores are means of the hard score on the sealed
    test cases.
    """

    seed: int
    use_gate: bool
    test_seed: float
    test_end: float
    """Test of what the run would hand over: the best skill with the gate, the last current skill without it.
    """
    accepted: int
    rejected: int
    proposals: int
    """Proposals of the simulated optimizer: patches of its failure analysts, and slow updates."""
    harmful_proposals: int
    """Those of them that carry a harmful rule."""
    harmful_candidates: int
    """Different candidates of steps and slow updates that hold a harmful rule."""
    harmful_proposed: int
    """Different harmful rules that were proposed in the run at least once."""
    harmful_through: int
    """Harmful rules in the skill that the run hands over."""
    gate_rows_full: int
    """Gate rollouts that a full pass over val for every different candidate would have sent."""
    gate_rows_sent: int

    @property
    def gain(self) -> float:
        return self.test_end - self.test_seed

    @property
    def gate_rows_saved(self) -> int:
        return self.gate_rows_full - self.gate_rows_sent


def run_seed(seed: int, use_gate: bool, *, workers: int = 24) -> Row:
    """Train on the cases, noise and proposals of one seed, in a folder that is thrown away."""
    return asyncio.run(arun_seed(seed, use_gate, workers=workers))


async def arun_seed(seed: int, use_gate: bool, *, workers: int = 24) -> Row:
    """The same inside a running loop."""
    events: list[Event] = []
    model = f"world:noise={NOISE},harm={HARM},seed={seed}"
    options = [
        "env.name=world",
        "evaluation.eval_test=true",
        f"env.world_seed={seed}",
        f"env.val_cases={VAL_CASES}",
        f"env.workers={workers}",
        f"model.target={model}",
        f"model.optimizer={model}",
        f"evaluation.use_gate={str(use_gate).lower()}",
    ]
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        resolved = load(None, flags={}, options=options, environ={}, cwd=Path(folder))
        async with open_run(prepare(resolved), Path(folder) / "run", sinks=[events.append]) as opened:
            result = await train(opened)
            skills = opened.run.skills
            end = skills.get(result.state.best if use_gate else result.state.skill)
            return _row(seed, use_gate, result.summary, end.rendered, events, skills)


def run_all(seeds: Iterable[int] = SEEDS) -> list[Row]:
    """Every seed with the gate, then the same seeds without."""
    chosen = tuple(seeds)
    return [run_seed(seed, use_gate) for use_gate in (True, False) for seed in chosen]


def share_through(rows: Sequence[Row]) -> float:
    """Of the different harmful rules proposed in these runs, the share that stands in the skills they hand
    over.
    """
    proposed = sum(row.harmful_proposed for row in rows)
    return sum(row.harmful_through for row in rows) / proposed if proposed else 0.0


def _row(seed: int, use_gate: bool, summary: Any, end: str, events: Sequence[Event], skills: Skills) -> Row:
    proposals = list(_proposals(events))
    candidates = {
        event.digest: skills.get(event.skill).text for event in events if isinstance(event, Updated)
    }
    candidates |= {
        event.id or "": str(event.slow_update.slow_update_content)
        for event in events
        if isinstance(event, EpochEnded)
    }
    judged = {
        str(event.place): event
        for event in events
        if isinstance(event, Judged) and event.action != "unchanged"
    }
    fresh = {event.digest for event in events if isinstance(event, Updated) and str(event.place) in judged}
    fresh |= {
        str(event.slow_update.candidate_hash)
        for event in events
        if isinstance(event, EpochEnded) and event.slow_update.why is not None
    }
    rows = max((event.rows_total for event in judged.values()), default=0)
    test_end = summary["test_hard"] if use_gate else summary["final_test_hard"]
    return Row(
        seed=seed,
        use_gate=use_gate,
        test_seed=summary["baseline_test_hard"],
        test_end=test_end,
        accepted=summary["total_accepts"],
        rejected=summary["total_rejects"],
        proposals=len(proposals),
        harmful_proposals=sum(bool(_harmful(text)) for text in proposals),
        harmful_candidates=sum(bool(_harmful(text)) for text in candidates.values()),
        harmful_proposed=len(set().union(*map(_harmful, proposals))),
        harmful_through=len(_harmful(end)),
        gate_rows_full=rows * len(fresh),
        gate_rows_sent=summary["spending"]["stages"]["selection"]["calls"] - rows,
    )


def _proposals(events: Iterable[Event]) -> Iterable[str]:
    """What the simulated optimizer proposed, one text per reply that could have carried a harmful rule."""
    for event in events:
        if isinstance(event, Reflected):
            for patch in event.patches:
                if patch.kind == "failure":
                    yield json.dumps(
                        [edit.content for edit in patch.edits if edit.op != "delete"],
                        ensure_ascii=False,
                    )
        elif isinstance(event, EpochEnded) and event.slow_update.slow_update_content:
            yield str(event.slow_update.slow_update_content)


def _harmful(text: str) -> set[str]:
    return {rule for rule in HARMFUL if rule in text}
