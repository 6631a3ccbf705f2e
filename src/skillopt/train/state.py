"""How a verdict moves the state of a run, and what a run ends with."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.events.state import State
from skillopt.gate.gate import Verdict
from skillopt.train.claim import TestReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEnd:
    """What training ended with. Where it ended before its plan did, `stopped` says why no further step would
    have helped, and `ended_early` that the budget was spent.
    """

    state: State
    report: TestReport
    stopped: str = ""
    ended_early: str = ""


def adopt(
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
