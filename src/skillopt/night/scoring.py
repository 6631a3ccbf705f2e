"""Scores an answer to a mined task with the scorers of all tasks: by its checks, by its rubric with a judge,
or by both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skillopt.errors import ScoringError, TaskError
from skillopt.tasks.judge import Judge
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import extract_answer
from skillopt.tasks.scorers._checks import Checks
from skillopt.tasks.scorers._given import read_rules
from skillopt.tasks.scorers._judge import JudgeScorer
from skillopt.tasks.scorers._rules import NoRefusal, Work
from skillopt.tasks.task import Task

MOST_CRITERIA = 8
_REVISION = 2
_BULLET = re.compile(r"^[\s>*•+-]*(?:\d{1,2}[.)]\s+)?")


class MinedScorer:
    """The scorer of mined tasks. A task's reference is `{"checks": [...], "rubric": "..."}` with at least one
    of the two.
    """

    name = "mined"
    graded = False

    def __init__(self) -> None:
        self._by_rule = Checks()
        self._by_judge = JudgeScorer()

    @property
    def version(self) -> str:
        """Changes with this module's rules and with the scorers behind it; the evaluator adds the judge's."""
        return json.dumps([self.name, _REVISION, self._by_rule.version, self._by_judge.version])

    def check_task(self, task: Task) -> None:
        """The task has checks that can be read, or a rubric."""
        checks, criteria = _measure(task)
        if not checks and not criteria:
            raise TaskError(f"Task {task.id!r} has neither checks nor a rubric. Give it one of them.")

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score by checks alone; a rubric without a judge is no score."""
        return await self._scored(None, task, trajectory)

    async def score_with(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        """Hard when every check holds and every point of the rubric is met; soft is the share of both
        together.
        """
        return await self._scored(judge, task, trajectory)

    async def _scored(self, judge: Judge | None, task: Task, trajectory: Trajectory) -> Score:
        checks, criteria = _measure(task)
        # The reference of a mined task is how it is measured, not a result that a judge should see.
        measured = replace(task, reference=None, data={"checks": checks, "rubric": criteria})
        parts: list[tuple[Score, int]] = []
        if checks:
            parts.append((await self._by_rule.score(measured, trajectory), len(checks)))
        if criteria:
            parts.append((await self._judged(judge, measured, trajectory), len(criteria)))
        return Score(
            hard=min(score.hard for score, _ in parts),
            soft=sum(score.soft * weight for score, weight in parts) / sum(weight for _, weight in parts),
            feedback=" ".join(score.feedback for score, _ in parts if score.feedback),
        )

    async def _judged(self, judge: Judge | None, task: Task, trajectory: Trajectory) -> Score:
        if judge is None:
            raise ScoringError("judge", f"task {task.id!r} has a rubric and there is no judge")
        if is_no_answer(trajectory.answer):  # whoever judges, that meets no point
            return Score(hard=0.0, soft=0.0, feedback="There is no answer to judge.")
        return await self._by_judge.score_with(judge, task, trajectory)


def criteria_of(rubric: str) -> list[str]:
    """The points of a rubric, one a line, each once."""
    lines = (_BULLET.sub("", line, count=1).strip() for line in rubric.splitlines())
    return list(dict.fromkeys(line for line in lines if line))[:MOST_CRITERIA]


def has_rubric(task: Task) -> bool:
    """Whether an answer to a mined task needs a judge."""
    return bool(_measure(task)[1])


def is_no_answer(answer: str) -> bool:
    """Nothing at all, or a short text that opens as refusals do."""
    return not NoRefusal(None).keeps(Work(answer=extract_answer(answer)))


def _measure(task: Task) -> tuple[list[dict[str, Any]], list[str]]:
    reference = task.reference
    if not isinstance(reference, Mapping):
        raise TaskError(f"Task {task.id!r}: the reference is no object with checks or a rubric. Correct it.")
    rules, problems = read_rules(reference.get("checks") or [])
    if problems:
        raise TaskError(f"Task {task.id!r}: {'; '.join(problems)}. Correct it.")
    return [rule.as_json() for rule in rules], criteria_of(str(reference.get("rubric") or ""))
