"""The public summary of a run (protocol field names)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from skillopt.evaluation.significance import significance
from skillopt.events.records import StepRecord
from skillopt.gate.gate import Gate, Measured
from skillopt.tasks.rollout import Means
from skillopt.train.claim import TrainingEnd


def epoch_stats(history: Sequence[StepRecord]) -> list[dict[str, Any]]:
    """Accepts, rejects and skips per epoch."""
    stats: dict[int, dict[str, Any]] = {}
    for record in history:
        row = stats.setdefault(
            record.epoch, {"epoch": record.epoch, "steps": 0, "accepts": 0, "rejects": 0, "skips": 0}
        )
        row["steps"] += 1
        row[_group(record.action)] += 1
        row["best_score_at_epoch_end"] = record.best_score
        row["current_score_at_epoch_end"] = record.current_score
    return list(stats.values())


def summary(
    end: TrainingEnd,
    history: Sequence[StepRecord],
    *,
    about: Mapping[str, Any],
    measured: Mapping[str, Measured | None],
    gate: Gate,
    ungated: str,
    spending: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """`summary.json`. `about` says what is known of the run as a whole. Scores that were not measured are
    null: `final` is the current skill, where it was measured in full.
    """
    state, groups = end.state, Counter(_group(record.action) for record in history)
    nothing = Means(hard=None, soft=None, n=0)
    ended = {"is_changed": state.best != state.seed, "is_over": not end.ended_early}
    test = {name: end.report.scores.get(name, nothing) for name in ("seed", "best", "final")}
    val = {name: nothing if one is None else one for name, one in measured.items()}
    return {
        "version": 1,
        **about,
        "significance": significance(*end.report.gain_and_p, **ended),
        "verified": gate.verified,
        "gate": ungated or "Every change passed the gate.",
        "gate_metric": gate.metric,
        "baseline_selection_hard": val["seed"].hard,
        "baseline_selection_soft": val["seed"].soft,
        "baseline_gate_score": state.baseline_score,
        "best_selection_hard": val["best"].hard,
        "best_selection_soft": val["best"].soft,
        "best_gate_score": state.best_score,
        "final_selection_hard": val["final"].hard,
        "final_selection_soft": val["final"].soft,
        "best_step": state.best_step,
        "current_origin": state.origin,
        "best_origin": state.best_origin,
        "val_tasks_left_out": list(state.left_out),
        "total_steps": len(history),
        "total_accepts": groups["accepts"],
        "total_rejects": groups["rejects"],
        "total_skips": groups["skips"],
        "epoch_stats": epoch_stats(history),
        "baseline_test_hard": test["seed"].hard,
        "baseline_test_soft": test["seed"].soft,
        "test_hard": test["best"].hard,
        "test_soft": test["best"].soft,
        "final_test_hard": test["final"].hard,
        "final_test_soft": test["final"].soft,
        "test_delta_hard": _difference(test["seed"].hard, test["best"].hard),
        "final_test_delta_hard": _difference(test["seed"].hard, test["final"].hard),
        "test": asdict(end.report),
        "spending": dict(spending),
        "token_summary": dict(spending["stages"]),
        "total_wall_time_s": round(seconds, 3),
    }


def _group(action: str) -> str:
    if action in ("accept", "accept_new_best", "force_accept"):
        return "accepts"
    return "rejects" if action == "reject" else "skips"


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
