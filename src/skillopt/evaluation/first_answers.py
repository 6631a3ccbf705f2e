"""A look at first answers before more is paid: whether the scorer can be right, what failures share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from skillopt.errors import ConfigError, ScoringError, SkillOptError, Stopped, UserError, root_of
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.functions import own_code_blamed
from skillopt.tasks.rollout import Rollout, Score, Scored, Trajectory
from skillopt.tasks.scorers import extract_answer, given_references
from skillopt.tasks.task import Task

COMMON = 0.8
"""Share of the failing answers that a cause must explain to be named."""
NONSENSE = "qzx 7731 none of this"


async def scorer_trouble(benchmark: Benchmark, task: Task) -> str:
    """Why the scorer cannot be right about a task: it fails the reference itself, or passes nonsense. Empty
    where it can, or where only a judge, an environment or rules of the task decide.
    """
    if not (wanted := _right_answer(benchmark, task)):
        return ""
    try:
        good = await _score(benchmark, task, wanted)
        bad = await _score(benchmark, task, NONSENSE)
    except SkillOptError as error:
        return f"the scorer fails on task {task.id}: {error}"
    if not good.passed:
        return (
            f"the scorer fails the reference of task {task.id} when it is given as the answer:"
            f" {good.feedback or 'it says no reason'}"
        )
    return f"the scorer passes the answer {NONSENSE!r} to task {task.id}" if bad.passed else ""


async def check_scorer(benchmark: Benchmark, task: Task) -> None:
    """Raise `ConfigError`, or `UserError` for a person's own, where a scorer fails on the reference of a task
    and on nonsense alike: on no answer will it do better, and answers are paid.
    """
    if not (wanted := _right_answer(benchmark, task)):
        return
    for answer in (wanted, NONSENSE):
        try:
            await _score(benchmark, task, answer)
            return
        except ScoringError as error:
            failed = error
    raise (UserError if failed.where else ConfigError)(
        f"The scorer fails on task {task.id}, whatever the answer: {failed}. Correct it; nothing was asked."
    ) from root_of(failed)


def check_answers(outcomes: Sequence[tuple[Task, Rollout]]) -> str:
    """A warning where every answer fails for a cause that they have in common: mostly a skill can mend it.

    Raises `Stopped` where every answer of the target is empty, as nothing can be learned from that.
    """
    rows = [(task, row) for task, row in outcomes if isinstance(row, Scored)]
    if any(row.score.passed for _, row in rows) or not (cause := common_cause(rows)):
        return ""
    silent = sum(row.trajectory.failure in _SILENT and not row.trajectory.answer.strip() for _, row in rows)
    if silent >= COMMON * len(rows):
        raise Stopped(
            f"No answer passed: {cause} Nothing can be learned from that, so nothing more was paid."
            " evaluation.check_baseline=false goes on in the same folder."
        )
    return (
        f"No answer passed: {cause} Training goes on, as a skill can teach the form of an answer;"
        " 'skillopt try' shows some."
    )


def common_cause(rows: Sequence[tuple[Task, Scored]]) -> str:
    """What nearly all failing answers have in common that no skill should have to mend, and the remedy."""
    failing = [(task, row) for task, row in rows if not row.score.passed]
    if not failing:
        return ""
    most = COMMON * len(failing)
    failures = Counter(row.trajectory.failure for _, row in failing if row.trajectory.failure)
    of_all = f"of {len(failing)} failing answers"
    for failure, count in failures.most_common(1):
        if count >= most:
            remedy = _REMEDIES.get(failure, "Look at the prompt with 'skillopt try'.")
            return f"{count} {of_all} are none: the target ended with {failure!r}. {remedy}"
    answers = [(given_references(task), extract_answer(row.trajectory.answer)) for task, row in failing]
    loose = sum(any(_bare(reference) == _bare(answer) for reference in wanted) for wanted, answer in answers)
    held = sum(
        any(_bare(reference) and _bare(reference) in _bare(answer) for reference in wanted)
        for wanted, answer in answers
    )
    if loose >= most:
        return (
            f"{loose} {of_all} differ from the reference only in case, spaces or punctuation: score with"
            " squad (env.scorer), or say the form in the skill."
        )
    if held >= most:
        return (
            f"{held} {of_all} contain the reference: score with contains (env.scorer), or say the form of an"
            " answer in the skill."
        )
    return ""


_SILENT = ("empty", "length")
_REMEDIES = {"length": "Raise model.target.max_tokens.", "turns": "Give it more turns."}


def _right_answer(benchmark: Benchmark, task: Task) -> str:
    """An answer that must pass; empty where only a judge, an environment or rules of the task decide."""
    wanted = given_references(task)
    return "" if benchmark.wants_judge or not wanted or benchmark.open(task) is not None else wanted[0]


async def _score(benchmark: Benchmark, task: Task, answer: str) -> Score:
    with own_code_blamed(f"scoring task {task.id!r}"):
        return await benchmark.score(task, Trajectory(messages=(), answer=answer, calls=0, usage=None))


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
