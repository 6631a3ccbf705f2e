"""How a night's tasks are measured: checks and rubrics that told good from bad, and their scorer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillopt.errors import Fault, ProviderDown, ScoringError, TaskError
from skillopt.process.waiting import together
from skillopt.tasks.judge import Judge
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import extract_answer
from skillopt.tasks.scorers.checks import MOST_CHECKS, Checks, kept_rules, read_rules
from skillopt.tasks.scorers.judge import judged_score
from skillopt.tasks.scorers.rules import CheckedWork, ContainsRule, NoRefusal, Rule
from skillopt.tasks.task import Task
from skillopt_sleep.demands import Label, demands, work_demands
from skillopt_sleep.requests import PastRequest
from skillopt_sleep.substance import Guards, lazy_answers
from skillopt_sleep.worktrees import TESTS, WORKTREE, record_of_rollout

MOST_CRITERIA = 8
_REVISION = 4
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
    formal: tuple[str, ...] = ()
    """Points of the rubric that the judge found in an answer nobody worked for: they see form alone."""

    def __bool__(self) -> bool:
        return bool(self.checks or self.rubric)

    @property
    def tells(self) -> bool:
        """Whether it takes more than the right form to pass. Rules never tell: an accepted answer to another
        request passes them with the words of this one put in.
        """
        return not set(criteria_of(self.rubric)) <= set(self.formal)


async def measure_kind(kind: Sequence[PastRequest], told: Label | None, judge: Judge | None) -> Measure:
    """The measure of a kind: demands made in corrections, checks a model proposed and a rubric, all of them
    tried on what was accepted and what was rejected.
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
    rubric, formal = await telling_criteria(judge, told.rubric, kind)
    return Measure(checks=checks, rubric=rubric, formal=formal)


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


async def telling_criteria(
    judge: Judge, rubric: str, kind: Sequence[PastRequest]
) -> tuple[str, tuple[str, ...]]:
    """The points of a rubric that accepted answers meet, if every rejected one and an empty promise misses at
    least one; else nothing. And those of them that an answer meets which nobody worked for: made of the
    request's words, or of an answer to another one. Where none can be made, all of them.

    An answer that nobody could judge tells nothing either; a judge that cannot be asked is an outage.
    """
    good = [(one, text) for one in kind for text in one.accepted][-_JUDGED:]
    bad = [(one, text) for one in kind for text in one.rejected][-_JUDGED:]
    bad = [*bad, (kind[-1], NO_ANSWERS[-1])]
    answered = [one for one in kind if one.accepted]
    made = lazy_answers([(one.turn.text, one.accepted[-1]) for one in answered])
    lazy = [(answered[-1], text) for text in made]
    points = criteria_of(rubric)
    if (met := await _judged(judge, [*good, *bad, *lazy], points)) is None:
        return "", ()
    on_good, on_bad, on_lazy = met[: len(good)], met[len(good) :][: len(bad)], met[len(good) + len(bad) :]
    kept = [place for place in range(len(points)) if all(one[place] for one in on_good)]
    if not all(any(not one[place] for place in kept) for one in on_bad):
        return "", ()
    formal = [place for place in kept if not lazy or any(one[place] for one in on_lazy)]
    return "\n".join(f"- {points[place]}" for place in kept), tuple(points[place] for place in formal)


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
    """Scores a night's tasks. Their reference is `{"checks": [...], "rubric": "..."}`, one of them given;
    `formal` in their data are the points of the rubric that see form alone.
    """

    name = "mined"
    graded = False

    def __init__(self) -> None:
        self._by_rule = Checks()

    @property
    def version(self) -> str:
        """Changes with this module's rules and with the scorers behind it; the evaluator adds the judge's."""
        return json.dumps([self.name, _REVISION, self._by_rule.version])

    def check_task(self, task: Task) -> None:
        """The task has checks that can be read, or a rubric."""
        checks, criteria = _read(task)
        if not checks and not criteria:
            raise TaskError(f"Task {task.id!r} has neither checks nor a rubric. Give it one of them.")

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score by checks alone; a rubric without a judge is no score."""
        return await self.score_with(None, task, trajectory)

    async def score_with(self, judge: Judge | None, task: Task, trajectory: Trajectory) -> Score:
        """Hard when all checks hold and all points of the rubric are met. Soft is the share of what sees form
        or the share of what tells, whichever is less: form alone earns nothing.
        """
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
        form: list[tuple[Score, int]] = []
        if checks:
            form.append((await self._by_rule.score(measured, trajectory), len(checks)))
        substance: Score | None = None
        if criteria:
            if judge is None:
                raise ScoringError("judge", f"task {task.id!r} has a rubric and there is no judge")
            if is_no_answer(trajectory.answer):  # whoever judges, that meets no point
                return Score(hard=0.0, soft=0.0, feedback="There is no answer to judge.")
            found = list(zip(criteria, await judge.check(measured, trajectory, criteria), strict=True))
            formal = [one for one in found if one[0] in task.data.get("formal", ())]
            form += [(judged_score(formal), len(formal))] if formal else []
            telling = [one for one in found if one not in formal]
            substance = judged_score(telling) if telling else None
        every = [*(score for score, _ in form), *([substance] if substance is not None else [])]
        shares = [substance.soft] if substance is not None else []
        if form:
            shares.append(sum(score.soft * count for score, count in form) / sum(count for _, count in form))
        return Score(
            hard=min(score.hard for score in every),
            soft=min(shares),
            feedback=" ".join(score.feedback for score in every if score.feedback),
        )


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
