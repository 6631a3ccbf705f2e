"""SearchQA: trivia questions with retrieved snippets, scored like SQuAD.

A row: `{"id": "q1", "question": "This city on the Seine ...", "context": "[DOC] [TLE] Paris ... [DOC] ...",
"answers": ["Paris"]}`.
`key` may stand for `id`; `context` may be null. In CSV, `answers` is one answer or a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt.benchmarks._data import (
    CommonSettings,
    DataRow,
    QuestionBenchmark,
    load_rows,
    load_splits,
    package_text,
)
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.task import Task

CONTEXT_LIMIT = 6000
_MARK = "[DOC]"


class SearchQASettings(CommonSettings):
    """The `env.*` keys of SearchQA."""


class _SearchQA:
    Settings: type[BaseModel] = SearchQASettings
    defaults: Mapping[str, Any] = {
        "evaluation.repeats": 1,
        "env.workers": 24,
        "train.train_size": 0,
        "env.max_completion_tokens": 16384,
    }

    def __call__(self, settings: SearchQASettings) -> Benchmark:
        return QuestionBenchmark(
            name="searchqa",
            splits=load_splits(settings, to_tasks),
            scorer=get_scorer("squad"),
            system=package_text("searchqa_system.md"),
            seed_skill=package_text("searchqa_skill.md"),
        )

    def raw_rows(self, source: Path) -> list[DataRow]:
        """The rows of the published data."""
        return load_rows(source)

    def row_id(self, row: DataRow) -> str | None:
        """`key` in the published data, `id` in a split."""
        value = row.data.get("key", row.data.get("id"))
        return None if isinstance(value, bool) or not isinstance(value, (str, int)) else str(value)

    def moved(self, row: DataRow, folder: Path) -> Mapping[str, Any]:
        """The row as it is: it names no file."""
        return row.data


PLUGIN: BenchmarkPlugin = _SearchQA()


def to_tasks(rows: Sequence[DataRow]) -> list[Task]:
    """One task for each row."""
    return [_to_task(row) for row in rows]


def shorten(context: str, limit: int = CONTEXT_LIMIT) -> str:
    """The context in at most `limit` characters, cut where a document begins; a first document longer than
    that is cut inside.
    """
    context = context.strip()
    if len(context) <= limit:
        return context
    boundary = context.rfind(_MARK, 0, limit + len(_MARK))
    return context[: boundary if boundary > 0 else limit].rstrip()


def _to_task(row: DataRow) -> Task:
    question = _string(row, "question")
    context = shorten(_string(row, "context", optional=True))
    prompt = (
        f"## Snippets\n\n{context}\n\n## Question\n\n{question}" if context else f"## Question\n\n{question}"
    )
    return Task(id=_id(row), prompt=prompt, reference=_answers(row), data={"question": question})


def _id(row: DataRow) -> str:
    value = row.data.get("id", row.data.get("key"))
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise row.error("has no id. Give every row a string or number under 'id'.")
    return str(value)


def _string(row: DataRow, field: str, *, optional: bool = False) -> str:
    value = row.data.get(field)
    if value is None and optional:
        return ""
    if not isinstance(value, str) or not (optional or value.strip()):
        raise row.error(
            f"{field!r} is {'missing or empty' if not value else 'no text'}. Give the row a {field}."
        )
    return value.strip()


def _answers(row: DataRow) -> list[str]:
    value = row.data.get("answers")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise row.error(f"'answers' starts like a JSON list but is none: {error}. Correct it.") from error
    answers = [
        text
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str) and text.strip()
    ]
    if not answers:
        raise row.error("'answers' holds no answer. Give the row a list of acceptable answers.")
    return answers
