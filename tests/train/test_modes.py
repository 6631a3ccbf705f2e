"""The whole loop on the simulated world in every mode: it trains, records what it did, and nothing unmeasured
gets a score.
"""

from __future__ import annotations

import json

import pytest

from _loopback import LoopbackProvider, world_answers
from skillopt import run as api
from skillopt.config.load import load
from skillopt.events import EpochEnded, Judged, StageClosed, Updated
from skillopt.run import open_run, prepare
from skillopt.testing import WorldRules
from train._world import SMALL, train

ALL_ACCEPTED = {"accept", "accept_new_best"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rewrite_from_suggestions", "full_rewrite_minibatch"])
def test_rewriting_trains_and_protected_parts_survive_every_step(tmp_path, mode):
    run = train(tmp_path / "run", optimizer__skill_update_mode=mode)
    assert run.result.test is not None and run.result.test.delta > 0.1
    checkpoints = [event for event in run.events if event.type == "checkpoint"]
    assert all(run.skill(event.state.skill).rendered.startswith("# House rules") for event in checkpoints)
    wrote = list((run.folder / "steps").glob("*/rewrite_result.json"))
    assert wrote and json.loads(wrote[0].read_text())["new_skill"]
    assert "rewrite_change_summary" in run.json("history.json")[0]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rewrite_from_suggestions", "full_rewrite_minibatch"])
def test_rewriting_trains_a_skill_from_nothing(tmp_path, mode):
    (tmp_path / "empty.md").write_text("")
    run = train(
        tmp_path / "run",
        optimizer__skill_update_mode=mode,
        env__skill_init=str(tmp_path / "empty.md"),
        train__num_epochs=2,
    )
    assert run.json("summary.json")["total_accepts"] > 0
    assert all(line.startswith("- ") for line in run.result.best_skill.splitlines() if line), (
        "rules, and nothing of a prompt"
    )


@pytest.mark.slow
def test_the_slow_update_region_survives_later_rewrites(tmp_path):
    run = train(
        tmp_path / "run",
        optimizer__skill_update_mode="rewrite_from_suggestions",
        model__target="world:noise=0,harm=0",
        train__num_epochs=4,
    )
    region = ""
    seen = 0
    for event in run.events:
        if isinstance(event, EpochEnded) and event.slow_update.action in ALL_ACCEPTED:
            region = event.slow_update.slow_update_content
        elif isinstance(event, Updated) and region:
            assert run.skill(event.skill).region("slow_update") == region
            seen += 1
    assert seen


async def test_a_step_without_a_usable_rewrite_is_skipped_under_its_own_name(tmp_path):
    world = world_answers()

    def answers(call):
        return '{"new_skill": ""}' if "/rewrite/" in (call.place or "") else world(call)

    async with LoopbackProvider(answers) as provider:
        model = f"compatible:m@{provider.base_url}"
        given = {**SMALL, "model.target": model, "model.optimizer": model, "train.num_epochs": 1}
        given["optimizer.skill_update_mode"] = "rewrite_from_suggestions"
        options = [f"{name}={value}" for name, value in given.items()]
        async with open_run(
            prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path)), tmp_path / "run"
        ) as opened:
            await api.train(opened)
    records = json.loads((tmp_path / "run/history.json").read_text())
    actions = [record["action"] for record in records]
    assert set(actions) == {"skip_no_rewrite"}
    assert {record["why"] for record in records} == {"the rewrite has no body"}
    assert json.loads((tmp_path / "run/summary.json").read_text())["total_skips"] == len(actions)


@pytest.mark.slow
def test_the_optimizer_sets_the_limit_and_its_decisions_are_kept(tmp_path):
    run = train(tmp_path / "run", optimizer__lr_control_mode="autonomous")
    records = run.json("history.json")
    assert {record["lr_control_mode"] for record in records} == {"autonomous"}
    told = [json.loads(line) for line in (run.folder / "lr_history.jsonl").read_text().splitlines()]
    assert [one["step"] for one in told] == [record["step"] for record in records]
    for record in records:
        assert (
            record["edit_states"].get("applied", 0)
            <= record["lr_decision"]["learning_rate"]
            == record["edit_budget"]
        )
        kept = json.loads((run.folder / f"steps/step_{record['step']:04d}/lr_decision.json").read_text())
        assert kept == record["lr_decision"]


@pytest.mark.slow
def test_without_control_a_step_takes_everything(tmp_path):
    run = train(tmp_path / "run", optimizer__lr_control_mode="none", gradient__minibatch_size=2)
    records = run.json("history.json")
    assert {record["edit_budget"] for record in records} == {None}
    assert all("over_limit" not in record["edit_states"] for record in records)
    assert max(record["edit_states"].get("applied", 0) for record in records) > 4


@pytest.mark.slow
def test_notes_pass_the_gate_with_their_step_and_nothing_untested_enters(tmp_path):
    run = train(
        tmp_path / "run",
        optimizer__use_skill_aware_reflection=True,
        optimizer__skill_aware_consolidate_threshold=3,
    )
    before = None
    for event in run.events:
        if event.type != "checkpoint" or event.kind != "step":
            continue
        now = run.skill(event.state.skill).region("appendix")
        if now != before:
            assert event.record.action in ALL_ACCEPTED
        before = now
    records = run.json("history.json")
    assert any(record.get("n_appendix_notes_added") for record in records)
    assert any(path.is_file() for path in (run.folder / "steps").glob("*/appendix_notes.json"))


