"""Keeps the books of one step: how long each stage took, what became of every edit, and the public record of
it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from skillopt.events import Updated
from skillopt.gate.gate import STAGE, Gate, Verdict
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update
from skillopt.skill.document import Document
from skillopt.skill.edits import Outcome, Proposal
from skillopt.tasks.rollout import Invalid, Scored, means
from skillopt.train.plan import Batch
from skillopt.train.state import State

T = TypeVar("T")


class StepBook:
    """Told of a step as it happens; closes with the state after it and its record."""

    def __init__(self, batch: Batch, clock: Callable[[], float], hide: Callable[[str], str] = str) -> None:
        """`hide` takes out of a text what later analysts may not read."""
        self._batch = batch
        self._hide = hide
        self._clock = clock
        self._timing: dict[str, float] = {}
        self._selection: Selection | None = None
        self._update: Update | None = None
        """The candidate the verdict is about: the bundle, or the half of it that was accepted."""
        self._bundle: Update | None = None
        self._outcomes: tuple[Outcome, ...] = ()
        self._halves: list[tuple[Update, Verdict]] = []
        self._rejected: Verdict | None = None
        """The bundle's verdict, once its halves are tried."""

    @property
    def place(self) -> str:
        """The step's place in the run."""
        return self._batch.place

    async def note(self, stage: str, work: Awaitable[T]) -> T:
        """Wait for a stage and write down how long it took."""
        since = self._clock()
        result = await work
        self._timing[stage] = self._clock() - since
        return result

    def updated(self, selection: Selection, update: Update) -> Updated:
        """The candidate, and the one state in which every proposal ended."""
        self._selection, self._update, self._bundle = selection, update, update
        self._outcomes = (*selection.ended, *update.outcomes)
        return _event(update, self.place, self._outcomes)

    def halved(self, half: Update, place: str, bundle: Verdict) -> Updated:
        """Half of a candidate that was rejected, on its own; what became of every proposal was said with the
        whole.
        """
        self._rejected = bundle
        return _event(half, place, ())

    def tried(self, half: Update, verdict: Verdict) -> bool:
        """Note a half and its verdict; True when it is the one to keep."""
        self._halves.append((half, verdict))
        if verdict.action == "accept":
            self._update = half
        return verdict.action == "accept"

    def close(
        self, state: State, reflection: Reflection, verdict: Verdict, gate: Gate, optimizer: Optimizer
    ) -> tuple[State, dict[str, Any]]:
        """The state after the verdict, and the step's record. A step that was lost has no candidate: its
        proposals end over the limit.
        """
        batch, update = self._batch, self._update
        if update is None:
            proposed = [edit for one in reflection.minibatches for edit in one.edits]
            why = "the step is inconclusive, its limit is 0"
            self._outcomes = tuple(Outcome(edit=edit, state="over_limit", reason=why) for edit in proposed)
            candidate, after = state.skill, state
            action: str = verdict.action
        else:
            candidate, origin = update.document, f"step_{batch.step:04d}"
            after, action = state.adopt(
                candidate, verdict, step=batch.step, origin=origin, forced=not gate.is_on
            )
        word = self._word(action)
        for entry in self._memories(word, verdict, reflection):
            after = after.remember(entry)
        after = replace(after, step=batch.step, reopen=None)
        tally = optimizer.tally(batch.place)
        judged = [row for one in self._verdicts(verdict) for row in one.rows]
        for stage, rows in (("rollout", reflection.rollouts), (STAGE, judged)):
            for row in rows:
                if isinstance(row, Scored):
                    tally.add(stage, row.trajectory.calls, row.trajectory.usage)
        record = {
            **self._about(batch, optimizer),
            "timing": {f"{name}_s": round(seconds, 3) for name, seconds in self._timing.items()},
            "tokens": tally.as_json(),
            **_about_rollouts(reflection),
            **self._about_edits(candidate),
            **self._about_notes(reflection),
            **_about_verdict(verdict, gate),
            "why": self._why(word, verdict),
            "selection_rows_all": len(judged),
            **self._about_salvage(),
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

    def _word(self, action: str) -> str:
        """The public word for what the step came to."""
        if action != "unchanged":
            return action
        if self._update is not None and self._update.failed:
            return "skip_no_rewrite"
        return action if self._outcomes else "skip_no_patches"

    def _why(self, word: str, verdict: Verdict) -> str:
        """The verdict in words; where there is no rewrite to judge, why there is none."""
        if word != "skip_no_rewrite" or self._update is None or self._update.rewrite is None:
            return verdict.why
        return str(self._update.rewrite.get("problem", verdict.why))

    def _verdicts(self, last: Verdict) -> list[Verdict]:
        """Every verdict of the step."""
        return [last if self._rejected is None else self._rejected, *(verdict for _, verdict in self._halves)]

    def _memories(self, word: str, verdict: Verdict, reflection: Reflection) -> list[dict[str, Any]]:
        """What later analysts are told of this step; of a bundle that was saved in part, also which part was
        not.
        """
        if (
            word not in ("accept", "accept_new_best", "force_accept", "reject")
            or self._update is None
            or self._bundle is None
        ):
            return []
        said = {"reject": "rejected", "force_accept": "taken without a gate"}.get(word, "accepted")
        about = {"step": self._batch.step, "patterns": reflection.patterns()[:5]}
        entries = [
            {
                **about,
                "action": said,
                "why": verdict.why,
                "edits": _essentials(self._update.applied, self._hide),
            }
        ]
        if self._update is not self._bundle:
            kept = {edit.id for edit in self._update.applied}
            rest = [edit for edit in self._bundle.applied if edit.id not in kept]
            why = "together with the edits that were then accepted alone, it was not better"
            entries.insert(
                0,
                {
                    "step": self._batch.step,
                    "action": "rejected",
                    "why": why,
                    "edits": _essentials(rest, self._hide),
                },
            )
        return entries

    def _about(self, batch: Batch, optimizer: Optimizer) -> dict[str, Any]:
        limit = batch.limit if self._selection is None else self._selection.limit
        decision = None if self._selection is None else self._selection.decision
        about = {
            "step": batch.step,
            "epoch": batch.epoch,
            "step_in_epoch": batch.step_in_epoch,
            "edit_budget": limit,
            "lr_control_mode": optimizer.control,
        }
        return about if decision is None else {**about, "lr_decision": dict(decision)}

    def _about_edits(self, candidate: Document) -> dict[str, Any]:
        states = Counter(outcome.state for outcome in self._outcomes)
        kept = (
            () if self._update is None else self._update.applied
        )  # of a bundle that was saved in part, that part
        total, applied, errors = len(self._outcomes), len(kept), states["invalid"]
        selection = self._selection
        rewrite = None if self._update is None else self._update.rewrite
        about = {
            "n_edits_merged": 0 if selection is None else selection.offered,
            "n_edits_ranked": 0 if selection is None else len(selection.patch),
            "support_counts": [edit.evidence.get("support_count") for edit in kept],
            "candidate_hash": candidate.digest[:16],
            "candidate_skill_len": len(candidate.rendered),
            "edit_states": dict(sorted(states.items())),
            "edit_apply_summary": {
                "total": total,
                "applied": applied,
                "skipped": total - applied - errors,
                "errors": errors,
            },
        }
        return (
            about
            if rewrite is None
            else {**about, "rewrite_change_summary": rewrite.get("change_summary", [])}
        )

    def _about_notes(self, reflection: Reflection) -> dict[str, Any]:
        appendix = None if self._update is None else self._update.appendix
        notes = reflection.notes()
        if not notes and appendix is None:
            return {}
        return {
            "n_execution_lapse_notes": len(notes),
            "n_appendix_notes_added": 0 if appendix is None else appendix.added,
            "n_appendix_notes_total": 0 if appendix is None else len(appendix.notes),
            "n_appendix_notes_consolidated": appendix is not None and appendix.consolidated,
        }

    def _about_salvage(self) -> dict[str, Any]:
        if not self._halves:
            return {}
        halves = [
            {
                "edits": [edit.id for edit in half.applied],
                "action": verdict.action,
                "why": verdict.why,
                "rows": len(verdict.rows),
            }
            for half, verdict in self._halves
        ]
        return {"salvage": {"halves": halves, "rows": sum(one["rows"] for one in halves)}}


def _event(update: Update, place: str, outcomes: tuple[Outcome, ...]) -> Updated:
    ended = [
        {"id": one.edit.id, "state": one.state, "reason": one.reason, "edit": one.edit.as_json()}
        for one in outcomes
    ]
    return Updated(
        id=f"{place}/update",
        place=place,
        candidate=update.document.digest,
        skill=update.document.text,
        outcomes=ended,
        rewrite=None if update.rewrite is None else dict(update.rewrite),
        notes=None if update.appendix is None else list(update.appendix.notes),
    )


def _essentials(proposals: Sequence[Proposal], hide: Callable[[str], str]) -> list[dict[str, Any]]:
    """Proposals as the memory keeps them: what was tried, without the evidence; of a whole skill only what it
    says has changed.
    """
    keys = ("op", "target", "content", "type", "title", "instruction", "change_summary")
    return [
        {key: _hidden(said[key], hide) for key in keys if key in said}
        for said in (proposal.as_json() for proposal in proposals)
    ]


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_hidden(one, hide) for one in value]
    return hide(value) if isinstance(value, str) else value


def _about_rollouts(reflection: Reflection) -> dict[str, Any]:
    mean = means(reflection.rollouts)
    failure, success = len(reflection.edits("failure")), len(reflection.edits("success"))
    contrasted = sum(len(one.contrasted) for one in reflection.minibatches)
    own_failures = [
        row.trajectory.failure
        for row in reflection.rollouts
        if isinstance(row, Scored) and row.trajectory.failure
    ]
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
        **({"n_contrasted_tasks": contrasted} if contrasted else {}),
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
