"""Scores multiple choice: reads one label out of an answer, and never takes a word such as "A" in a sentence
for one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skillopt.errors import TaskError
from skillopt.tasks.rollout import Score
from skillopt.tasks.scorers._scorer import TextScorer, as_text, passed, references
from skillopt.tasks.task import Task

_LABEL = r"([A-Za-z]|\d{1,2})"
_ALONE = re.compile(rf"[\W_]*{_LABEL}[\W_]*")
_LEADING = re.compile(rf"[(\[*\s]*{_LABEL}\s*[).:\]*](?!\d)")
_STATED = re.compile(
    rf"\b(?:answer|option|choice)\b(?:\s+is)?\s*:?\s*[(\[*\s]*{_LABEL}[)\]*.\s]*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoice(TextScorer):
    """The label of the right choice.

    The reference is a label, or the text of a choice when the task's data has `choices` (a list is labelled
    A, B, C ..., a mapping by its keys). An answer is read as a label alone, else the text of a choice, else a
    last line such as `B) Paris` or `The answer is B`.
    """

    name: ClassVar[str] = "multiple_choice"

    def check_task(self, task: Task) -> None:
        """Every reference names a choice; a bare number beside a list of choices is refused, since it could
        count from 0 or from 1.
        """
        choices = _choices(task)
        for text in references(task):
            if choices and _reference_label(text, choices) is None:
                raise TaskError(
                    f"Task {task.id!r}: the reference {text!r} is neither a label ({', '.join(choices)}) "
                    "nor the text of a choice. Write one of them."
                )

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        choices = _choices(task)
        wanted = references(task)
        labels = {_fold(_reference_label(text, choices) or text) for text in wanted}
        label = _answer_label(answer, choices)
        return passed(
            label is not None and _fold(label) in labels,
            answer,
            wanted,
            "No choice label was found." if label is None else "",
        )


def _choices(task: Task) -> dict[str, str]:
    given: Any = task.data.get("choices")
    if isinstance(given, Mapping):
        return {str(label): as_text(text) for label, text in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(zip(string.ascii_uppercase, map(as_text, given), strict=False))
    return {}


def _reference_label(text: str, choices: Mapping[str, str]) -> str | None:
    return _label_named(text.strip().strip("().:"), choices) or _label_of(text, choices)


def _answer_label(answer: str, choices: Mapping[str, str]) -> str | None:
    if alone := _ALONE.fullmatch(answer):
        return alone[1]
    if label := _label_of(answer, choices):
        return label
    last = next((line for line in reversed(answer.splitlines()) if line.strip()), "")
    match = _LEADING.match(last) or _STATED.search(last)
    return match[1] if match else None


def _label_named(text: str, choices: Mapping[str, str]) -> str | None:
    return next((label for label in choices if _fold(label) == _fold(text)), None)


def _label_of(text: str, choices: Mapping[str, str]) -> str | None:
    return next((label for label, choice in choices.items() if _fold(choice) == _fold(text)), None)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
