"""Whole simulated runs give what was stored of them: skills byte for byte, history and verdicts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from claims._product import SEED_SKILL, Judged, code_of, family_of, skillopt
from claims.promises._runs import events_of, history, in_world, make_job, run

SMALL = (
    *("env.train_cases=24", "env.val_cases=24", "env.test_cases=8", "train.batch_size=12"),
    *("train.num_epochs=3", "gradient.minibatch_size=2", "optimizer.slow_update_samples=8"),
)
HARM = in_world("world:seed=1,harm=0.3,noise=0.02", *SMALL)


def trained(*options: str) -> Callable[[Path], None]:
    return lambda folder: asyncio.run(run(make_job((*HARM, *options)), folder)) and None


def cross_fitted(folder: Path) -> None:
    """Twenty tasks of one's own by the default path."""
    ids = [f"W{number:06d}" for number in range(20)]
    rows = [
        {"id": id, "prompt": f"Case {id}, about {family_of(id)}. What is its code?", "answer": code_of(id)}
        for id in ids
    ]
    skill = folder.parent / "SKILL.md"
    skill.write_text(SEED_SKILL, encoding="utf-8")
    world, options = "world:noise=0", {"train.num_epochs": 2, "env.workers": 4}
    skillopt.optimize(
        skill=skill,
        tasks=rows,
        scorer="exact_match",
        target=world,
        optimizer=world,
        out=folder,
        options=options,
    )


KINDS = {
    "paper": trained("train.strategy=paper"),
    "rewriting": trained(
        "train.strategy=paper",
        "optimizer.skill_update_mode=rewrite_from_suggestions",
        "optimizer.use_skill_aware_reflection=true",
    ),
    "proof": trained("train.strategy=proof"),
    "cross_fitted": cross_fitted,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_gives_what_was_stored_of_it(kind: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    folder = tmp_path / "run"
    KINDS[kind](folder)
    assert snapshot(extension_class=JSONSnapshotExtension) == outcome_of(folder)


def outcome_of(folder: Path) -> dict[str, Any]:
    """The best skill as text, the digests of all skills, the history and what the gate ruled."""
    texts = sorted(path for path in (folder / "skills").rglob("*") if path.is_file())
    logs = sorted(folder.rglob("events.jsonl"))  # of the rounds, too, where the run is cross-fitted
    verdicts = [event for log in logs for event in events_of(log.parent) if isinstance(event, Judged)]
    return {
        "best_skill": (folder / "best_skill.md").read_text(encoding="utf-8"),
        "skills": {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in texts
        },
        "history": history(folder) if (folder / "history.json").exists() else [],
        "verdicts": [
            [str(one.place), one.policy, one.action, one.incumbent, one.candidate, one.rows_used]
            for one in verdicts
        ],
    }
