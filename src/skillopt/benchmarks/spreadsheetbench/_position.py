"""Decides which cells an `answer_position` means, however its quotes were written; one that means none is an
error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CORNER = r"\$?([A-Za-z]{1,3})?\$?([0-9]{1,7})?"
_PART = re.compile(rf"\s*(?:(?:'((?:[^']|'')*)'|([^!,]*?))!)?'?{_CORNER}(?::{_CORNER})?'?\s*(?:,|$)")
_LAST_COLUMN, _LAST_ROW = 16_384, 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A rectangle of cells on a sheet, counted from 1; `sheet` None is the first one, an open end reaches as
    far as there are cells.
    """

    sheet: str | None
    first_column: int
    first_row: int
    last_column: int | None
    last_row: int | None

    def as_json(self) -> list[str | int | None]:
        """The rectangle for the reader."""
        return [self.sheet, self.first_column, self.first_row, self.last_column, self.last_row]


def parse_position(text: str, sheet: str | None = None) -> tuple[Area, ...]:
    """The areas of `'Sheet 1'!A1:B3, C4` or `A:C`, on `sheet` where the text names none. Raises `ValueError`
    that says what is wrong.
    """
    areas = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        area = None if match is None else _area(match, sheet)
        if match is None or area is None:
            raise ValueError(f"{text[at:].strip()!r} is no range of cells such as Sheet1!A1:B3")
        areas.append(area)
        at = match.end()
    if not areas:
        raise ValueError("it names no cells")
    return tuple(areas)


def column_number(letters: str) -> int:
    """A is 1, Z 26, AA 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _area(match: re.Match[str], sheet: str | None) -> Area | None:
    quoted, bare, *corners = match.groups()
    own = (bare or "").strip().strip("'") if quoted is None else quoted.replace("''", "'")
    left, top, right, bottom = corners
    if left is None and top is None:
        return None
    if ":" not in match.group(0).rpartition("!")[2]:
        if left is None or top is None:  # one letter or one number alone is no cell
            return None
        right, bottom = left, top
    elif (left is None) != (right is None):  # A1:3
        return None
    columns = sorted([column_number(left), column_number(right)]) if left and right else [1, None]
    rows = sorted([int(top), int(bottom)]) if top and bottom else [int(top or bottom or 1), None]
    if (columns[1] or 1) > _LAST_COLUMN or (rows[1] or rows[0] or 1) > _LAST_ROW or rows[0] == 0:
        return None
    first_column, first_row = columns[0], rows[0]
    assert first_column is not None and first_row is not None, "an area begins somewhere"
    return Area(
        sheet=(own or sheet or None),
        first_column=first_column,
        first_row=first_row,
        last_column=columns[1],
        last_row=rows[1],
    )
