"""What a judge is to a scorer: it decides on criteria with evidence, or which of two answers is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Whether a criterion is met, and the words that show it; empty where something is not there."""

    met: bool
    evidence: str


class Judge(Protocol):
    """Decides what no rule can; raises `ScoringError("judge", ...)` where it cannot: never a zero."""

    async def check(self, task: Task, trajectory: Trajectory, criteria: Sequence[str]) -> tuple[Finding, ...]:
        """A finding for each criterion, in order; its evidence stands word for word in what was shown."""
        ...

    async def prefer(
        self, task: Task, trajectory: Trajectory, other: str, rubric: str
    ) -> Literal["answer", "other", "tie"]:
        """Which of two answers is better, asked in both orders; a tie where these contradict each other."""
        ...


@runtime_checkable
class ScoredByJudge(Protocol):
    """A scorer or benchmark that cannot score without a judge."""

    async def score_with(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        """Score a finished trajectory; raises what the judge raises."""
        ...
