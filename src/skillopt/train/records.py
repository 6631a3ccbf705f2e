"""The public records of a run: what a step, an epoch end and a whole run are reported as (protocol field names)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from skillopt.gate.gate import Gate, Verdict
from skillopt.optimizer._ask import Tally
from skillopt.optimizer.reflect import Reflection
from skillopt.skill.document import Document
from skillopt.skill.edits import Outcome
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.train.exam import Report, report_json
from skillopt.train.plan import Batch
from skillopt.train.state import State


def step_record(
    batch: Batch,
    state: State,
    *,
    reflection: Reflection,
    merged: int,
    selected: int,
    outcomes: Sequence[Outcome],
    candidate: Document,
    verdict: Verdict,
    action: str,
    gate: Gate,
    tokens: Tally,
    timing: Mapping[str, float],
) -> dict[str, Any]:
    """One line of `history.json`. `state` is the state after the step."""
    hard, soft, n = means(reflection.rollouts)
    failure, success = len(reflection.edits("failure")), len(reflection.edits("success"))
    states = Counter(outcome.state for outcome in outcomes)
    invalid = [row for row in reflection.rollouts if not isinstance(row, Scored)]
    measured = verdict.candidate
    return {
        "step": batch.step,
        "epoch": batch.epoch,
        "step_in_epoch": batch.step_in_epoch,
        "timing": {f"{name}_s": round(seconds, 3) for name, seconds in timing.items()},
        "tokens": tokens.as_json(),
        "rollout_hard": hard,
        "rollout_soft": soft,
        "rollout_n": n,
        "rollout_invalid": dict(Counter(row.kind for row in invalid)),
        "rollout_failures": dict(
            Counter(row.trajectory.failure for row in reflection.rollouts if isinstance(row, Scored) and row.trajectory.failure)
        ),
        "n_patches": failure + success,
        "n_failure_patches": failure,
        "n_success_patches": success,
        "n_minibatches": len(reflection.minibatches),
        "n_minibatches_dropped": sum(one.dropped is not None for one in reflection.minibatches),
        "n_edits_merged": merged,
        "n_edits_ranked": selected,
        "edit_budget": batch.limit,
        "lr_control_mode": "fixed",
        "support_counts": [outcome.edit.evidence.get("support_count") for outcome in outcomes if outcome.state == "applied"],
        "candidate_hash": candidate.digest[:16],
        "candidate_skill_len": len(candidate.rendered),
        "edit_states": dict(sorted(states.items())),
        "edit_apply_summary": {
            "total": len(outcomes),
            "applied": states["applied"],
            "skipped": len(outcomes) - states["applied"] - states["invalid"],
            "errors": states["invalid"],
        },
        "selection_hard": None if measured is None else measured.hard,
        "selection_soft": None if measured is None else measured.soft,
        "selection_bound": verdict.bound,
        "selection_rows": len(verdict.rows),
        "selection_rows_total": verdict.rows_total,
        "gate_metric": gate.metric,
        "candidate_gate_score": None if measured is None else measured.score,
        "action": action,
        "why": verdict.why,
        "verified": verdict.verified,
        "current_score": state.score,
        "best_score": state.best_score,
        "best_step": state.best_step,
        "current_origin": state.origin,
        "best_origin": state.best_origin,
        "skill_len": len(state.skill.rendered),
        "wall_time_s": round(sum(timing.values()), 3),
    }


def epoch_stats(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Accepts, rejects and skips per epoch."""
    stats: dict[int, dict[str, Any]] = {}
    for record in history:
        row = stats.setdefault(record["epoch"], {"epoch": record["epoch"], "steps": 0, "accepts": 0, "rejects": 0, "skips": 0})
        row["steps"] += 1
        row[_group(record["action"])] += 1
        row["best_score_at_epoch_end"] = record["best_score"]
        row["current_score_at_epoch_end"] = record["current_score"]
    return list(stats.values())


def summary(
    state: State,
    history: Sequence[Mapping[str, Any]],
    *,
    baseline: tuple[float, float],
    best: tuple[float, float],
    report: Report,
    claim: str,
    status: str,
    simulated: bool,
    verified: bool,
    gate_on: bool,
    metric: str,
    spending: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """`summary.json`. Scores that were not measured are null."""
    groups = Counter(_group(record["action"]) for record in history)
    scores = {name: dict(values) for name, values in (report.scores or {}).items()} if report.measured else {}
    c = report.comparison

    def test(name: str, metric: str) -> float | None:
        return scores.get(name, {}).get(metric)

    return {
        "version": 1,
        "status": status,
        "claim": claim,
        "simulated": simulated,
        "verified": verified,
        "gate": "on" if gate_on else "off: every candidate was taken without a gate",
        "gate_metric": metric,
        "baseline_selection_hard": baseline[0],
        "baseline_selection_soft": baseline[1],
        "baseline_gate_score": state.baseline_score,
        "best_selection_hard": best[0],
        "best_selection_soft": best[1],
        "best_gate_score": state.best_score,
        "best_step": state.best_step,
        "current_origin": state.origin,
        "best_origin": state.best_origin,
        "val_tasks_left_out": list(state.left_out),
        "total_steps": len(history),
        "total_accepts": groups["accepts"],
        "total_rejects": groups["rejects"],
        "total_skips": groups["skips"],
        "epoch_stats": epoch_stats(history),
        "baseline_test_hard": test("seed", "hard"),
        "baseline_test_soft": test("seed", "soft"),
        "test_hard": test("best", "hard"),
        "test_soft": test("best", "soft"),
        "final_test_hard": test("final", "hard"),
        "final_test_soft": test("final", "soft"),
        "test_delta_hard": None if c is None else c.delta,
        "test": report_json(report),
        "spending": dict(spending),
        "token_summary": dict(spending["stages"]),
        "total_wall_time_s": round(seconds, 3),
    }


def means(rows: Sequence[Rollout]) -> tuple[float | None, float | None, int]:
    """Hard and soft mean over scored rows, and how many there are; None where there is none."""
    scored = [row.score for row in rows if isinstance(row, Scored)]
    if not scored:
        return None, None, 0
    return sum(one.hard for one in scored) / len(scored), sum(one.soft for one in scored) / len(scored), len(scored)


def tally_rows(tally: Tally, stage: str, rows: Sequence[Rollout]) -> None:
    """Count the stored replies behind rollouts."""
    for row in rows:
        if isinstance(row, Scored):
            tally.add(stage, row.trajectory.calls, row.trajectory.usage)


def _group(action: str) -> str:
    if action in ("accept", "accept_new_best", "force_accept"):
        return "accepts"
    return "rejects" if action == "reject" else "skips"
