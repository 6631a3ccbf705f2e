"""A file of tasks in the public form: written for a person to read and correct, and read strictly."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt.errors import TaskError
from skillopt.files import as_usage_error, check_writable, write_json
from skillopt.tasks.scorers.checks import read_rules
from skillopt.tasks.scorers.rules import Rule
from skillopt.tasks.task import Split
from skillopt_sleep.requests import RequestOutcome
from skillopt_sleep.scorer import criteria_of
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.tasks import NightTask, split_of
from skillopt_sleep.wording import normal

MOST_BYTES = 50_000_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_SPLITS: Mapping[str, Split] = {
    **{"train": "train", "val": "val", "test": "test"},
    **{"replay": "train", "holdout": "val"},
}
_OUTCOMES: Mapping[str, RequestOutcome] = {
    **{"success": "accepted", "fail": "corrected"},
    **{"mixed": "redone", "unknown": "unknown"},
}
_WORDS: Mapping[RequestOutcome, str] = {
    **{ours: public for public, ours in _OUTCOMES.items()},
    "abandoned": "fail",
}


class _Task(BaseModel):
    """A task as the file has it; further keys of the public format say nothing to a night."""

    model_config = ConfigDict(extra="ignore", strict=True)

    id: str
    intent: str = Field(min_length=8)
    context_excerpt: str = ""
    system: str = ""
    outcome: Literal["success", "fail", "mixed", "unknown"] = "unknown"
    reference_kind: Literal["exact", "rubric", "rule", "none"] = "none"
    reference: str = ""
    judge: dict[str, Any] = Field(default_factory=dict)
    tags: list[str] = Field(default_factory=list)
    source_sessions: list[str] = Field(default_factory=list)
    split: str = ""
    skill_hint: str = ""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["skillopt_sleep.tasks.v1"] = "skillopt_sleep.tasks.v1"
    project: str = ""
    transcript_source: str = ""
    n_sessions: int = Field(default=0, ge=0)
    target_skill_path: str = ""
    reviewed: bool = False
    tasks: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksFile:
    """Tasks of a file. `digest` names its content; nobody vouches for its `target_skill_path`."""

    path: Path
    tasks: tuple[NightTask, ...]
    reviewed: bool
    project: str
    target_skill_path: str
    digest: str


FORM_ALONE = "form alone"
"""Tag of a mined task whose measure an answer passes that nobody worked for; whoever takes it off vouches."""


def read_tasks(path: Path, *, project: str, settings: NightSettings) -> TasksFile:
    """Read a file of tasks for a project. Splits are those of the file; where it has no val or test task,
    they are made by the requests.

    Raises `TaskError` with everything that is wrong at once: an unknown check is never one that passes.
    """
    data = _json(path)
    try:
        file = _File.model_validate({"tasks": data} if isinstance(data, list) else data)
    except ValidationError as error:
        raise TaskError(
            f"{path} is no file of tasks: {_first(error)}. `skillopt sleep harvest --output FILE` writes one."
        ) from error
    tasks: list[NightTask] = []
    problems: list[str] = []
    for place, item in enumerate(file.tasks, start=1):
        try:
            tasks.append(_task(item, project))
        except ValueError as error:
            named = item.get("id", place) if isinstance(item, Mapping) else place
            problems.append(f"task {named}: {error}")
    problems += [
        f"task {id}: {count} tasks have this id"
        for id, count in Counter(task.id for task in tasks).items()
        if count > 1
    ]
    if not problems:
        tasks = _with_splits(tasks, settings)
        problems += _in_two_splits(tasks)
    if problems or not tasks:
        raise TaskError(f"{path}: {'; '.join(problems[:20]) or 'it holds no task'}. Correct the file.")
    return TasksFile(
        path=path,
        tasks=tuple(tasks),
        reviewed=file.reviewed,
        project=file.project,
        target_skill_path=file.target_skill_path,
        digest=hashlib.sha256(json.dumps(data, sort_keys=True).encode("utf-8", "replace")).hexdigest(),
    )


def check_new(path: Path) -> None:
    """Raise `UsageError` where tasks could not be written; a file that is there is never written over."""
    if path.exists():
        raise TaskError(f"{path} exists already, and may hold what you corrected. Name another file.")
    check_writable(path)


def write_tasks(
    path: Path, tasks: Iterable[NightTask], *, project: str, sources: str, sessions: int, target: str = ""
) -> None:
    """Write mined tasks for a person to read; for them alone, and not reviewed yet. What is in them was
    redacted when it was read.
    """
    rows = [_row(task) for task in tasks]
    file = _File(
        project=project, transcript_source=sources, n_sessions=sessions, target_skill_path=target, tasks=rows
    )
    with as_usage_error(path, "written", "Name another file.", TaskError):
        write_json(path, file.model_dump(), mode=0o600)


def _json(path: Path) -> Any:
    with as_usage_error(path, "read", "Name a file of tasks.", TaskError):
        if path.stat().st_size > MOST_BYTES:
            raise TaskError(
                f"{path} is larger than {MOST_BYTES:,} bytes, which no file of tasks is. Name another."
            )
        data = path.read_bytes()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TaskError(
            f"{path} is no JSON: {str(error)[:200]}. `skillopt sleep harvest --output FILE` writes a file of"
            " tasks."
        ) from error


def _task(item: Any, project: str) -> NightTask:
    """A task of the file; raises `ValueError` in words."""
    try:
        read = _Task.model_validate(item)
    except ValidationError as error:
        raise ValueError(_first(error)) from error
    if not _ID.fullmatch(read.id):
        raise ValueError("its id is no plain name of letters, digits and .:_-")
    if read.system.strip():
        raise ValueError(
            "it brings a system prompt of its own (system), and a night has one for all tasks; remove it"
        )
    if read.split and read.split not in _SPLITS:
        raise ValueError(f"no split is named {read.split!r}; known: {', '.join(_SPLITS)}")
    checks, rubric = _measure(read)
    context = f"\n\nContext:\n\n{read.context_excerpt.strip()}" if read.context_excerpt.strip() else ""
    return NightTask(
        id=read.id,
        kind=(read.tags[0] if read.tags else "task")[:100],
        form_alone=FORM_ALONE in read.tags[1:],
        project=project,
        prompt=read.intent.strip() + context,
        split=_SPLITS.get(read.split, "train"),
        outcome=_OUTCOMES[read.outcome],
        skills=(read.skill_hint,) if read.skill_hint else (),
        sessions=tuple(read.source_sessions),
        checks=tuple(rule.as_json() for rule in checks),
        rubric=rubric,
    )


def _measure(read: _Task) -> tuple[tuple[Rule, ...], str]:
    checks, problems = read_rules(read.judge.get("checks") or [])
    if problems:
        raise ValueError("; ".join(problems))
    rubric = ""
    if read.reference_kind == "rubric":
        rubric = "\n".join(f"- {point}" for point in criteria_of(read.reference))
    elif read.reference_kind == "exact" and read.reference.strip():
        # Read again, as whatever else a file brings: of bounded size.
        checks, problems = read_rules(
            [*(rule.as_json() for rule in checks), _exactly(read.reference).as_json()]
        )
        if problems:
            raise ValueError(
                f"its exact reference is too long or one check too many ({'; '.join(problems)}); name the"
                " words that count"
            )
    if not checks and not rubric:
        raise ValueError(
            "there is nothing to measure an answer by; give it judge.checks (reference_kind rule), or a"
            " rubric or exact text as reference"
        )
    return checks, rubric


def _exactly(reference: str) -> Rule:
    """The words of a reference in their order, as whole words: 4 is not in 14."""
    words = re.findall(r"\w+", reference.casefold())
    if not words:
        raise ValueError("its exact reference holds no word")
    return Rule("regex", r"(?i)(?<!\w)" + r"[\W_]+".join(map(re.escape, words)) + r"(?!\w)")


def _with_splits(tasks: Sequence[NightTask], settings: NightSettings) -> list[NightTask]:
    """As the file says; else by the requests, with one task moved where a side would be empty."""
    if len(tasks) < 2 or any(task.split != "train" for task in tasks):
        return list(tasks)
    split = {task.id: split_of(normal(task.prompt), settings) for task in tasks}
    order = sorted(split, key=lambda id: hashlib.sha256(f"{settings.seed}\0{id}".encode()).digest())
    if "val" not in split.values():
        split[order[0]] = "val"
    if "train" not in split.values():
        split[order[-1]] = "train"
    return [task.model_copy(update={"split": split[task.id]}) for task in tasks]


def _in_two_splits(tasks: Iterable[NightTask]) -> Iterator[str]:
    """What would be learned from and decide at once."""
    home: dict[str, NightTask] = {}
    for task in tasks:
        first = home.setdefault(task.as_task().content_hash, task)
        if first.split != task.split:
            yield f"task {task.id}: it asks the same as {first.id} and is {task.split}, not {first.split}"


def _row(task: NightTask) -> dict[str, Any]:
    return {
        "id": task.id,
        "project": task.project,
        "intent": task.prompt,
        "outcome": _WORDS[task.outcome],
        "reference_kind": "rubric" if task.rubric else "rule",
        "reference": task.rubric,
        "judge": {"kind": "rule", "checks": list(task.checks)} if task.checks else {},
        "tags": [task.kind, *([FORM_ALONE] if task.form_alone else [])],
        "source_sessions": list(task.sessions),
        "split": task.split,
        "origin": "real",
        "skill_hint": task.skills[0] if len(task.skills) == 1 else "",
    }


def _first(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}"
        for one in error.errors(include_url=False)[:3]
    )
