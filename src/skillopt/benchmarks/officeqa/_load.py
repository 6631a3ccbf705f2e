"""Reads rows into questions: which documents belong to each, and which of their pages are shown with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from skillopt.benchmarks.officeqa._environment import Library
from skillopt.benchmarks.officeqa._pages import page_text, shown, sources
from skillopt.tasks.rows import DataRow
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill


class OfficeQALoader:
    """Turns rows into tasks."""

    def __init__(
        self, library: Library, template: str, *, shows_pages: bool, shows_documents: bool = True
    ) -> None:
        """`shows_documents`: the target may look into the documents, so they are part of the task."""
        self._library = library
        self._template = template
        self._shows_pages = shows_pages and library.has_pages
        self._shows_documents = shows_documents

    def task(self, row: DataRow) -> Task:
        """The task of a row."""
        question = _text(row, "question")
        names = _list(row, "source_files")
        if not names:
            raise row.error("names no source_files. Give it the names of its documents.")
        try:
            documents = tuple(self._library.text(name) for name in names)
            pages = self._pages(row, names) if self._shows_pages else ""
        except LookupError as error:
            raise row.error(f"source_files: {error.args[0]}.") from error
        listed = "\n".join(f"- {path.name}" for path in documents)
        return Task(
            id=_text(row, "uid", "id"),
            prompt=fill(self._template, {"question": question, "documents": listed, "pages": pages}).strip(),
            reference=_text(row, "ground_truth", "answer"),
            kind=_text(row, "category", "difficulty", optional=True),
            files=documents if self._shows_documents else (),
            data={"question": question},
        )

    def _pages(self, row: DataRow, names: Sequence[str]) -> str:
        found = []
        for source in sources(_list(row, "source_docs"), names):
            parsed = self._library.parsed(source.stem)
            try:
                text = page_text(parsed, source.page)
            except ValueError as error:
                raise row.error(f"{parsed} is not JSON: {error}.") from error
            if text is None:
                raise row.error(
                    f"source_docs names page {source.page} of {source.stem}, which {parsed} does not have."
                )
            found.append((f"{source.stem}, page {source.page}", text))
        return f"\n\n## Pages\n\n{shown(found)}" if found else ""


def _text(row: DataRow, *fields: str, optional: bool = False) -> str:
    """A text or a number, as a text."""
    value = row.first(*fields)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is None and optional:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise row.error(f"has no {' or '.join(fields)}. Give the row one.")
    return value.strip()


def _list(row: DataRow, field: str) -> list[str]:
    """A list, or the text of one: in brackets, or one name a line, or with commas or semicolons between."""
    value: Any = row.data.get(field)
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError) as error:
            raise row.error(f"{field!r} starts like a list but is none: {error}. Correct it.") from error
    if isinstance(value, str):
        value = re.split(r"[\n,;]", value)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise row.error(f"{field!r} is no text and no list of texts. Correct it.")
    return list(dict.fromkeys(one.strip() for one in value if one.strip()))
