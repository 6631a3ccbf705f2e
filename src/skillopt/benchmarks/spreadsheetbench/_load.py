"""Decides how a row of SpreadsheetBench becomes a task: its workbooks in pairs, its cells, and what the
target is shown of them.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.benchmarks.spreadsheetbench._position import Area, parse_position
from skillopt.errors import ConfigError
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

CATALOGUE = "dataset.json"
PREVIEW_ROWS, PREVIEW_COLUMNS, PREVIEW_CELL = 5, 20, 40
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
