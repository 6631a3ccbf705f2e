"""What a step leaves when it closes: the next state, its record, and the memory for later analysts; and the
log that keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from skillopt.errors import BudgetSpent, UnusableReplies
from skillopt.evaluation.stage import logged_row
from skillopt.events import Checkpoint, Event, HandedOver, Notice, Updated
from skillopt.events.place import Place
from skillopt.events.records import CandidateRecord, EditCounts, StepRecord
from skillopt.events.state import MemoryEntry, State
from skillopt.gate.gate import STAGE, Gate, Verdict
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update
from skillopt.skill.edits import Outcome
from skillopt.skill.store import SkillStore
from skillopt.tasks.rollout import Invalid, Scored, means
from skillopt.train.plan import Batch
from skillopt.train.strategies.port import StepFindings, edits_for_memory

_WORDS = {
    "accept": "accepted",
    "accept_new_best": "accepted",
    "force_accept": "taken without a gate",
    "reject": "rejected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedStep:
    """The state after a step, its record, and what later analysts read about it."""

    state: State
    record: StepRecord
    remembered: tuple[MemoryEntry, ...]


def after_verdict(
    state: State, candidate: str, verdict: Verdict, *, step: int, origin: str, forced: bool = False
) -> tuple[State, str]:
    """The state after a verdict on the skill of that digest, and the public word for what happened."""
    may_move = verdict.action == "accept" or (
        forced and verdict.action != "unchanged" and not verdict.refused
    )
    if candidate == state.skill or not may_move:
        return state, verdict.action
    score = None if verdict.candidate is None else verdict.candidate.score
    moved = state.replace(skill=candidate, score=score, origin=origin)
    is_best = score is not None and score > state.best_score
    if is_best:
        moved = moved.replace(best=candidate, best_score=score, best_step=step, best_origin=origin)
    if forced:
        return moved, "force_accept"
    return moved, "accept_new_best" if is_best else "accept"


def baseline_notices(lost: Sequence[str], metric: str) -> Iterator[Notice]:
    """What the baseline settled for the whole run."""
    if lost:
        left_out = f"Left out of the gate, not measurable at baseline: {', '.join(lost)}"
        yield Notice(text=f"{left_out} ('skillopt runs explain RUN {lost[0]}' says why)", level="warning")
    if metric == "soft":
        soft = "The gate reads the soft score: the scorer gives partial credit, or gate_metric says so."
        yield Notice(text=soft)


def updated_event(place: Place, update: Update, skill: str, ended: Sequence[Outcome] = ()) -> Updated:
    """The event of a candidate. `ended` are the proposals of the step that came to an end before it."""
    return Updated(
        id=str(place.at("update")),
        place=place,
        digest=update.document.digest,
        skill=skill,
        outcomes=tuple(ended),
        rewrite=update.rewrite,
        notes=None if update.appendix is None else list(update.appendix.notes),
    )


def lost_selection(reflection: Reflection, limit: int) -> Selection:
    """Stands for the selection of a step that is lost: all its proposals end over the limit."""
    why = "the step is inconclusive, its limit is 0"
    proposed = [edit for minibatch in reflection.minibatches for edit in minibatch.edits]
    ended = tuple(Outcome(edit=edit, state="over_limit", reason=why) for edit in proposed)
    return Selection(ended=ended, limit=limit)


async def judge_unfinished(
    findings: StepFindings,
    state: State,
    judge: Callable[..., Awaitable[Verdict]],
    skills: SkillStore,
) -> HandedOver | None:
    """What a step that the budget ended has found, if the gate accepts it and is paid for."""
    found, step = findings.unfinished(), findings.step
    if found is None or step.place.step <= state.step:  # that step is closed
        return None
    update, policy = found
    try:  # the step emits its own verdicts when it is taken up again
        verdict = await judge(step.at(step.place, holds=True), state, update.document, policy=policy)
    except BudgetSpent:
        return None
    measured = verdict.candidate
    if verdict.action != "accept" or measured is None or measured.score <= state.best_score:
        return None
    return HandedOver(
        place=step.place,
        skill=skills.keep(update.document),
        score=measured.score,
        incumbent=state.best_score,
        rows=[logged_row(row) for row in verdict.rows],
        edits=[edit.id for edit in update.applied],
        why=verdict.why,
    )


def unusable_replies(reflection: Reflection) -> UnusableReplies:
    """Why a run stops whose analysts were unreadable twice in a row."""
    causes = "; ".join(reflection.troubles())
    return UnusableReplies(
        "Two steps in a row lost most of their reflections: the optimizer's replies cannot be read"
        f" ({causes}). Both steps are open again: run the same command to ask once more. If it stays"
        " so, start a run with another optimizer model or a larger output cap in a new folder; with"
        " cache.path set to this run.db its rollouts are not paid again."
    )


def close_step(
    findings: StepFindings, batch: Batch, *, gate: Gate, control: str, hide: Callable[[str], str] = str
) -> ClosedStep:
    """Close a step on the last candidate that was accepted, else on the first.

    `control` is the mode of the edit limit; `hide` removes what later analysts may not read from a text.
    """
    step, state, tried = findings.step, findings.state, findings.tried
    reflection, selection = findings.reflection, findings.selection
    update, verdict = findings.taken.update, findings.taken.verdict
    outcomes = (*selection.ended, *tried[0].update.outcomes)
    digest, origin = update.document.text_digest, f"step_{batch.step:04d}"
    after, action = after_verdict(
        state, digest, verdict, step=batch.step, origin=origin, forced=not gate.is_on
    )
    why = verdict.why
    if action == "unchanged" and update.failed:
        action = "skip_no_rewrite"
        why = (update.rewrite and update.rewrite.problem) or why
    elif action == "unchanged" and not outcomes:
        action = "skip_no_patches"
    remembered = findings.memories
    if remembered is None:
        remembered = _bundle_memories(findings, batch.step, action, hide)
    settled = tuple(dict.fromkeys((*state.settled, *findings.settled)))
    after = after.replace(step=batch.step, settled=settled, reopen=None).remember(*remembered)
    judged = [row for trial in tried for row in trial.verdict.rows]
    for stage, rows in (("rollout", reflection.rollouts), (STAGE, judged)):
        for row in rows:
            if isinstance(row, Scored):
                step.tokens.add(stage, row.trajectory.calls, row.trajectory.usage)
    record = StepRecord(
        step=batch.step,
        epoch=batch.epoch,
        step_in_epoch=batch.step_in_epoch,
        edit_budget=selection.limit,
        lr_control_mode=control,
        lr_decision=selection.decision,
        timing={f"{name}_s": round(seconds, 3) for name, seconds in step.timing.items()},
        tokens=step.tokens.as_record(),
        **_about_rollouts(reflection),
        n_edits_merged=selection.offered,
        n_edits_ranked=len(selection.patch),
        **_about_edits(update, outcomes),
        **_about_notes(update, reflection),
        **_about_selection(verdict),
        selection_rows_all=len(judged),
        gate_metric=gate.metric,
        why=why,
        verified=verdict.verified,
        candidates=[
            CandidateRecord(
                id=number,
                edits=[edit.id for edit in one.update.applied],
                action=one.verdict.action,
                why=one.verdict.why,
                rows=len(one.verdict.rows),
            )
            for number, one in enumerate(tried)
        ],
        action=action,
        current_score=after.score,
        best_score=after.best_score,
        best_step=after.best_step,
        current_origin=after.origin,
        best_origin=after.best_origin,
        skill_len=len((step.skill if after.skill == state.skill else update.document).rendered),
        wall_time_s=round(sum(step.timing.values()), 3),
    )
    return ClosedStep(state=after, record=record, remembered=remembered)


def _bundle_memories(
    findings: StepFindings, number: int, action: str, hide: Callable[[str], str]
) -> tuple[MemoryEntry, ...]:
    """Memory of the bundle and its verdict, and of its rejected edits where only a part was accepted."""
    if action not in _WORDS:
        return ()
    chosen, bundle = findings.taken, findings.tried[0]
    entry = MemoryEntry(
        step=number,
        action=_WORDS[action],
        why=chosen.verdict.why,
        edits=edits_for_memory(chosen.update.applied, hide),
        patterns=tuple(findings.reflection.patterns()[:5]),
    )
    if chosen is bundle:
        return (entry,)
    kept = {edit.id for edit in chosen.update.applied}
    rest = MemoryEntry(
        step=number,
        action="rejected",
        why="together with the edits that were then accepted alone, it was not better",
        edits=edits_for_memory([edit for edit in bundle.update.applied if edit.id not in kept], hide),
    )
    return (rest, entry)


def _about_selection(verdict: Verdict) -> dict[str, Any]:
    measured = verdict.candidate
    return {
        "selection_hard": None if measured is None else measured.hard,
        "selection_soft": None if measured is None else measured.soft,
        "selection_bound": verdict.bound,
        "selection_rows": len(verdict.rows),
        "selection_rows_total": verdict.rows_total,
        "candidate_gate_score": None if measured is None else measured.score,
    }


def _about_rollouts(reflection: Reflection) -> dict[str, Any]:
    mean = means(reflection.rollouts)
    failure, success = len(reflection.edits("failure")), len(reflection.edits("success"))
    own_failures = [
        row.trajectory.failure
        for row in reflection.rollouts
        if isinstance(row, Scored) and row.trajectory.failure
    ]
    return {
        "rollout_hard": mean.hard,
        "rollout_soft": mean.soft,
        "rollout_n": mean.n,
        "rollout_invalid": Counter(row.kind for row in reflection.rollouts if isinstance(row, Invalid)),
        "rollout_failures": Counter(own_failures),
        "n_patches": failure + success,
        "n_failure_patches": failure,
        "n_success_patches": success,
        "n_minibatches": len(reflection.minibatches),
        "n_minibatches_dropped": sum(minibatch.dropped is not None for minibatch in reflection.minibatches),
        "n_contrasted_tasks": sum(len(minibatch.contrasted) for minibatch in reflection.minibatches) or None,
    }


def _about_edits(update: Update, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    states = Counter(outcome.state for outcome in outcomes)
    kept = update.applied  # of a bundle that was saved in part, that part
    total, applied, errors = len(outcomes), len(kept), states["invalid"]
    return {
        "support_counts": [edit.evidence.get("support_count") for edit in kept],
        "candidate_hash": update.document.digest[:16],
        "candidate_skill_len": len(update.document.rendered),
        "edit_states": dict(sorted(states.items())),
        "edit_apply_summary": EditCounts(
            total=total, applied=applied, skipped=total - applied - errors, errors=errors
        ),
        "rewrite_change_summary": update.rewrite and update.rewrite.evidence.get("change_summary", ()),
    }


def _about_notes(update: Update, reflection: Reflection) -> dict[str, Any]:
    appendix, notes = update.appendix, reflection.notes()
    if not notes and appendix is None:
        return {}
    return {
        "n_execution_lapse_notes": len(notes),
        "n_appendix_notes_added": 0 if appendix is None else appendix.added,
        "n_appendix_notes_total": 0 if appendix is None else len(appendix.notes),
        "n_appendix_notes_consolidated": appendix is not None and appendix.consolidated,
    }


class Log(Protocol):
    """Keeps what is decided, in order and once, and knows what was decided before."""

    def emit(self, event: Event) -> None: ...

    def last_checkpoint(self) -> Checkpoint | None:
        """Where the run stands."""
        ...

    def checkpoint(self, id: str) -> Checkpoint:
        """An earlier checkpoint."""
        ...

    def memory(self) -> tuple[MemoryEntry, ...]:
        """What later analysts may read about the steps so far, as far back as the memory goes."""
        ...

    def handed_over(self) -> HandedOver | None:
        """What the budget's end handed over since the last checkpoint."""
        ...

    def looks(self, other_than: str) -> int:
        """How often test was looked at, not counting the look of that id."""
        ...
