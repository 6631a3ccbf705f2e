"""Scores short answers by ANLS, the measure of DocVQA: how few letters differ, with nothing for answers that
are half wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import TextScorer, extract_short_answer, missed, references
from skillopt.tasks.task import Task

_RIGHT = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Anls(TextScorer):
    """Average normalised Levenshtein similarity: soft is the best over the acceptable answers, hard says that
    nothing differs.

    Case and runs of white space do not count. A similarity of `threshold` or less is none. Without tags the
    last line is the answer.
    """

    name: ClassVar[str] = "anls"
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Read a short answer and grade it."""
        return self.grade(task, extract_short_answer(trajectory.answer))

    def grade(self, task: Task, answer: str) -> Score:
        """The acceptable answer that fits best decides."""
        wanted = references(task)
        soft = max(similarity(answer, text, self.threshold) for text in wanted)
        hard = float(soft >= _RIGHT)
        return Score(hard=hard, soft=soft, feedback="" if hard else missed(answer, wanted))


def similarity(answer: str, reference: str, threshold: float = 0.5) -> float:
    """1 minus the edit distance over the longer length, and 0 unless that is above the threshold; two empty
    texts are alike.
    """
    ours, theirs = (" ".join(text.lower().split()) for text in (answer, reference))
    longer = max(len(ours), len(theirs))
    if not longer:
        return 1.0
    # a long ramble is not worth the quadratic time
    if abs(len(ours) - len(theirs)) >= (1 - threshold) * longer:
        return 0.0
    found = 1 - distance(ours, theirs) / longer
    return found if found > threshold else 0.0


def distance(one: str, other: str) -> int:
    """Levenshtein distance: letters to insert, delete or replace."""
    before = list(range(len(other) + 1))
    for row, mine in enumerate(one, start=1):
        after = [row]
        for column, theirs in enumerate(other, start=1):
            after.append(min(before[column] + 1, after[-1] + 1, before[column - 1] + (mine != theirs)))
        before = after
    return before[-1]
