"""Finds the pages that a row names in a parsed document, as text with Markdown tables."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from skillopt.benchmarks.officeqa._answers import MONTHS

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
