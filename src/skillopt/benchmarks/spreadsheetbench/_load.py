"""How a row of SpreadsheetBench becomes a task: its workbooks in pairs, its cells, and a preview."""

from __future__ import annotations

import hashlib
import importlib
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.errors import ConfigError
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

CATALOGUE = "dataset.json"
PREVIEW_ROWS, PREVIEW_COLUMNS, PREVIEW_CELL = 5, 20, 40
_MOST_UNPACKED = 256 << 20
_ENDINGS = (("_input", "_answer"), ("_init", "_golden"), ("initial", "golden"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadsheetCase:
    """One workbook to work on, and the one that should come out, which only the scorer opens."""

    name: str
    input: Path
    golden: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What scoring a task needs."""

    cases: tuple[SpreadsheetCase, ...]
    areas: tuple[Area, ...]


def openpyxl() -> Any:
    """The package that reads workbooks, imported when it is first needed."""
    try:
        return importlib.import_module("openpyxl")
    except ImportError as error:
        raise ConfigError(
            "'spreadsheetbench' needs openpyxl: pip install 'skillopt-trainer[spreadsheet]'"
        ) from error


class SpreadsheetLoader:
    """Turns rows into tasks and remembers the workbooks of each."""

    def __init__(self, data_root: Path | None, template: str) -> None:
        self.problems: dict[str, Problem] = {}
        self._root = data_root
        self._template = template
        self._whole: Mapping[str, DataRow] | None = None

    def task(self, row: DataRow) -> Task:
        """The task of a row."""
        row = self._completed(row)
        instruction, position = row.text("instruction"), row.text("answer_position")
        sheet = row.data.get("answer_sheet")
        named = sheet if isinstance(sheet, str) and sheet.strip() else None
        try:
            areas = parse_position(position, named)
        except ValueError as error:
            raise row.error(
                f"answer_position {position!r}: {error}. Correct it: nothing could be compared."
            ) from error
        problem = Problem(cases=tuple(self._cases(row)), areas=areas)
        task_id = row.id("id")
        kind = row.data.get("instruction_type")
        kind = kind if isinstance(kind, str) else ""
        values = {
            "instruction": instruction,
            "kind": kind or "not given",
            "position": f"{position} (sheet {named!r})" if named and "!" not in position else position,
            "preview": _preview_of(row, problem.cases[0].input),
        }
        self.problems[task_id] = problem
        return Task(
            id=task_id,
            prompt=fill(self._template, values).strip(),
            kind=kind,
            files=(problem.cases[0].input,),
            data={
                "answer_position": position,
                "answer_sheet": sheet,
                "workbooks": [_digest(case) for case in problem.cases],
            },
        )

    def _completed(self, row: DataRow) -> DataRow:
        """The row itself, or the one of the same id in the data folder where only the id is given."""
        if "instruction" in row.data:
            return row
        if self._whole is None:
            catalogue = self._folder(row) / CATALOGUE
            if not catalogue.is_file():
                raise row.error(
                    f"has no instruction, and there is no {catalogue} to take it from. Set env.data_root."
                )
            self._whole = {each.id("id"): each for each in load_rows(catalogue)}
        found = self._whole.get(row.id("id"))
        if found is None:
            raise row.error(
                f"there is no task {row.id('id')!r} in {self._folder(row) / CATALOGUE}. Correct the id, or"
                " env.data_root."
            )
        return DataRow(path=row.path, line=row.line, data={**found.data, **row.data})

    def _folder(self, row: DataRow) -> Path:
        return self._root if self._root is not None else row.path.parent

    def _cases(self, row: DataRow) -> Iterator[SpreadsheetCase]:
        folder = self._folder(row) / row.text("spreadsheet_path")
        if not folder.is_dir():
            raise row.error(f"there is no folder {folder} with its workbooks. Set env.data_root to theirs.")
        found = sorted(folder.glob("*.xlsx"), key=lambda path: _natural(path.stem))
        pairs = [
            (path, path.with_name(f"{path.stem[: -len(given)]}{wanted}.xlsx"))
            for path in found
            for given, wanted in _ENDINGS
            if path.stem.endswith(given)
        ]
        for number, (path, golden) in enumerate(pairs, start=1):
            if not golden.is_file():
                raise row.error(f"{path} has no {golden.name} beside it to compare with. Complete the data.")
            yield SpreadsheetCase(name=str(number), input=path, golden=golden)
        if not pairs:
            known = ", ".join(f"*{given}.xlsx with *{wanted}.xlsx" for given, wanted in _ENDINGS)
            raise row.error(f"{folder} holds no workbooks in pairs ({known}). Complete the data.")


def _preview_of(row: DataRow, path: Path) -> str:
    try:
        return preview(path)
    except Exception as error:  # a damaged workbook makes openpyxl raise whatever it meets in it
        raise row.error(f"{path} cannot be opened as a workbook: {error!r}. Fetch it anew.") from error


def preview(path: Path) -> str:
    """The first rows of every sheet, as the target is shown them; formulas as they are written."""
    with warnings.catch_warnings():
        # openpyxl warns of whatever it could not write back; nothing is written here
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path) as package:  # which never gives more of a file than its list says
            if sum(part.file_size for part in package.infolist()) > _MOST_UNPACKED:
                raise ValueError(f"unpacked it is larger than {_MOST_UNPACKED >> 20} MiB")
        book = openpyxl().load_workbook(path, read_only=True)
        try:
            return "\n\n".join(_sheet(sheet) for sheet in book.worksheets)
        finally:
            book.close()


def _sheet(sheet: Any) -> str:
    rows = list(sheet.iter_rows(max_row=PREVIEW_ROWS, max_col=PREVIEW_COLUMNS, values_only=True))
    size = f"{sheet.max_row or 0} rows, {sheet.max_column or 0} columns"
    lines = [" | ".join(_cell(value) for value in row).rstrip(" |") for row in rows]
    return f"Sheet {sheet.title!r} ({size}):\n" + (
        "\n".join(f"{n}: {line}" for n, line in enumerate(lines, start=1)) or "(no cells)"
    )


def _cell(value: Any) -> str:
    text = "" if value is None else " ".join(str(getattr(value, "text", value)).split())
    return text if len(text) <= PREVIEW_CELL else text[: PREVIEW_CELL - 3] + "..."


def _digest(case: SpreadsheetCase) -> str:
    """What makes two cases the same, whatever their folder."""
    parts = [hashlib.sha256(path.read_bytes()).digest() for path in (case.input, case.golden)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


_CORNER = r"\$?([A-Za-z]{1,3})?\$?([0-9]{1,7})?"
_PART = re.compile(rf"\s*(?:(?:'((?:[^']|'')*)'|([^!,]*?))!)?'?{_CORNER}(?::{_CORNER})?'?\s*(?:,|$)")
_LAST_COLUMN, _LAST_ROW = 16_384, 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A rectangle of cells, counted from 1; `sheet` None is the first, an open end is that of the cells."""

    sheet: str | None
    first_column: int
    first_row: int
    last_column: int | None
    last_row: int | None

    def as_json(self) -> list[str | int | None]:
        """The rectangle for the reader."""
        return [self.sheet, self.first_column, self.first_row, self.last_column, self.last_row]


def parse_position(text: str, sheet: str | None = None) -> tuple[Area, ...]:
    """The areas of `'Sheet 1'!A1:B3, C4` or `A:C`, else on `sheet`. Raises `ValueError` with a reason."""
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
