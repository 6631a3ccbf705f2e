"""Scores by a judge: every criterion of a rubric with evidence, or against the reference in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skillopt.errors import ScoringError
from skillopt.tasks.judge import Finding, Judge
from skillopt.tasks.protected import Protected
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import NamedScorer, clip, given_references
from skillopt.tasks.task import Task

_FITS = "The answer agrees with the reference."
_BETTER = "The better answer does what the task asks for, correctly and completely, and no more than that."


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeScorer(NamedScorer):
    """A model judges the answer.

    The criteria stand in the task's field `rubric` - one text, or a list of them - and in the option
    `rubric`, which holds for every task; a task that has only a reference is judged by whether the answer
    agrees with it. Hard when all are met, soft the share of them. With `pairs` the answer is compared with
    the reference in both orders instead: soft is 1 when it is better, 0.5 for a tie, and it passes when it is
    not worse.
    """

    name: ClassVar[str] = "judge"
    rubric: str | list[str] | None = None
    pairs: bool = False

    def check_task(self, task: Task) -> None:
        """There is something to judge by."""
        if self.pairs and not _reference(task):
            raise task.error(
                "has no reference to compare with. Give it one, or judge by a rubric, without pairs."
            )
        self.criteria(task)

    def protected(self, task: Task) -> Protected:
        """The words of the rubric, and the reference."""
        own = tuple(_texts(task.data.get("rubric"), task))
        return Protected(references=given_references(task), rubrics=own)

    def criteria(self, task: Task) -> list[str]:
        """What the answer of a task must keep."""
        if found := self._rubric(task):
            return found
        if not _reference(task):
            raise task.error("has no rubric to judge by. Give it a field 'rubric', or a reference.")
        return [_FITS]

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """There is no score without a judge."""
        raise ScoringError("judge", f"task {task.id!r} is scored by a judge, and none was given")

    async def score_with(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        """Ask the judge."""
        judged = self._compared if self.pairs else self._checked
        return await judged(judge, task, trajectory)

    async def _checked(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        criteria = self.criteria(task)
        findings = await judge.check(task, trajectory, criteria)
        return judged_score(list(zip(criteria, findings, strict=True)))

    async def _compared(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        rubric = "\n".join(f"- {text}" for text in self._rubric(task)) or _BETTER
        better = await judge.prefer(task, trajectory, _reference(task), rubric)
        soft = {"answer": 1.0, "tie": 0.5, "other": 0.0}[better]
        told = "" if soft >= 0.5 else "The reference was judged the better answer."
        return Score(hard=float(soft >= 0.5), soft=soft, feedback=told)

    def _rubric(self, task: Task) -> list[str]:
        return [*_texts(self.rubric, task), *_texts(task.data.get("rubric"), task)]


def judged_score(found: Sequence[tuple[str, Finding]]) -> Score:
    """Hard when all of these criteria are met, soft the share of them."""
    unmet = [
        f"not met: {clip(criterion)}"
        + (f" (shown by {clip(finding.evidence)!r})" if finding.evidence else "")
        for criterion, finding in found
        if not finding.met
    ]
    return Score(hard=float(not unmet), soft=1 - len(unmet) / len(found), feedback="; ".join(unmet))


def _reference(task: Task) -> str:
    """The reference to compare with: of several acceptable ones the first."""
    return next(iter(given_references(task)), "")


def _texts(value: Any, task: Task) -> list[str]:
    given = [] if value is None else [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        given = list(value)
    for text in given:
        if not isinstance(text, str) or not text.strip():
            raise task.error(f"is unclear: {text!r} in its rubric is no criterion. Write a sentence.")
    return [text.strip() for text in given]