@pytest.mark.slow
def test_an_ungated_slow_update_is_taken_and_measured_before_it_is_anybodys_score(tmp_path):
    run = train(
        tmp_path / "run",
        optimizer__slow_update_gate_with_selection=False,
        train__num_epochs=4,
        model__optimizer="world:harm=1.0",
    )
    taken = [event for event in run.of(EpochEnded) if event.slow_update.action == "force_accept"]
    assert taken
    closed = {event.id: event for event in run.of(StageClosed)}
    for event in taken:
        rows = closed[f"e{event.epoch}/end/selection"].rows
        assert len(rows) == 30 and all(row.hard is not None for row in rows)
        assert event.slow_update.selection_hard == sum(row.hard for row in rows) / 30
    checkpoints = [event for event in run.events if event.type == "checkpoint"]
    assert all(event.state.score is not None for event in checkpoints)
    assert all(event.state.best_score >= event.state.score for event in checkpoints)
    dipped = [
        event for event in checkpoints if event.kind == "epoch" and event.state.score < event.state.best_score
    ]
    assert dipped, "with a harmful rule in every slow update, one of them must have cost something"
    summary = run.json("summary.json")
    assert "without a gate" in summary["claim"] and "without a gate" in summary["gate"]
    if checkpoints[-1].state.skill != checkpoints[-1].state.best:
        assert summary["final_test_hard"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed", "changed", "unchanged"])
def test_the_slow_update_reads_the_pairs_its_policy_keeps(tmp_path, policy):
    run = train(
        tmp_path / "run",
        optimizer__longitudinal_pair_policy=policy,
        optimizer__slow_update_samples=6,
        train__num_epochs=4,
    )
    pairs = [pair for event in run.of(EpochEnded) for pair in event.pairs]
    assert pairs
    kinds = {pair.category for pair in pairs}
    changed = {"improved", "regressed"}
    assert (kinds <= changed) == (policy == "changed") and (kinds.isdisjoint(changed)) == (
        policy == "unchanged"
    )
    for event in run.of(EpochEnded):
        assert len(event.pairs) <= 6
        if event.pairs:
            kept = json.loads(
                (run.folder / f"slow_update/epoch_{event.epoch:02d}/comparison_pairs.json").read_text()
            )
            assert kept == [pair.model_dump() for pair in event.pairs]
    asked = {str(event.place) for event in run.of(StageClosed) if "/more-" in str(event.place)}
    assert bool(asked) == (policy == "changed")


@pytest.mark.slow
async def test_without_a_pair_to_learn_from_nobody_is_asked_for_guidance(tmp_path):
    world, asked = world_answers(WorldRules(noise=0, harm=0)), []

    def answers(call):
        stage = (call.place or "").rsplit("/", 3)[1]
        asked.append(stage)
        if stage == "analyst_failure":
            return json.dumps(
                {"patch": {"edits": [{"op": "append", "content": f"- Keep the desk tidy, {call.place}."}]}}
            )
        return world(call)

    async with LoopbackProvider(answers) as provider:
        model = f"compatible:m@{provider.base_url}"
        given = {**SMALL, "model.target": model, "model.optimizer": model, "evaluation.use_gate": "false"}
        given |= {
            "optimizer.longitudinal_pair_policy": "changed",
            "env.train_cases": 8,
            "env.val_cases": 6,
            "train.batch_size": 8,
        }
        events = []
        options = [f"{name}={value}" for name, value in given.items()]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run", sinks=[events.append]) as opened:
            await api.train(opened)
    ended = [event for event in events if isinstance(event, EpochEnded)]
    assert [event.slow_update.action for event in ended] == [
        "skip_first_epoch",
        "no_content",
        "no_content",
    ]
    assert (
        "longitudinal_pair_policy" in ended[1].slow_update.why and ended[1].meta_skill.action == "no_content"
    )
    assert not {"slow_update", "meta_skill"} & set(asked)


def bundle_rows(run, step):
    """The val rows that decided on the whole bundle."""
    return next(event.rows_used for event in run.of(Judged) if str(event.place).endswith(f"/s{step}"))


@pytest.mark.slow
def test_a_rejected_bundle_is_tried_again_as_its_halves_and_the_cost_is_shown(tmp_path):
    run = train(tmp_path / "run", model__optimizer="world:harm=0.9,seed=6", train__num_epochs=6)
    saved = [record for record in run.json("history.json") if len(record["candidates"]) > 1]
    assert saved
    kept = [record for record in saved if record["action"] in ALL_ACCEPTED]
    assert kept, "one half of some bundle should be good"
    for record in saved:
        bundle, *halves = record["candidates"]
        assert (
            1 <= len(halves) <= 2
            and [one["id"] for one in record["candidates"]] == [0, 1, 2][: 1 + len(halves)]
        )
        assert record["selection_rows_all"] == bundle["rows"] + sum(half["rows"] for half in halves)
        assert [half["action"] for half in halves[:-1]] == ["reject"] * (len(halves) - 1)
        assert (halves[-1]["action"] == "accept") == (record["action"] in ALL_ACCEPTED)
        in_it = (
            len(halves[-1]["edits"]) if halves[-1]["action"] == "accept" else record["edit_states"]["applied"]
        )
        assert record["edit_apply_summary"]["applied"] == len(record["support_counts"]) == in_it
        applied = record["edit_states"]["applied"]
        assert bundle_rows(run, record["step"]) * 2 < 30
        assert applied >= 2 and sum(len(half["edits"]) for half in halves) <= applied
        step = run.folder / f"steps/step_{record['step']:04d}"
        assert (step / "candidate_1/candidate_skill.md").is_file()
        assert (step / "candidate_1/verdict.json").is_file()
    without = train(
        tmp_path / "without",
        model__optimizer="world:harm=0.9,seed=6",
        train__num_epochs=6,
        optimizer__salvage=False,
    )
    assert all(len(record["candidates"]) == 1 for record in without.json("history.json"))
    assert not any(event.place.candidate for event in without.of(Judged))
