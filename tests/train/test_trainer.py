"""The loop on the simulated world: what is recorded, what is kept, what is skipped."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from skillopt.events import EpochEnded, Judged, RunStarted, StageClosed, TestMeasured, Updated
from skillopt.models.world.rules import HARMFUL, needs_of
from train._world import Trained, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Trained:
    return train(tmp_path_factory.mktemp("world") / "run")


@pytest.mark.slow
def test_the_public_files_are_there(trained):
    """With which fields: tests/claims/protocol/test_public_reader.py."""
    assert len(trained.json("history.json")) == 6
    state = trained.json("runtime_state.json")
    assert state["last_completed_step"] == 6
    assert (trained.folder / state["current_skill_path"]).is_file()
    assert (trained.folder / "best_skill.md").read_text() == trained.result.best_skill
    assert (trained.folder / "skills/skill_v0000.md").is_file()
    assert {path.name for path in (trained.folder / "steps").iterdir()} == {
        f"step_{number:04d}" for number in range(1, 7)
    }
    for name in (
        "rollout/results.jsonl",
        "candidate_skill.md",
        "edit_apply_report.json",
        "merged_patch.json",
        "step_record.json",
    ):
        assert (trained.folder / "steps/step_0001" / name).is_file(), name
    assert trained.json("settings.json")["env"]["name"] == "world"


def test_it_gets_better_and_says_that_it_was_simulated(trained):
    test = trained.result.test
    assert test is not None and test.delta > 0.2 and test.p < 0.05
    assert trained.result.claim.startswith("Simulated: The trained skill is better")
    assert trained.of(RunStarted)[0].simulated
    assert trained.json("summary.json")["simulated"] is True


def test_every_proposed_edit_ends_in_exactly_one_state(trained):
    """Proposed: every edit in an analyst reply (after the limit), a merge reply or a repair reply - counted
    from the raw replies.
    """
    limit = 4
    proposed: Counter[str] = Counter()
    for stage, place, text in trained.replies():
        step = re.match(r"e\d+/s\d+", place)
        if step is None:
            continue
        if stage.startswith("analyst"):
            proposed[step[0]] += len(json.loads(text)["patch"]["edits"][:limit])
        elif stage in ("merge", "repair"):
            proposed[step[0]] += len(json.loads(text)["edits"])
    ended = {
        str(event.place): Counter(one.state for one in event.outcomes)
        for event in trained.of(Updated)
        if not event.place.candidate
    }
    assert {place: sum(states.values()) for place, states in ended.items()} == dict(proposed)
    ids = [one.id for event in trained.of(Updated) for one in event.outcomes]
    assert len(ids) == len(set(ids))
    assert sum((states for states in ended.values()), Counter())["applied"] > 5


def test_no_step_applies_more_edits_than_the_schedule_allows(trained):
    for record in trained.json("history.json"):
        assert record["edit_states"].get("applied", 0) <= record["edit_budget"]
    assert [record["edit_budget"] for record in trained.json("history.json")] == [4, 4, 3, 2, 2, 2]


def test_tokens_of_a_step_are_the_usage_of_its_replies(trained):
    for record in trained.json("history.json"):
        assert record["tokens"]["rollout"]["calls"] == record["rollout_n"] == 20
        assert record["tokens"].get("selection", {"calls": 0})["calls"] == record["selection_rows_all"]
        assert record["tokens"]["analyst"]["calls"] == record["n_minibatches"]


def test_scores_only_change_with_an_accept_and_a_reject_has_a_bound_but_no_score(trained):
    before = trained.json("summary.json")["baseline_gate_score"]
    for record in trained.json("history.json"):
        if record["action"] == "reject":
            assert record["candidate_gate_score"] is None
            assert record["selection_bound"] <= before
        if not record["action"].startswith("accept"):
            assert record["current_score"] == before
        else:
            assert record["current_score"] == record["candidate_gate_score"] > before
        before = record["current_score"]


def test_the_rows_of_a_verdict_are_exactly_those_that_decided(trained):
    rows = {str(event.place): event.rows for event in trained.of(StageClosed) if event.stage == "selection"}
    for verdict in trained.of(Judged):
        if verdict.action != "unchanged":
            assert len(rows[str(verdict.place)]) == verdict.rows_used


def test_test_is_opened_once_and_last(trained):
    (opened,) = trained.of(TestMeasured)
    assert opened.look == 1
    after = trained.events[trained.events.index(opened) :]
    assert not any(isinstance(event, Judged) for event in after)


def test_the_slow_update_is_skipped_where_an_epoch_changed_nothing_and_asked_where_it_did(trained):
    ended = {event.epoch: event for event in trained.of(EpochEnded)}
    assert ended[1].slow_update.action == "skip_first_epoch"
    changed = {
        1 + (record["step"] - 1) // 2
        for record in trained.json("history.json")
        if record["action"].startswith("accept")
    }
    for epoch in (2, 3):
        asked = [
            place
            for stage, place, _ in trained.replies()
            if stage == "slow_update" and place.startswith(f"e{epoch}/")
        ]
        assert bool(asked) == (epoch in changed)
    assert not [
        place for stage, place, _ in trained.replies() if stage == "meta_skill" and place.startswith("e3/")
    ]


@pytest.mark.slow
def test_with_the_gate_off_everything_is_taken_and_every_report_says_so(tmp_path):
    loose = train(tmp_path / "run", evaluation__use_gate=False)
    history = loose.json("history.json")
    assert {record["action"] for record in history} <= {"force_accept", "unchanged", "skip_no_patches"}
    summary = loose.json("summary.json")
    assert "The gate was off" in summary["gate"]
    assert summary["final_test_hard"] is not None
    scores = [event.candidate for event in loose.of(Judged) if event.candidate is not None]
    assert summary["best_gate_score"] == max([summary["baseline_gate_score"], *scores])


def test_four_val_tasks_are_drawn_six_times_and_marked_unverified(tmp_path):
    few = train(tmp_path / "run", env__val_cases=4)
    assert {event.rows_total for event in few.of(Judged)} == {24}
    assert not any(event.verified for event in few.of(Judged))
    assert "unverified" in few.result.claim
    assert few.json("summary.json")["verified"] is False
    assert all(record["verified"] is False for record in few.json("history.json"))


def test_a_run_with_no_test_split_claims_nothing(tmp_path):
    blind = train(tmp_path / "run", evaluation__eval_test=False, train__num_epochs=1)
    assert blind.result.test is None
    assert "not measured" in blind.result.claim
    assert not blind.of(TestMeasured)


def test_harmful_rules_do_not_pile_up_behind_the_gate(trained):
    assert sum(rule in trained.result.best_skill for rule in HARMFUL) <= 1


def test_predictions_are_written_on_request_only(trained, tmp_path):
    assert not list(trained.folder.rglob("predictions"))
    told = train(tmp_path / "run", output__predictions=True, train__num_epochs=1)
    conversations = list((told.folder / "steps/step_0001/rollout/predictions").rglob("conversation.json"))
    assert len(conversations) == 20


@pytest.mark.slow
def test_a_shared_cache_pays_for_nothing_twice(tmp_path):
    first = train(tmp_path / "one", cache__path="shared.db", train__num_epochs=1)
    second = train(tmp_path / "two", cache__path="shared.db", train__num_epochs=1)
    assert second.result.best_skill == first.result.best_skill
    stages = second.json("summary.json")["token_summary"]
    assert not {"rollout", "selection", "test"} & set(stages)
    assert stages["analyst_failure"]["calls"] > 0


def test_a_run_without_headroom_stops_cheaply_and_says_so(tmp_path):
    """One val case that needs no rule: the seed is perfect, so nothing is trained and the claim is about the
    seed.
    """
    easy = train(
        tmp_path / "run",
        model__target="world:noise=0",
        env__val_cases=1,
        env__world_seed=_seed_with_an_easy_case(),
    )
    assert easy.json("history.json") == []
    assert "no headroom" in easy.json("summary.json")["stopped_because"]
    assert "rollout" not in easy.json("summary.json")["token_summary"]
    assert "no better skill was found" in easy.result.claim


def _seed_with_an_easy_case() -> int:
    return next(seed for seed in range(100) if not needs_of(f"W{seed:02d}3000"))


def test_after_a_perfect_score_no_further_rollout_is_paid(tmp_path):
    quiet = {
        "model__target": "world:noise=0",
        "model__optimizer": "world:harm=0",
        "optimizer__use_slow_update": False,
    }
    long = train(tmp_path / "run", **quiet, env__val_cases=8, evaluation__repeats=1, train__num_epochs=8)
    history = long.json("history.json")
    assert history[-1]["current_score"] == 1.0
    assert all(record["current_score"] < 1.0 for record in history[:-1])
    assert f"after step {len(history)}" in long.json("summary.json")["stopped_because"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_perfect_score_at_the_end_of_an_epoch_pays_for_no_look_back(tmp_path, seed):
    """With one step an epoch every step is the last of its epoch."""
    quiet = {
        "model__target": "world:noise=0",
        "model__optimizer": "world:harm=0",
        "env__world_seed": seed,
        "train__batch_size": 40,
    }
    run = train(tmp_path / "run", **quiet, env__val_cases=8, evaluation__repeats=1, train__num_epochs=12)
    history = run.json("history.json")
    assert history[-1]["current_score"] == 1.0 and len(history) < 12
    places = [str(event.place) for event in run.of(StageClosed)]
    assert places[-1].startswith(f"e{len(history)}/s"), (
        "the step that reached it is the last that was paid for"
    )


def test_a_policy_that_can_accept_nothing_on_so_few_tasks_stops_before_the_first_step(tmp_path):
    run = train(tmp_path / "run", gate__policy="paired", env__val_cases=3, train__num_epochs=2)
    assert run.json("history.json") == []
    assert "gate.policy paired: could be an accident: p >= " in run.json("summary.json")["stopped_because"]
    assert not {"rollout", "analyst_failure"} & set(run.json("summary.json")["token_summary"])


def test_patience_ends_a_run_that_gets_nowhere(tmp_path):
    stuck = train(
        tmp_path / "run",
        model__optimizer="world:harm=1",
        train__patience=2,
        train__num_epochs=8,
        optimizer__learning_rate=1,
    )
    history = stuck.json("history.json")
    waited = len(history) - max(
        (record["step"] for record in history if record["action"].startswith("accept")), default=0
    )
    assert waited == 2
    assert "train.patience" in stuck.json("summary.json")["stopped_because"]
    again = train(
        tmp_path / "run",
        model__optimizer="world:harm=1",
        train__patience=2,
        train__num_epochs=8,
        optimizer__learning_rate=1,
    )
    assert again.json("history.json") == history


def test_the_public_files_hold_what_the_optimizer_said_and_figures_by_task_type(trained):
    kinds = trained.json("test_eval/summary.json")["task_types"]
    assert sum(one["total"] for one in kinds.values()) == 60 and len(kinds) > 3
    mean = sum(one["total"] * one["hard"] for one in kinds.values()) / 60
    assert mean == pytest.approx(trained.json("summary.json")["test_hard"])
    digest = trained.json("steps/step_0001/trajectory_digest.json")
    assert digest["n_fail"] <= digest["n_total"] == 20 and digest["failure_patterns"][0]["task_ids"]
    ranked = [
        json.loads(path.read_text())
        for path in sorted((trained.folder / "steps").glob("*/ranked_edits.json"))
    ]
    assert any(one["ranking_details"] for one in ranked)
    assert all((one["ranking_details"] is not None) == one["ranked"] for one in ranked)
    slow = trained.json("slow_update/epoch_02/slow_result.json")
    assert {"reasoning", "prev_hard", "curr_hard"} <= set(slow)
    summary = trained.json("summary.json")
    assert summary["final_selection_hard"] == trained.json("history.json")[-1]["current_score"]
    assert summary["config"]["env"] == "world"
