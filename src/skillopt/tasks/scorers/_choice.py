"""Scores multiple choice by the label that an answer commits to; the word "A" in a sentence is no label."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skillopt.tasks.rollout import Score
from skillopt.tasks.scorers._label import fold, label_of_text, read_label
from skillopt.tasks.scorers._scorer import TextScorer, as_text, passed, references
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoice(TextScorer):
    """The label of the right choice.

    The reference is a label, or the text of a choice when the task's data has `choices` (a list is labelled
    A, B, C ..., a mapping by its keys). An answer is a label alone, the text of a choice, or the last
    commitment of a longer reply: `B) Paris`, `The answer is B`, a last line with nothing but the label.
    """

    name: ClassVar[str] = "multiple_choice"
    revision: ClassVar[int] = 3

    def check_task(self, task: Task) -> None:
        """Every reference names a choice; a bare number beside a list of choices is refused, since it could
        count from 0 or from 1.
        """
        choices = _choices(task)
        for text in references(task):
            if choices and _reference_label(text, choices) is None:
                labels = ", ".join(choices)
                raise task.error(
                    f"has the reference {text!r}, neither a label ({labels}) nor the text of a choice."
                    " Write one of them."
                )

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        choices = _choices(task)
        wanted = references(task)
        labels = {fold(_reference_label(text, choices) or text) for text in wanted}
        label = read_label(answer, choices)
        note = "No choice label was found." if label is None else ""
        return passed(label is not None and fold(label) in labels, answer, wanted, note)


def _choices(task: Task) -> dict[str, str]:
    given: Any = task.data.get("choices")
    if isinstance(given, Mapping):
        return {str(label): as_text(text) for label, text in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(zip(string.ascii_uppercase, map(as_text, given), strict=False))
    return {}


def _reference_label(text: str, choices: Mapping[str, str]) -> str | None:
    bare = fold(text.strip().strip("().:"))
    return next((label for label in choices if fold(label) == bare), None) or label_of_text(text, choices)
