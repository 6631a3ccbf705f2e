"""A budget that ends inside a step hands over what the step had found, and a larger one goes on with the step."""

from __future__ import annotations

import pytest

from claims.promises._runs import assert_same_run
from skillopt.events import Checkpoint, HandedOver
from skillopt.runs.reader import RunList, read_run, read_view
from train._world import Trained, train

PROOF = {
    "train__strategy": "proof",
    "evaluation__eval_test": False,
    "train__num_epochs": 1,
    "train__proof__batch": 40,
}


def shows(trained: Trained) -> HandedOver:
    """What was handed over last, after checking that everybody says so and that no step was closed."""
    handed = read_run(trained.folder).fold.handed_over
    assert handed is not None
    skill, said = trained.skill(handed.skill).rendered, trained.json("summary.json")
    assert (
        (trained.folder / "best_skill.md").read_text(encoding="utf-8") == skill == trained.result.best_skill
    )
    assert trained.result.status == said["status"] == "budget"
    assert (said["best_gate_score"], said["best_step"]) == (handed.score, 1)
    assert handed.score > handed.incumbent == said["baseline_gate_score"]
    facts = read_view(trained.folder)
    assert (facts.best, facts.best_skill) == (handed.score, skill)
    (listed,) = RunList().read([trained.folder]).values()
    assert (listed.best, listed.steps) == (handed.score, [])
    assert [one.kind for one in trained.of(Checkpoint)] in ([], ["baseline"])
    return handed


@pytest.mark.slow
def test_what_a_step_had_found_is_handed_over_and_a_larger_budget_ends_as_if_it_had_not_been(tmp_path):
    free = train(tmp_path / "free", **PROOF)
    scores = []
    for limit in (225, 250, 300):  # in the proofs, in the control, behind a first accepted candidate
        ended = train(tmp_path / "run", **PROOF, budget__calls=limit)
        assert ended.result.summary["spending"]["calls"] <= limit
        scores.append(shows(ended).score)
        again = train(tmp_path / "run", **PROOF, budget__calls=limit)  # nothing is left, and nothing is lost
        assert shows(again).score >= scores[-1]
    assert scores == sorted(scores)
    raised = train(tmp_path / "run", **PROOF, budget__calls=2_000)
    assert raised.result.status == "finished"
    assert_same_run(tmp_path / "run", free.folder)
    (listed,) = RunList().read([tmp_path / "run"]).values()
    assert listed.best == free.result.summary["best_gate_score"]


def test_a_budget_that_ends_before_anything_is_proven_hands_over_the_seed(tmp_path):
    ended = train(tmp_path / "run", **PROOF, budget__calls=80)
    assert (ended.result.status, ended.of(HandedOver)) == ("budget", [])
    assert ended.result.state.best == ended.result.state.seed


@pytest.mark.slow
def test_only_a_strategy_that_hands_over_sets_a_gate_aside(tmp_path):
    for strategy, calls in (("proof", 40), ("paper", None)):  # 30 rows, 30 % on top, one more
        settings = {**PROOF, "train__strategy": strategy, "budget__calls": 170}
        (baseline,) = [
            one for one in train(tmp_path / strategy, **settings).of(Checkpoint) if one.kind == "baseline"
        ]
        share = baseline.state.gate_share
        assert (share and share.calls) == calls
