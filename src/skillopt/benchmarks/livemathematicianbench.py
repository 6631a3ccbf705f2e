"""LiveMathematicianBench: research mathematics as multiple choice, made from recent theorems.

A raw row, of the monthly files `qa_202511_final.json`: `{"month": "202511", "no": 7, "theorem": "...",
"sketch": "...", "theorem_type": ["Existence"], "mcq": {"question": "...", "choices": [{"label": "B", "text":
"..."}, ...], "correct_choice": {"label": "A", "text": "..."}}}`. The right choice is always A there and
missing among the choices, so it is added, and the choices are put into an order of the item's own. A
normalised row: `{"id": "202511:7", "question": "...", "choices": [{"label": "A", "text": "..."}, ...],
"answer": "C"}`.
"""

from __future__ import annotations

import hashlib
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from skillopt.errors import TaskError
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

LABELS = string.ascii_uppercase
_MONTH = re.compile(r"(\d{6})")
_TEXT_KEYS = ("text", "choice", "content")


class LiveMathSettings(CommonSettings):
    """The `env.*` keys of LiveMathematicianBench."""

    usual = Path("data/livemathematicianbench_split")

    data_path: Path | None = None
    """File with all tasks, or a folder with the monthly files qa_<month>_final.json."""
    shuffle_choices: bool = True
    """Put the choices of each item into an order of its own; in raw files A is right."""
    choice_seed: int = Field(default=42, ge=0)
    """Seed of that order; the same in training, gate and test."""
    use_theorem: bool = False
    """Show the theorem that the question was made from."""
    use_sketch: bool = False
    """Show the sketch of its proof."""


class LiveMath(QuestionBenchmark):
    """Theorems as multiple choice. A row is known by its id, or by month and number."""

    name = "livemathematicianbench"
    Settings = LiveMathSettings
    defaults = published_defaults(workers=64, exec_timeout=300.0)
    published_ids = ("id",)

    def __init__(self, settings: LiveMathSettings) -> None:
        scorer = get_scorer("multiple_choice")
        loader = TaskLoader(partial(to_task, settings=settings), scorer.check_task)
        super().__init__(
            splits=load_splits(settings, loader, load=load_months),
            scorer=scorer,
            system=package_text("livemath_system.md"),
            seed_skill=package_text("livemath_skill.md"),
        )

    @classmethod
    def raw_rows(cls, source: Path, bad: list[TaskError]) -> list[DataRow]:
        """The rows of the monthly files."""
        return load_months(source, bad=bad)

    @classmethod
    def row_id(cls, row: DataRow) -> str | None:
        """The id of a row: as it stands, else month (of the row or its file) and number; or None."""
        if (given := super().row_id(row)) is not None:
            return given
        in_name = _MONTH.search(row.path.name)
        month = row.data.get("month") or (in_name[1] if in_name else None)
        number = row.data.get("no")
        return None if month is None or number is None else f"{month}:{number}"

    @classmethod
    def moved(cls, row: DataRow, folder: Path) -> Mapping[str, Any]:
        """The row with its id: the month may stand only in the name of its file."""
        return {"id": cls.row_id(row), **row.data}


PLUGIN = LiveMath


def load_months(path: Path, bad: list[TaskError]) -> list[DataRow]:
    """The rows of a file, or of every monthly file below a folder, in the order of the months."""
    months = sorted(path.rglob("qa_*_final.json")) if path.is_dir() else []
    return [row for file in months or [path] for row in load_rows(file, bad=bad)]


def to_task(row: DataRow, settings: LiveMathSettings) -> Task:
    """The task of a row; the question is in the object under `mcq` or in the row itself."""
    name = LiveMath.row_id(row)
    if name is None:
        raise row.error("has no id. Give it one, or month and no, as the monthly files do.")
    asked: Any = row.data.get("mcq", row.data)
    if not isinstance(asked, Mapping):
        raise row.error("'mcq' is no object with a question and choices. Correct the row.")
    question = replace(row, data=asked).text("question")
    texts, right = _choices(row, asked)
    if settings.shuffle_choices:
        order = list(range(len(texts)))
        seed = hashlib.sha256(f"{settings.choice_seed}:{name}".encode()).hexdigest()[:16]
        random.Random(int(seed, 16)).shuffle(order)
        texts, right = [texts[place] for place in order], order.index(right)
    choices = dict(zip(LABELS, texts, strict=False))
    kind = row.data.get("theorem_type")
    return Task(
        id=name,
        prompt="\n\n".join(_sections(row, settings, question, choices)),
        reference=LABELS[right],
        kind=", ".join(map(str, kind)) if isinstance(kind, list) else str(kind or ""),
        data={"choices": choices, "paper_link": row.data.get("paper_link")},
    )


