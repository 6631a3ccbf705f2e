"""How a night's tasks are measured: checks and rubrics that told good from bad, and their scorer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillopt.aio import together
from skillopt.errors import Fault, ProviderDown, ScoringError, TaskError
from skillopt.night.demands import demands, work_demands
from skillopt.night.labels import Label
from skillopt.night.requests import PastRequest
from skillopt.night.substance import Guards
from skillopt.night.work_record import TESTS, record_of_rollout
from skillopt.night.worktrees import WORKTREE
from skillopt.tasks.judge import Judge
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import (
    MOST_CHECKS,
    CheckedWork,
    Checks,
    ContainsRule,
    JudgeScorer,
    NoRefusal,
    Rule,
    extract_answer,
    kept_rules,
    read_rules,
)
from skillopt.tasks.task import Task

MOST_CRITERIA = 8
_REVISION = 3
_BULLET = re.compile(r"^[\s>*•+-]*(?:\d{1,2}[.)]\s+)?")
NO_ANSWERS = ("", "I'm sorry, I can't help with that.", "Sure! I will do that right away.")
"""Answers that no check of worth may be content with."""
_TRIED = 6
"""Answers of each sort that a check is tried on, the newest."""
_JUDGED = 2
"""Answers of each sort that a rubric is tried on, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Checks and a rubric that were seen to tell; false where there is neither."""

    checks: tuple[Rule, ...] = ()
    rubric: str = ""
    tells_subjects: bool = False
    """Whether the judge saw by the rubric that an answer to another request is none to this one."""

    def __bool__(self) -> bool:
        return bool(self.checks or self.rubric)


async def measure_kind(
    kind: Sequence[PastRequest], told: Label | None, judge: Judge | None, *, try_subjects: bool = False
) -> Measure:
    """The measure of a kind: demands made in corrections, checks a model proposed and a rubric, all of them
    tried on what was accepted and what was rejected.

    With `try_subjects` the rubric is also tried on an answer to another request.
    """
    good = [text for one in kind for text in one.accepted][-_TRIED:]
    bad = [text for one in kind for text in one.rejected][-_TRIED:]
    said = [rule for one in kind for said in one.corrections for rule in demands(said.said)]
    said += [
        rule for one in kind if one.worktree for said in one.corrections for rule in work_demands(said.said)
    ]
    demanded = _new([rule for rule in said if not isinstance(rule, ContainsRule)])[:MOST_CHECKS]
    checks = await telling_rules(demanded, _after_correction(kind), [*bad, *NO_ANSWERS]) if bad else ()
    if told is None or not (good or bad):
        return Measure(checks=checks)
    if good:
        proposed = await telling_rules(read_rules(told.checks)[0], good, [*bad, *NO_ANSWERS])
        # Form alone that nobody asked for can be met without getting anything right.
        if not all(rule.is_shape for rule in proposed):
            checks = _new([*checks, *proposed])[:MOST_CHECKS]
    if judge is None or not criteria_of(told.rubric):
        return Measure(checks=checks)
    rubric = await telling_criteria(judge, told.rubric, kind)
    tells = bool(rubric) and try_subjects and await _tells_subjects(judge, rubric, kind)
    return Measure(checks=checks, rubric=rubric, tells_subjects=tells)


async def _tells_subjects(judge: Judge, rubric: str, kind: Sequence[PastRequest]) -> bool:
    """Whether an accepted answer to one request misses a point of the rubric as an answer to another."""
    answered = {one.form: one.accepted[-1] for one in kind if one.accepted}
    other = next(((one, text) for one in kind for form, text in answered.items() if form != one.form), None)
    if other is None:
        return False
    met = await _judged(judge, [other], criteria_of(rubric))
    return met is not None and not all(met[0])


async def measure_task(same: Sequence[PastRequest], of_kind: Measure) -> Measure:
    """How one task is measured, given how its kind is. `same` are the times this very request came.

    A demand in the request, or a word that an answer to it lacked, is a demand on this task alone.
    """
    asked = [rule for one in same for rule in demands(one.turn.text)]
    corrected = [rule for one in same for said in one.corrections for rule in demands(said.said)]
    lacked = [rule for rule in corrected if isinstance(rule, ContainsRule)]
    good = [text for one in same for text in one.accepted][-_TRIED:]
    bad = [text for one in same for text in one.rejected][-_TRIED:]
    own = await telling_rules(_new([*asked, *lacked]), good, [*bad, *NO_ANSWERS]) if good or bad else ()
    return replace(of_kind, checks=_new([*of_kind.checks, *own])[:MOST_CHECKS])


async def telling_rules(
    rules: Sequence[Rule], good: Sequence[str], bad: Sequence[str], *, timeout: float = 2.0
) -> tuple[Rule, ...]:
    """The rules that were seen to tell: each is kept by every good answer and broken by at least one bad one.

    One that everything keeps rewards everything, and one that a good answer breaks would punish what the
    person wanted. A rule whose own trial fails - a pattern that never ends - tells nothing.
    """
    kept: list[Rule] = []
    for rule in rules:
        try:
            right = all([await _keeps(rule, answer, timeout) for answer in good])
            if right and not all([await _keeps(rule, answer, timeout) for answer in bad]):
                kept.append(rule)
        except ScoringError:
            continue
    return tuple(kept)


async def telling_criteria(judge: Judge, rubric: str, kind: Sequence[PastRequest]) -> str:
    """The points of a rubric that accepted answers meet, if every rejected one and an empty promise misses at
    least one; else nothing.

    An answer that nobody could judge tells nothing either; a judge that cannot be asked is an outage.
    """
    good = [(one, text) for one in kind for text in one.accepted][-_JUDGED:]
    bad = [(one, text) for one in kind for text in one.rejected][-_JUDGED:]
    tried = [*good, *bad, (kind[-1], NO_ANSWERS[-1])]
    points = criteria_of(rubric)
    if (met := await _judged(judge, tried, points)) is None:
        return ""
    kept = [place for place in range(len(points)) if all(one[place] for one in met[: len(good)])]
    tells = all(any(not one[place] for place in kept) for one in met[len(good) :])
    return "\n".join(f"- {points[place]}" for place in kept) if tells else ""


async def _judged(
    judge: Judge, tried: Sequence[tuple[PastRequest, str]], points: Sequence[str]
) -> list[list[bool]] | None:
    """Which points each of these answers meets; None where the judge was not understood. All at once: who
    answers by hand gets them in one round.
    """

    async def met(one: PastRequest, answer: str) -> list[bool]:
        if is_no_answer(answer):
            return [False] * len(points)
        task = Task(id="mined", prompt=one.turn.text)
        found = await judge.check(task, Trajectory(messages=(), answer=answer, calls=0, usage=None), points)
        return [finding.met for finding in found]

    try:
        return list(await together(*(met(*each) for each in tried)))
    except ScoringError as error:
        if isinstance(error.__cause__, Fault):
            raise ProviderDown(
                f"The judge could not be asked: {error.detail}. Nothing is lost: run the same command again."
            ) from error
        return None


async def _keeps(rule: Rule, answer: str, timeout: float) -> bool:
    return (await kept_rules([rule], CheckedWork(answer=answer), whose="a request", timeout=timeout))[0]


def _after_correction(kind: Sequence[PastRequest]) -> list[str]:
    """Accepted answers from the first correction on; the person may have changed their mind then."""
    first = next((place for place, one in enumerate(kind) if one.corrections), len(kind))
    return [text for one in kind[first:] for text in one.accepted][-_TRIED:]


def _new(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(dict.fromkeys(rules))


class NightScorer:
    """Scores a night's tasks. Their reference is `{"checks": [...], "rubric": "..."}`, one of them given."""

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
        checks, criteria = _read(task)
        if not checks and not criteria:
            raise TaskError(f"Task {task.id!r} has neither checks nor a rubric. Give it one of them.")

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score by checks alone; a rubric without a judge is no score."""
        return await self.score_with(None, task, trajectory)

    async def score_with(self, judge: Judge | None, task: Task, trajectory: Trajectory) -> Score:
        """Hard when all checks hold and all points of the rubric are met; soft is the share of both."""
        checks, criteria = _read(task)
        if WORKTREE in task.data:
            if failing := trajectory.outcome.get(TESTS):
                return Score(hard=0.0, soft=0.0, feedback=f"The tests fail after the work: {failing}")
            record = record_of_rollout(trajectory)
            trajectory = replace(trajectory, answer=record, messages=(), files={})
        guards = Guards.model_validate(task.data.get("guards") or {})
        if failing := guards.failing(task.prompt, extract_answer(trajectory.answer)):
            return Score(hard=0.0, soft=0.0, feedback=failing)
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
    return bool(_read(task)[1])


def is_no_answer(answer: str) -> bool:
    """Nothing at all, or a short text that opens as refusals do."""
    return not NoRefusal(None).keeps(CheckedWork(answer=extract_answer(answer)))


def _read(task: Task) -> tuple[list[dict[str, Any]], list[str]]:
    reference = task.reference
    if not isinstance(reference, Mapping):
        raise TaskError(f"Task {task.id!r}: the reference is no object with checks or a rubric. Correct it.")
    rules, problems = read_rules(reference.get("checks") or [])
    if problems:
        raise TaskError(f"Task {task.id!r}: {'; '.join(problems)}. Correct it.")
    return [rule.as_json() for rule in rules], criteria_of(str(reference.get("rubric") or ""))
