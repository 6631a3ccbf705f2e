"""Reads rows into questions: which documents belong to each, and which of their pages are shown as text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from skillopt.benchmarks.officeqa._environment import Library
from skillopt.benchmarks.officeqa._score import MONTHS
from skillopt.tasks.rows import DataRow
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

LONGEST_PAGE = 24_000
LONGEST_ALL = 80_000
_ISSUE = re.compile(r"/([a-z]+)-(\d{4})(?:-\d+)?/?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSource:
    """A page of a document, as a row names it."""

    stem: str
    page: int


def sources(links: Sequence[str], files: Sequence[str]) -> list[PageSource]:
    """The pages that links name: `.../january-1941-6529?page=15` is page 15 of treasury_bulletin_1941_01; a
    link may name none.
    """
    stems = [Path(name).stem for name in files]
    found = []
    for link in links:
        parts = urlsplit(link.strip())
        named = parse_qs(parts.query).get("page", [])
        numbers = [number for number in named if number.isdecimal() and int(number) > 0]
        issue = _ISSUE.search(parts.path.lower())
        month = MONTHS.index(issue[1]) + 1 if issue and issue[1] in MONTHS else None
        stem = f"treasury_bulletin_{issue[2]}_{month:02d}" if issue and month else ""
        if stem not in stems and len(stems) == 1:
            stem = stems[0]
        if numbers and stem in stems:
            found.append(PageSource(stem=stem, page=int(numbers[0])))
    return list(dict.fromkeys(found))


def page_text(parsed: Path, page: int) -> str | None:
    """The text of the n-th page of a parsed document, from its beginning; None where it has no such page."""
    document = _document(parsed)
    elements = [one for one in document.get("elements") or [] if isinstance(one, dict)]
    numbers = sorted({number for one in elements if (number := _page_of(one)) is not None})
    listed = [one.get("id") for one in document.get("pages") or [] if isinstance(one, dict)]
    is_listed = bool(listed) and all(isinstance(number, int) for number in listed)
    order = listed if is_listed else list(range(numbers[-1] + 1)) if numbers else []
    if not 1 <= page <= len(order):
        return None
    contents = [one.get("content") for one in elements if _page_of(one) == order[page - 1]]
    texts = [as_text(content) for content in contents if isinstance(content, str) and content.strip()]
    return _clipped("\n\n".join(texts), LONGEST_PAGE)


def as_text(content: str) -> str:
    """An element's content; an HTML table as a Markdown table."""
    if "<table" not in content.lower():
        return content.strip()
    reader = _Tables()
    reader.feed(content)
    reader.close()
    return "\n\n".join(_markdown(rows) for rows in reader.tables if rows)


def shown(pages: Sequence[tuple[str, str]]) -> str:
    """Pages with their titles, up to the limit of all of them together."""
    return _clipped("\n\n".join(f"### {title}\n\n{text}" for title, text in pages), LONGEST_ALL)


def _document(parsed: Path) -> dict[str, Any]:
    whole = json.loads(parsed.read_text(encoding="utf-8"))
    document = whole.get("document") if isinstance(whole, dict) else None
    return document if isinstance(document, dict) else {}


def _page_of(element: dict[str, Any]) -> int | None:
    boxes = element.get("bbox")
    first = boxes[0] if isinstance(boxes, list) and boxes and isinstance(boxes[0], dict) else {}
    number = first.get("page_id")
    return number if isinstance(number, int) else None


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[cut here; read the document for the rest]"


def _markdown(rows: list[list[str]]) -> str:
    width = max(map(len, rows))
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    return "\n".join([lines[0], f"| {' | '.join(['---'] * width)} |", *lines[1:]])


class _Tables(HTMLParser):
    """The rows of all tables; a cell over columns is followed by blanks, one over rows is repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._below: dict[int, tuple[int, str]] = {}
        self._cell: list[str] | None = None
        self._spans = (1, 1)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
            self._below = {}
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
            self._fill()
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            given = dict(attrs)
            self._spans = (_span(given.get("colspan")), _span(given.get("rowspan")))
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            text = " ".join("".join(self._cell).split()).replace("|", "\\|")
            row, (columns, rows) = self.tables[-1][-1], self._spans
            for value in [text] + [""] * (columns - 1):
                if rows > 1:
                    self._below[len(row)] = (rows - 1, value)
                row.append(value)
            self._cell = None
            self._fill()

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _fill(self) -> None:
        """Repeat what spans down into this row, as far as it is next."""
        row = self.tables[-1][-1]
        while (below := self._below.get(len(row))) is not None and len(self.tables[-1]) > 1:
            left, value = below
            if left > 1:
                self._below[len(row)] = (left - 1, value)
            else:
                del self._below[len(row)]
            row.append(value)


def _span(value: str | None) -> int:
    return min(int(value), 100) if value and value.isdecimal() and int(value) else 1


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
