"""`skillopt try`: look at a few tasks as they are sent, the answers and the scores, before more is paid."""  # noqa: N999

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import tell
from skillopt.cli._explain import cut
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, option
from skillopt.evaluation.first_answers import common_cause, scorer_trouble
from skillopt.harnesses.port import system_prompt
from skillopt.run import Job, matrix, prepare
from skillopt.run.evaluation import eval_folder, skill_named, target_only
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE
from skillopt.skill.folder import Skill
from skillopt.tasks.rollout import Score, Scored
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task

PANEL, PLACE = "Train and measure", 0
_KEYS = ("model.", "env.", "budget", "train.seed")


def look(
    given: Given,
    skill: Annotated[
        str | None, option("--skill", "Skill to try; unset is the one to start from.", "PATH")
    ] = None,
    tasks: Annotated[int, typer.Option("--tasks", metavar="N", min=1, help="How many train tasks.")] = 3,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Send a few train tasks with the skill and show what came: the prompt, the answer, the score and why.

    The scorer is tried first: it must pass the reference and fail nonsense. Answers are kept in the folder of
    `eval`, and not paid again.
    """
    resolved = _run.configure(given)
    whole = prepare(target_only(resolved))
    few = whole.splits.train[:tasks]
    division = replace(whole.division, splits=Splits(train=few, val=whole.splits.val))
    job = replace(whole, division=division)
    folder = eval_folder(job, resolved)
    trouble = [*filter(None, [job.world_trouble]), *asyncio.run(_troubles(job, few))]
    view = _run.choose_view(job, quiet=quiet, plain=plain)
    name = skill or "seed"
    skills = {name: job.seed if skill is None else skill_named(skill)}
    with _run.scrubbed(job.scrubber):
        work = matrix(job, skills, ["train"], folder, sinks=[view])
        (measured,) = _run.measured(work, folder, view).whole()
        database = Database.reading(folder / DATABASE)
        rows: list[tuple[Task, Scored]] = []
        lost: dict[str, str] = {}
        for task, fact in zip(few, measured.rows, strict=True):
            key = fact.rollout or ""
            done = database.finished(key)
            if done is None or fact.hard is None:
                lost[task.id] = f"{fact.invalid}: {fact.detail}"
                continue
            scored = database.scores([key]).get((key, done[0]), [])
            said = [one for one in scored if one.hard == fact.hard]
            score = said[-1] if said else Score(hard=fact.hard, soft=fact.soft or 0.0)
            row = Scored(task_id=task.id, draw=0, attempt=done[0], key=key, trajectory=done[1], score=score)
            rows.append((task, row))
        cause = "" if any(row.score.passed for _, row in rows) else common_cause(rows)
        lines = [*_sent(job, skills[name]), *_lines(rows, lost, trouble, cause, simulated=job.simulated)]
        if given.config is not None and rows and not (trouble or cause or quiet):
            lines.append(f"Next: skillopt train {given.config} {_models(given)}")
        data = _as_json(job, rows, lost, trouble, cause)
        tell(job.scrubber.scrub_json(data), map(job.scrubber.scrub, lines), json=json)


add = flagged(look, _KEYS, short=("target",), epilog=EXIT_CODES)


async def _troubles(job: Job, tasks: Sequence[Task]) -> list[str]:
    found = [await scorer_trouble(job.benchmark, task) for task in tasks]
    return [f"{trouble}." for trouble in found if trouble]


def _sent(job: Job, skill: Skill) -> Iterator[str]:
    """What a chat target is told before every task: the skill, and how to answer."""
    if job.target.harness != "chat" or "rollout" not in job.benchmark.prompts:
        return
    yield "Sent before every task:"
    yield f"  system    {cut(system_prompt(job.benchmark.prompts['rollout'], skill.document.rendered))}"
    yield ""


def _models(given: Given) -> str:
    """The models of a training run, as they were said."""
    target = given.flags.get("target_model", "MODEL")
    return f"--target {target}" + ("" if target == "world" else " --optimizer MODEL")


def _as_json(
    job: Job, rows: Sequence[tuple[Task, Scored]], lost: dict[str, str], trouble: list[str], cause: str
) -> dict[str, Any]:
    tasks = [
        {
            "task": task.id,
            "messages": [{"role": one.role, "content": one.content} for one in row.trajectory.messages],
            "answer": row.trajectory.answer,
            "reference": task.reference,
            "hard": row.score.hard,
            "soft": row.score.soft,
            "feedback": row.score.feedback,
            "failure": row.trajectory.failure,
        }
        for task, row in rows
    ]
    return {"simulated": job.simulated, "tasks": tasks, "lost": lost, "scorer": trouble, "diagnosis": cause}


def _lines(
    rows: Sequence[tuple[Task, Scored]],
    lost: dict[str, str],
    trouble: Sequence[str],
    cause: str,
    *,
    simulated: bool,
) -> Iterator[str]:
    for number, (task, row) in enumerate(rows, 1):
        head = "Simulated: task" if simulated else "Task"
        yield f"{head} {number} of {len(rows)}: {task.id}"
        sent = [one for one in row.trajectory.messages if one.role != "assistant"]
        for message in sent:
            yield f"  {message.role:<9} {cut(message.content)}"
        if not sent:  # an agent of one's own makes its own prompt
            yield f"  prompt    {cut(task.prompt)}"
        yield f"  answer    {cut(row.trajectory.answer or f'(none: {row.trajectory.failure})')}"
        if task.reference is not None:
            yield f"  expected  {cut(str(task.reference))}"
        why = f" - {row.score.feedback}" if row.score.feedback else ""
        yield f"  score     {row.score.hard:g}{why}"
        yield ""
    for id, why in lost.items():
        yield f"Task {id} could not be measured: {why}"
    yield f"{sum(row.score.passed for _, row in rows)} of {len(rows)} passed."
    for one in trouble:
        yield f"warning: {one}"
    if cause:
        yield f"warning: {cause}"
