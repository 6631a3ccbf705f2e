"""Lets the optimizer model draft tasks with checks, for a person to review before training."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from skillopt.benchmarks.own import DRAFTED_BY, OwnBenchmark
from skillopt.config.load import Resolved
from skillopt.config.record import as_json
from skillopt.config.roles import resolve_role
from skillopt.errors import Fault, ProviderDown, TaskError, UnusableReplies
from skillopt.events import Notice, Sink
from skillopt.files import read_text, write_text
from skillopt.messages import Message
from skillopt.models.reading import Unusable, read, tries
from skillopt.optimizer.ask import clipped, packaged, section
from skillopt.redact import Scrubber
from skillopt.run.assembly import OpenRun, open_run
from skillopt.run.job import Division, Job
from skillopt.skill.folder import Skill
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

S = TypeVar("S", bound=BaseModel)
TASKS, SMALL_TASK = "draft_tasks", "draft_small_task"
"""Stages, each with a prompt of its name."""
NONE_YET = Splits(train=(Task(id="none-1", prompt="none"),), val=(Task(id="none-2", prompt="yet"),))
_AT_ONCE, _FRUITLESS, _FRUITLESS_SMALL = 5, 3, 8
"""Tasks of one question, and questions in a row that may bring none; small models write one at a time."""
ALIKE = 0.7
"""Share of words in common from which on two requests are one."""
_POINTS, _LONGEST_CHECK = ".,;:!?\"'", 40
_CLAUSE = re.compile(r"[.,;:!?\n]|\band\b")
_OPENINGS = ("My", "When", "I", "Please", "Why", "Yesterday", "Can", "We", "Since", "Our", "Hello")
_WORDS = re.compile(r"\w+")
Rows = list[dict[str, Any]]


def drafting_job(resolved: Resolved, benchmark: Benchmark, skill: Skill) -> Job:
    """A job of which only the optimizer is asked: there are no tasks yet."""
    return Job(
        config=resolved.config,
        benchmark=benchmark,
        division=Division(splits=NONE_YET),
        seed=skill,
        target=resolve_role(resolved.config, "target"),
        optimizer=resolve_role(resolved.config, "optimizer"),
        scrubber=Scrubber(resolved.secrets),
        settings=as_json(resolved),
    )


async def ask_draft(
    opened: OpenRun, asked: tuple[Message, ...], shape: type[S], *, stage: str, what: str
) -> S:
    """What the optimizer model drafts, in its shape; asked twice where a reply cannot be read."""
    role, problem = opened.job.optimizer, ""
    model = opened.models.of("optimizer", role)
    for request in tries(asked, shape, role="optimizer", stage=stage, max_tokens=role.max_tokens):
        try:
            return read(await model.complete(request), shape)
        except Unusable as error:
            problem = str(error)
        except Fault as fault:
            raise ProviderDown(f"The optimizer could not be asked for {what}: {fault}.") from fault
    raise UnusableReplies(f"The optimizer drafted no {what} that can be read: {problem}.")


class DraftedTask(BaseModel):
    """A task as the model drafts it."""

    prompt: str = Field(min_length=1)
    checks: list[dict[str, Any]] = Field(min_length=1)
    good: str
    bad: str


class DraftedTasks(BaseModel):
    """One reply."""

    tasks: list[DraftedTask]


class DraftedSmallTask(BaseModel):
    """The one task of a reply by a small model, which writes answers but no checks that tell them apart."""

    prompt: str = Field(min_length=1)
    good: str
    bad: str

    def as_tasks(self) -> list[DraftedTask]:
        """As larger models write it, checked by the words of the good answer alone; none without such."""
        bad = {_bare(word) for word in self.bad.split()}
        runs = groupby(self.good.split(), key=lambda word: _bare(word) in bad)
        own = [" ".join(words).strip(_POINTS) for is_shared, words in runs if not is_shared]
        # A figure that the request does not have is made up: no answer could know it.
        told = [arg for arg in own if all(figure in self.prompt for figure in re.findall(r"\d+", arg))]
        checks = [{"op": "contains", "arg": arg} for arg in told if arg and len(arg) <= _LONGEST_CHECK]
        if not checks:
            return []
        return [DraftedTask(prompt=self.prompt, checks=checks[:4], good=self.good, bad=self.bad)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDrafts:
    """Rows for a tasks file, and how many drafts were dropped for which reason."""

    rows: tuple[dict[str, Any], ...]
    dropped: Counter[str]


async def draft_tasks(
    resolved: Resolved,
    skill: Skill,
    folder: Path,
    *,
    count: int,
    known: Sequence[str] = (),
    sinks: Sequence[Sink] = (),
) -> TaskDrafts:
    """Ask until there are so many tasks whose checks pass the good sample and fail the bad one, or until
    several questions in a row brought none. `known` are requests that are there already.

    The questions pass the same stack as those of a run; asked again with the same words they cost nothing.
    """
    config = resolved.config
    config = config.having({"model.target": config.model.optimizer})  # no target is asked
    tasks = {"train": NONE_YET.train, "val": NONE_YET.val}
    benchmark = OwnBenchmark.from_tasks(tasks, scorer=lambda *_: True)
    job = drafting_job(replace(resolved, config=config), benchmark, skill)
    rows: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    fruitless, is_small = 0, job.asks_small
    prompt, most = (SMALL_TASK, _FRUITLESS_SMALL) if is_small else (TASKS, _FRUITLESS)
    async with open_run(job, folder, {"kind": TASKS, "skill": skill.document.digest}, sinks=sinks) as opened:
        while len(rows) < count and fruitless < most:
            wanted = min(_AT_ONCE, count - len(rows))
            there = [*known, *(row["prompt"] for row in rows)]
            if is_small:  # it would copy what it is shown
                rest = _theme(skill, len(there) + dropped.total())
            else:
                listed = "\n".join(f"- {clipped(prompt, 200)}" for prompt in there)
                rest = section("Tasks that are there already", listed)
                rest += f"\nQuestion {fruitless + 1}.\n" if fruitless else ""
            asked = (
                Message(role="system", content=fill(packaged(prompt), {"count": str(wanted)})),
                Message(role="user", content=section("The skill", skill.document.rendered) + rest),
            )
            before = len(rows)
            try:
                if is_small:
                    one = await ask_draft(opened, asked, DraftedSmallTask, stage=TASKS, what="tasks")
                    found = one.as_tasks()
                    if not found:
                        dropped["no words tell its good sample from its bad one"] += 1
                else:
                    found = (await ask_draft(opened, asked, DraftedTasks, stage=TASKS, what="tasks")).tasks
            except UnusableReplies:
                dropped["a reply that cannot be read"] += 1
                found = []
            for task in found[: count - len(rows)]:
                if why := await _trouble(task, [*known, *(row["prompt"] for row in rows)]):
                    dropped[why] += 1
                else:
                    id = f"draft-{len(known) + len(rows) + 1}"
                    rows.append(
                        {
                            "id": id,
                            "prompt": task.prompt,
                            "checks": task.checks,
                            DRAFTED_BY: config.model.optimizer.name,
                        }
                    )
            fruitless = 0 if len(rows) > before else fruitless + 1
            opened.run.emit(Notice(text=f"{len(rows)} of {count} drafted, {dropped.total()} dropped."))
        await opened.drain()
    return TaskDrafts(rows=tuple(rows), dropped=dropped)


def _bare(word: str) -> str:
    return word.strip(_POINTS).casefold()


def _theme(skill: Skill, number: int) -> str:
    """What the next task of a small model is about: a part of the skill and a first word, each in turn."""
    parts = [part.strip(" -*#`") for part in _CLAUSE.split(skill.document.body)]
    parts = [part for part in parts if len(part) > 3] or ["the skill"]
    about, opening = parts[number % len(parts)], _OPENINGS[number % len(_OPENINGS)]
    return f"\nThe request is about: {about}. It begins with the word {opening}.\n"


async def _trouble(drafted: DraftedTask, there: Collection[str]) -> str:
    """Why a draft is no task, in words; empty where it is one."""
    if any(alike(drafted.prompt, prompt) for prompt in there):
        return "much like another task"
    task = Task(id="drafted", prompt=drafted.prompt, data={"checks": drafted.checks})
    scorer = get_scorer("checks")
    try:
        scorer.check_task(task)
        good, bad = [
            (await scorer.score(task, Trajectory(messages=(), answer=text, calls=1, usage=None))).hard
            for text in (drafted.good, drafted.bad)
        ]
    except (TaskError, Fault):
        return "a check that cannot be used"
    if not good:
        return "its checks fail the good sample"
    return "its checks pass the bad sample" if bad else ""


def alike(one: str, other: str) -> bool:
    """Whether two requests are one in other words, by the words they share."""
    left, right = ({*_WORDS.findall(text.casefold())} for text in (one, other))
    return len(left & right) >= ALIKE * len(left | right)


def read_rows(file: Path) -> Rows:
    """The rows of a JSONL file as they are."""
    if not file.is_file():
        raise TaskError(f"There is no file {file}. 'skillopt tasks draft SKILL --out {file}' makes one.")
    try:
        rows = [json.loads(line) for line in read_text(file).splitlines() if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        raise TaskError(f"{file} cannot be read as JSONL: {error}. Write one object a line.") from None
    if not all(isinstance(row, dict) for row in rows):
        raise TaskError(f"{file} holds lines that are no JSON object. One task a line.")
    return rows


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The file, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def is_draft(row: Mapping[str, Any]) -> bool:
    """Whether a model wrote the row and nobody has kept it yet."""
    return DRAFTED_BY in row


def as_kept(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as a task to train on."""
    return {name: value for name, value in row.items() if name != DRAFTED_BY}
