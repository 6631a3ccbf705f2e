"""SearchQA: trivia questions with retrieved snippets, scored like SQuAD.

A row: `{"id": "q1", "question": "This city on the Seine ...", "context": "[DOC] [TLE] Paris ... [DOC] ...",
"answers": ["Paris"]}`.
`key` may stand for `id`; `context` may be null. In CSV, `answers` is one answer or a JSON list.
"""

from __future__ import annotations

import json
from pathlib import Path

from skillopt.tasks.data import (
    CommonSettings,
    QuestionBenchmark,
    TaskLoader,
    load_splits,
    package_text,
    published_defaults,
)
from skillopt.tasks.rows import DataRow
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.task import Task

CONTEXT_LIMIT = 6000
_MARK = "[DOC]"


class SearchQASettings(CommonSettings):
    """The `env.*` keys of SearchQA."""

    usual = Path("data/searchqa_split")


class SearchQA(QuestionBenchmark):
    """Trivia with retrieved snippets. A row's id is called `key` in the published data, `id` in a split."""

    name = "searchqa"
    Settings = SearchQASettings
    defaults = published_defaults(workers=24)
    published_ids = ("key", "id")

    def __init__(self, settings: SearchQASettings) -> None:
        scorer = get_scorer("squad")
        super().__init__(
            splits=load_splits(settings, TaskLoader(to_task, scorer.check_task)),
            scorer=scorer,
            system=package_text("searchqa_system.md"),
            seed_skill=package_text("searchqa_skill.md"),
        )


PLUGIN = SearchQA


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
