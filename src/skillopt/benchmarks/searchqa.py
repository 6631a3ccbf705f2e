"""SearchQA: trivia questions with retrieved snippets, scored like SQuAD.

A row: `{"id": "q1", "question": "This city on the Seine ...", "context": "[DOC] [TLE] Paris ... [DOC] ...",
"answers": ["Paris"]}`.
`key` may stand for `id`; `context` may be null. In CSV, `answers` is one answer or a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt.errors import TaskError
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin
from skillopt.tasks.data import (
    CommonSettings,
    QuestionBenchmark,
    TaskLoader,
    load_splits,
    package_text,
    published_defaults,
)
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.task import Task

CONTEXT_LIMIT = 6000
_MARK = "[DOC]"


class SearchQASettings(CommonSettings):
    """The `env.*` keys of SearchQA."""

    usual = Path("data/searchqa_split")


class _SearchQA:
    Settings: type[BaseModel] = SearchQASettings
    defaults: Mapping[str, Any] = published_defaults(workers=24)

    def __call__(self, settings: SearchQASettings) -> Benchmark:
        scorer = get_scorer("squad")
        return QuestionBenchmark(
            name="searchqa",
            splits=load_splits(settings, TaskLoader(to_task, scorer.check_task)),
            scorer=scorer,
            system=package_text("searchqa_system.md"),
            seed_skill=package_text("searchqa_skill.md"),
        )

    def raw_rows(self, source: Path, bad: list[TaskError]) -> list[DataRow]:
        """The rows of the published data."""
        return load_rows(source, bad=bad)

    def row_id(self, row: DataRow) -> str | None:
        """`key` in the published data, `id` in a split."""
        return row.name("key", "id")

    def moved(self, row: DataRow, folder: Path) -> Mapping[str, Any]:
        """The row as it is: it names no file."""
        return row.data


PLUGIN: BenchmarkPlugin = _SearchQA()


def shorten(context: str, limit: int = CONTEXT_LIMIT) -> str:
    """The context in at most `limit` characters, cut where a document begins, the first one inside."""
    context = context.strip()
    if len(context) <= limit:
        return context
    boundary = context.rfind(_MARK, 0, limit + len(_MARK))
    return context[: boundary if boundary > 0 else limit].rstrip()


def to_task(row: DataRow) -> Task:
    """The task of a row."""
    question, context = row.text("question"), shorten(row.text("context", optional=True))
    snippets = f"## Snippets\n\n{context}\n\n" if context else ""
    value = row.data.get("answers")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise row.error(f"'answers' starts like a JSON list but is none: {error}. Correct it.") from error
    given = value if isinstance(value, list) else [value]
    answers = [text for text in given if isinstance(text, str) and text.strip()]
    if not answers:
        raise row.error("'answers' holds no answer. Give the row a list of acceptable answers.")
    return Task(
        id=row.id("id", "key"),
        prompt=f"{snippets}## Question\n\n{question}",
        reference=answers,
        data={"question": question},
    )
