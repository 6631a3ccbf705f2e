"""Keeps the books of one step: how long each stage took, what became of every edit, and the public record of it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from skillopt.events import Updated
from skillopt.gate.gate import STAGE, Gate, Verdict
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.tally import Tally
from skillopt.skill.document import Document
from skillopt.skill.edits import Applied, Outcome
from skillopt.tasks.rollout import Invalid, Scored, means
from skillopt.train.plan import Batch
from skillopt.train.state import State

T = TypeVar("T")


class StepBook:
    """Told of a step as it happens; closes with the state after it and its record."""

    def __init__(self, batch: Batch, clock: Callable[[], float]) -> None:
        self._batch = batch
        self._clock = clock
        self._timing: dict[str, float] = {}
        self._candidate: Document | None = None
        self._outcomes: tuple[Outcome, ...] = ()
        self._merged = 0
        self._selected = 0

    async def note(self, stage: str, work: Awaitable[T]) -> T:
        """Wait for a stage and write down how long it took."""
        since = self._clock()
        result = await work
        self._timing[stage] = self._clock() - since
        return result

    def updated(self, selection: Selection, applied: Applied) -> Updated:
        """The candidate, and the one state in which every proposed edit ended."""
        self._candidate = applied.document
        self._outcomes = (*selection.ended, *applied.outcomes)
        self._merged, self._selected = selection.offered, len(selection.patch)
        place = self._batch.place
        ended = [{"id": one.edit.id, "state": one.state, "reason": one.reason, "edit": one.edit.as_json()} for one in self._outcomes]
        return Updated(id=f"{place}/update", place=place, candidate=applied.document.digest, skill=applied.document.text, outcomes=ended)

    def close(self, state: State, reflection: Reflection, verdict: Verdict, gate: Gate, tally: Tally) -> tuple[State, dict[str, Any]]:
        """The state after the verdict, and the step's record. A step that was lost has no candidate: its edits end over the limit."""
        batch = self._batch
        candidate = self._candidate
        if candidate is None:
            proposed = [edit for one in reflection.minibatches for edit in one.edits]
            why = "the step is inconclusive, its limit is 0"
            self._outcomes = tuple(Outcome(edit=edit, state="over_limit", reason=why) for edit in proposed)
            candidate, after = state.skill, state
            action: str = verdict.action
        else:
            origin = f"step_{batch.step:04d}"
            after, action = state.adopt(candidate, verdict, step=batch.step, origin=origin, forced=not gate.is_on)
        word = "skip_no_patches" if action == "unchanged" and not self._outcomes else action
        if word in ("accept", "accept_new_best", "force_accept", "reject"):
            after = after.remember(self._memory(word, verdict, reflection))
        after = replace(after, step=batch.step, reopen=None)
        for stage, rows in (("rollout", reflection.rollouts), (STAGE, verdict.rows)):
            for row in rows:
                if isinstance(row, Scored):
                    tally.add(stage, row.trajectory.calls, row.trajectory.usage)
        record = {
            **self._about(batch),
            "timing": {f"{name}_s": round(seconds, 3) for name, seconds in self._timing.items()},
            "tokens": tally.as_json(),
            **_about_rollouts(reflection),
            **self._about_edits(candidate),
            **_about_verdict(verdict, gate),
            "action": word,
            "current_score": after.score,
            "best_score": after.best_score,
            "best_step": after.best_step,
            "current_origin": after.origin,
            "best_origin": after.best_origin,
            "skill_len": len(after.skill.rendered),
            "wall_time_s": round(sum(self._timing.values()), 3),
        }
        return after, record

    def _memory(self, word: str, verdict: Verdict, reflection: Reflection) -> dict[str, Any]:
        applied = [one.edit.as_json() for one in self._outcomes if one.state == "applied"]
        edits = [{key: edit[key] for key in ("op", "target", "content") if key in edit} for edit in applied]
        said = {"reject": "rejected", "force_accept": "taken without a gate"}.get(word, "accepted")
        return {"step": self._batch.step, "action": said, "why": verdict.why, "edits": edits, "patterns": reflection.patterns()[:5]}

    def _about(self, batch: Batch) -> dict[str, Any]:
        return {
            "step": batch.step,
            "epoch": batch.epoch,
            "step_in_epoch": batch.step_in_epoch,
            "edit_budget": batch.limit,
            "lr_control_mode": "fixed",
        }

    def _about_edits(self, candidate: Document) -> dict[str, Any]:
        states = Counter(outcome.state for outcome in self._outcomes)
        total, applied, errors = len(self._outcomes), states["applied"], states["invalid"]
        return {
            "n_edits_merged": self._merged,
            "n_edits_ranked": self._selected,
            "support_counts": [one.edit.evidence.get("support_count") for one in self._outcomes if one.state == "applied"],
            "candidate_hash": candidate.digest[:16],
            "candidate_skill_len": len(candidate.rendered),
            "edit_states": dict(sorted(states.items())),
            "edit_apply_summary": {"total": total, "applied": applied, "skipped": total - applied - errors, "errors": errors},
        }


def _about_rollouts(reflection: Reflection) -> dict[str, Any]:
    mean = means(reflection.rollouts)
    failure, success = len(reflection.edits("failure")), len(reflection.edits("success"))
    own_failures = [row.trajectory.failure for row in reflection.rollouts if isinstance(row, Scored) and row.trajectory.failure]
    return {
        "rollout_hard": mean.hard,
        "rollout_soft": mean.soft,
        "rollout_n": mean.n,
        "rollout_invalid": dict(Counter(row.kind for row in reflection.rollouts if isinstance(row, Invalid))),
        "rollout_failures": dict(Counter(own_failures)),
        "n_patches": failure + success,
        "n_failure_patches": failure,
        "n_success_patches": success,
        "n_minibatches": len(reflection.minibatches),
        "n_minibatches_dropped": sum(one.dropped is not None for one in reflection.minibatches),
    }


def _about_verdict(verdict: Verdict, gate: Gate) -> dict[str, Any]:
    measured = verdict.candidate
    return {
        "selection_hard": None if measured is None else measured.hard,
        "selection_soft": None if measured is None else measured.soft,
        "selection_bound": verdict.bound,
        "selection_rows": len(verdict.rows),
        "selection_rows_total": verdict.rows_total,
        "gate_metric": gate.metric,
        "candidate_gate_score": None if measured is None else measured.score,
        "why": verdict.why,
        "verified": verdict.verified,
    }
