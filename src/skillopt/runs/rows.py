"""A measured row in the words of the public files; ours stand beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skillopt.events import RowFact
from skillopt.runs.database import AnswerRow, Database
from skillopt.tasks.task import Task


def public_rows(
    rows: Iterable[RowFact], database: Database, tasks: Mapping[str, Task]
) -> list[dict[str, Any]]:
    """What `results.jsonl` says of rows: score and reason, question and answer.

    Seconds are left out: they differ between equal runs; the log has them.
    """
    rows = list(rows)
    answers = database.answers(row.rollout for row in rows if row.rollout is not None)
    return [
        {
            **_public(row, answers.get((row.rollout or "", row.attempt)), tasks.get(row.task)),
            **row.model_dump(exclude_none=True, exclude={"seconds"}),
        }
        for row in rows
    ]


def _public(row: RowFact, answer: AnswerRow | None, task: Task | None) -> dict[str, Any]:
    told: dict[str, Any] = {"id": row.task}
    if task is not None:
        told |= {"question": task.prompt, "task_type": task.kind}
    if answer is not None:
        told |= {"predicted_answer": answer.text, "response": answer.text, "n_turns": answer.calls}
    reason = row.invalid or row.failure or ("" if row.hard else row.detail)
    return {**told, "agent_ok": row.invalid is None, "fail_reason": reason}
