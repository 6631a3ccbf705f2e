"""A run read by a reader that knows the published layout alone (section 3 of the protocol): every name it
asks for is there, whatever else a file holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from claims.protocol._told import LEARNING, run

CONFIG = [
    "env",
    "optimizer_model",
    "target_model",
    "num_epochs",
    "train_size",
    "batch_size",
    "accumulation",
    "seed",
    "minibatch_size",
    "merge_batch_size",
    "failure_only",
    "edit_budget",
    "min_edit_budget",
    "lr_scheduler",
    "lr_control_mode",
    "skill_update_mode",
    "use_slow_update",
    "slow_update_samples",
    "use_meta_skill",
    "use_gate",
    "gate_mixed_weight",
    "sel_env_num",
    "test_env_num",
    "eval_test",
    "steps_per_epoch",
    "batches_per_epoch",
    "samples_per_epoch",
]
RUNTIME = [
    "last_completed_step",
    "current_skill_path",
    "current_score",
    "current_origin",
    "best_skill_path",
    "best_score",
    "best_step",
    "best_origin",
]
STEP = [
    "step",
    "epoch",
    "step_in_epoch",
    "timing",
    "tokens",
    "rollout_hard",
    "rollout_soft",
    "rollout_n",
    "n_patches",
    "n_failure_patches",
    "n_success_patches",
    "n_edits_merged",
    "n_edits_ranked",
    "edit_budget",
    "lr_control_mode",
    "support_counts",
    "candidate_hash",
    "candidate_skill_len",
    "edit_apply_summary",
    "selection_hard",
    "selection_soft",
    "gate_metric",
    "candidate_gate_score",
    "action",
    "current_score",
    "best_score",
    "best_step",
    "current_origin",
    "best_origin",
    "skill_len",
    "wall_time_s",
]
SUMMARY = [
    "version",
    "config",
    "baseline_selection_hard",
    "best_selection_hard",
    "best_step",
    "current_origin",
    "best_origin",
    "total_steps",
    "total_accepts",
    "total_rejects",
    "total_skips",
    "epoch_stats",
    "baseline_test_hard",
    "baseline_test_soft",
    "test_hard",
    "test_soft",
    "test_delta_hard",
    "total_wall_time_s",
    "token_summary",
]
ROW = [
    "id",
    "question",
    "hard",
    "soft",
    "predicted_answer",
    "fail_reason",
    "agent_ok",
    "n_turns",
    "response",
    "task_type",
]


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def lacks(found: dict[str, Any], wanted: list[str]) -> set[str]:
    return set(wanted) - found.keys()


async def test_every_published_name_of_a_training_run_is_found(folder):
    await run(folder, LEARNING)
    config = read(folder / "config.json")
    assert not lacks(config, CONFIG) and not any(isinstance(value, dict) for value in config.values())
    assert (config["env"], config["train_size"], config["steps_per_epoch"]) == ("world", 16, 2)
    assert not lacks(read(folder / "runtime_state.json"), RUNTIME)
    summary = read(folder / "summary.json")
    assert not lacks(summary, SUMMARY) and summary["config"]["edit_budget"] == config["edit_budget"]
    history = read(folder / "history.json")
    assert history and not set.union(*(lacks(record, STEP) for record in history))
    assert (folder / "best_skill.md").is_file() and (folder / "skills" / "skill_v0000.md").is_file()


async def test_every_published_name_of_a_step_is_found(folder):
    await run(folder, LEARNING)
    step = folder / "steps" / "step_0001"
    patches = sorted((step / "patches").glob("minibatch_*.json"))
    assert {path.name[:14] for path in patches} >= {"minibatch_fail"}
    for path in patches:
        patch = read(path)
        assert patch["source_type"] == ("failure" if "fail" in path.name else "success")
        assert patch["batch_size"] >= 1 and all(edit["op"] for edit in patch["patch"]["edits"])
        assert "failure_summary" in patch or "success_patterns" in patch
    assert read(step / "merged_patch.json")["edits"]
    ranked = read(step / "ranked_edits.json")
    assert ranked["edits"] and "ranking_details" in ranked
    report = read(step / "edit_apply_report.json")
    assert {"op", "content", "status"} <= report[0].keys()
    assert any(one["status"] == "applied" for one in report)
    assert not lacks(read(step / "step_record.json"), STEP)
    for name in ("rollout", "selection_eval"):
        assert not set.union(*(lacks(row, ROW) for row in rows(step / name)))


async def test_rows_tell_the_question_the_answer_and_why_it_failed(folder):
    told = await run(folder, LEARNING)
    tested = rows(folder / "test_eval")
    assert len(tested) == 5 and not set.union(*(lacks(row, ROW) for row in tested))
    for row in tested:
        assert row["id"] in row["question"] and row["predicted_answer"].startswith("<answer>")
        assert row["agent_ok"] and row["n_turns"] == 1
    figures = read(folder / "test_eval" / "summary.json")
    assert figures["hard"] == sum(row["hard"] for row in tested) / 5 == told.summary["test_hard"]
