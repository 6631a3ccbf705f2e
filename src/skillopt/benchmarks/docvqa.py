"""DocVQA: questions about the image of a document page, scored by ANLS.

A row: `questionId,question,answer,image_path,topic` in CSV (or the same fields in JSONL or JSON), such as
`337,"What is the date on the memo?","['May 2, 1997']",images/ffbf0023_1.png,handwritten`. `id`,
`ground_truth` and `category` are second names; the answers are a list as Python or JSON writes it, or one
answer. A path may also stand in the question as `document_path: ...`.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from skillopt.messages import Image
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

MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
}
ID_FIELDS = ("questionId", "id")
_PATH_IN_QUESTION = re.compile(r"\s*\bdocument_path:\s*(\S+)")


class DocVQASettings(CommonSettings):
    """The `env.*` keys of DocVQA."""

    usual = Path("data/docvqa_split")

    image_detail: Literal["auto", "low", "high"] = "auto"
    """How closely the model looks at the page, for providers that can be told; auto sends nothing."""
    data_root: Path | None = None
    """Folder that image paths start from; unset is that of the tasks file, or where you are."""


class PageImage(Image):
    """The image of a page, read from its file when needed: all pages would not fit into memory."""

    __slots__ = ("path",)
    path: Path

    def __init__(self, path: Path, detail: str | None) -> None:
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "media_type", MEDIA_TYPES[path.suffix.lower()])
        object.__setattr__(self, "detail", detail)

    @property
    def data(self) -> str:
        """The bytes of the file, base64 encoded."""
        return base64.b64encode(self.path.read_bytes()).decode()


class DocVQA(QuestionBenchmark):
    """Questions about pages."""

    name = "docvqa"
    Settings = DocVQASettings
    defaults = published_defaults(workers=16)
    shows_images = True
    published_ids = ID_FIELDS

    def __init__(self, settings: DocVQASettings) -> None:
        detail = None if settings.image_detail == "auto" else settings.image_detail
        scorer = get_scorer("anls")
        read = partial(to_task, root=settings.data_root, detail=detail)
        super().__init__(
            splits=load_splits(settings, TaskLoader(read, scorer.check_task)),
            scorer=scorer,
            system=package_text("docvqa_system.md"),
            seed_skill=package_text("docvqa_skill.md"),
        )

    @classmethod
    def moved(cls, row: DataRow, folder: Path) -> Mapping[str, Any]:
        """The row with a path to its image that leads there from the folder."""
        page = page_of(row, None)
        return {**row.data, "image_path": Path(os.path.relpath(page, folder)).as_posix()}


PLUGIN = DocVQA


def to_task(row: DataRow, root: Path | None = None, detail: str | None = None) -> Task:
    """The task of a row, with its page."""
    page = PageImage(page_of(row, root), detail)
    asked = _PATH_IN_QUESTION.sub("", row.text("question")).strip()
    value = row.first("answer", "ground_truth", "answers")
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _listed(row, value)
    given = value if isinstance(value, list) else [value]
    answers = [str(text) for text in given if text is not None and str(text).strip()]
    if not answers:
        raise row.error("has no answer. Give it one, or a list of acceptable ones, under 'answer'.")
    return Task(
        id=row.id(*ID_FIELDS),
        prompt=f"## Question\n\n{asked}",
        reference=answers,
        kind=str(row.first("topic", "category") or ""),
        images=(page,),
        data={"question": asked},
    )


def page_of(row: DataRow, root: Path | None) -> Path:
    """The image that a row names, from `root` or else from its file's folder or the working directory."""
    in_question = _PATH_IN_QUESTION.search(str(row.data.get("question")))
    written = row.data.get("image_path") or (in_question[1] if in_question else "")
    if not isinstance(written, str) or not written:
        raise row.error("names no image. Give it one under 'image_path'.")
    folders = [root] if root is not None else [row.path.parent, Path()]
    found = next((path for folder in folders if (path := folder / written).is_file()), None)
    if found is None:
        looked = " and ".join(str(folder.absolute()) for folder in folders)
        raise row.error(f"there is no image {written!r} in {looked}. Set env.data_root to where paths start.")
    if found.suffix.lower() not in MEDIA_TYPES:
        raise row.error(f"{written!r} is no image that models take; use one of {', '.join(MEDIA_TYPES)}.")
    return found


def _listed(row: DataRow, text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise row.error(
        "the answers start like a list but are none, neither as JSON nor as Python. Correct them."
    )