def _sections(
    row: DataRow, settings: LiveMathSettings, question: str, choices: Mapping[str, str]
) -> Iterator[str]:
    for field, is_wanted in (("theorem", settings.use_theorem), ("sketch", settings.use_sketch)):
        if is_wanted:
            text = row.data.get(field)
            if not isinstance(text, str) or not text.strip():
                raise row.error(
                    f"has no {field}, which env.use_{field} asks for. Add it, or set that to false."
                )
            yield f"## {field.title()}\n\n{text.strip()}"
    yield f"## Question\n\n{question}"
    yield "## Choices\n\n" + "\n\n".join(f"{label}. {text}" for label, text in choices.items())


def _choices(row: DataRow, asked: Mapping[str, Any]) -> tuple[list[str], int]:
    """The texts of the choices, the right one among them, and its place."""
    labelled = _labelled(row, asked.get("choices"))
    told = next((asked[key] for key in ("correct_choice", "answer", "correct") if asked.get(key)), None)
    has_labels = isinstance(asked["choices"], Mapping) or any(
        isinstance(one, Mapping) for one in asked["choices"]
    )
    label, text = _right(row, told, labelled, has_labels)
    if text is None and label not in labelled:
        raise row.error(
            f"the right choice {label!r} is no label of a choice and has no text of its own. Correct the row."
        )
    if label in labelled and text is not None and labelled[label] != text:
        raise row.error(f"two different choices have the label {label!r}. Correct the row.")
    if label not in labelled:
        labelled = {label: text or "", **labelled}
    texts = [labelled[key] for key in sorted(labelled)]
    if len(set(texts)) != len(texts):
        raise row.error("two choices have the same text. Correct the row.")
    if not 2 <= len(texts) <= len(LABELS):
        raise row.error(f"has {len(texts)} choices; between 2 and {len(LABELS)} can be asked.")
    return texts, sorted(labelled).index(label)


def _labelled(row: DataRow, given: Any) -> dict[str, str]:
    if isinstance(given, Mapping):
        pairs = [(str(label), _text(text)) for label, text in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        labels = [LABELS[at % 26] for at in range(len(given))]
        pairs = [
            (str(one.get("label", label)) if isinstance(one, Mapping) else label, _text(one))
            for label, one in zip(labels, given, strict=True)
        ]
    else:
        raise row.error("'choices' is no list. Give the row its choices.")
    labelled = dict(pairs)
    if not all(labelled.values()) or len(labelled) != len(pairs):
        raise row.error("a choice has no text, or two have the same label. Correct the choices.")
    return labelled


def _right(row: DataRow, given: Any, labelled: Mapping[str, str], has_labels: bool) -> tuple[str, str | None]:
    """Label and, where it is told, text of the right choice."""
    is_told = isinstance(given, Mapping) and bool(given.get("label"))
    if is_told and _text(given) and not has_labels:
        given = _text(given)  # the labels of the choices are ours, and its own would be one of them
    if isinstance(given, Mapping) and is_told:
        return str(given["label"]), _text(given) or None
    text = _text(given)
    if not text:
        raise row.error("does not say which choice is right. Add 'correct_choice'.")
    if text in labelled or (len(text) == 1 and text in LABELS):
        return text, None
    known = next((label for label, choice in labelled.items() if choice == text), None)
    free = next(label for label in LABELS if label not in labelled)
    return (free, text) if known is None else (known, text)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _TEXT_KEYS if value.get(key)), "")
    return value.strip() if isinstance(value, str) else ""
