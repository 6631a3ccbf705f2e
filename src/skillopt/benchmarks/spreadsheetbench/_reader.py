"""Reads cells out of workbooks that nobody trusts; a program of its own that runs in the sandbox.

Asked by JSON on stdin: `{"workbooks": [path, ...], "areas": [[sheet, first column, first row, last column,
last row], ...]}`. Answers with one object for each workbook: `{"sheets", "missing", "cells",
"uncalculated"}`, or `{"error"}` where it cannot be read.

A formula's value is the one that is stored with it. Where none is - openpyxl stores none - it is calculated
by formualizer. A stored 0 in a workbook that asks to be calculated on opening is what XlsxWriter leaves
everywhere, so that is calculated too.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import formualizer  # type: ignore[import-not-found, import-untyped, unused-ignore]
import openpyxl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from openpyxl.utils.datetime import from_excel, to_excel  # type: ignore[import-not-found, import-untyped, unused-ignore]

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_ERRORS = {
    "Div": "#DIV/0!",
    "Na": "#N/A",
    "Name": "#NAME?",
    "Null": "#NULL!",
    "Num": "#NUM!",
    "Ref": "#REF!",
    "Value": "#VALUE!",
}


def main() -> None:
    """Read what stdin names and print it."""
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    print(json.dumps([_workbook(path, job["areas"]) for path in job["workbooks"]]))


def _workbook(path: str, areas: list[list[Any]]) -> dict[str, Any]:
    try:
        return _Book(path).read(areas)
    except Exception as error:  # noqa: BLE001 - openpyxl raises anything on a damaged file, and this program has one more to read
        return {"error": f"{type(error).__name__}: {error}"[:300]}


class _Book:
    """One workbook with its stored values, and its formulas where they are needed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values = openpyxl.load_workbook(path, data_only=True)
        self.uncalculated: list[str] = []
        self._engine: Any = None

    def read(self, areas: list[list[Any]]) -> dict[str, Any]:
        """The cells of the areas that hold something."""
        cells: dict[str, Any] = {}
        missing = []
        to_calculate: dict[str, set[str]] = {}
        for wanted, *corners in areas:
            name = self.values.sheetnames[0] if wanted is None else self._sheet(wanted)
            if name is None:
                missing.append(wanted)
                continue
            if name not in to_calculate:
                to_calculate[name] = set(_without_value(self.path, name))
            for cell in self._cells(name, *corners):
                value = self._calculated(name, cell) if cell.coordinate in to_calculate[name] else cell.value
                if value is not None:
                    cells[f"{name}!{cell.coordinate}"] = _coded(value)
        return {
            "sheets": self.values.sheetnames,
            "missing": missing,
            "cells": cells,
            "uncalculated": self.uncalculated[:20],
        }

    def _sheet(self, wanted: str) -> str | None:
        """The sheet of this name, apart from case; as written first, since a blank at its end belongs to a
        name ('HR '), but is easily lost where one is quoted.
        """
        titles: list[str] = [sheet.title for sheet in self.values.worksheets]
        for form in (str.casefold, lambda name: name.strip().casefold()):
            for title in titles:
                if form(title) == form(wanted):
                    return title
        return None

    def _cells(self, name: str, left: int, top: int, right: int | None, bottom: int | None) -> Iterator[Any]:
        sheet = self.values[name]
        last_column, last_row = (
            min(right or sheet.max_column, sheet.max_column),
            min(bottom or sheet.max_row, sheet.max_row),
        )
        if last_column < left or last_row < top:
            return
        for row in sheet.iter_rows(min_col=left, max_col=last_column, min_row=top, max_row=last_row):
            yield from row

    def _calculated(self, name: str, cell: Any) -> Any:
        """What the engine makes of a formula, as the cell's format would have it stored."""
        try:
            if self._engine is None:
                self._engine = formualizer.load_workbook(self.path)
            value = self._engine.evaluate_cell(name, cell.row, cell.column)
        except Exception as error:  # noqa: BLE001 - whatever the engine cannot do leaves this one cell without a value
            self.uncalculated.append(f"{name}!{cell.coordinate}: {error}"[:200])
            return cell.value
        while isinstance(value, list):  # an array shows its first value in the cell that holds the formula
            value = value[0] if value else None
        if isinstance(value, dict):
            kind = str(value.get("kind"))
            if kind not in _ERRORS:
                self.uncalculated.append(f"{name}!{cell.coordinate}: {kind}")
            return _ERRORS.get(kind, f"#{kind.upper()}!")
        if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
            value = to_excel(value)
        if isinstance(value, float) and not isinstance(value, bool) and cell.is_date:
            return from_excel(
                value,
                self.values.epoch,
                timedelta=bool(re.search(r"\[h+\]|\[m+\]", cell.number_format, re.IGNORECASE)),
            )
        return value


def _without_value(path: str, name: str) -> Iterator[str]:
    """The addresses on a sheet whose formula has no stored value to trust."""
    with zipfile.ZipFile(path) as package:
        book = ElementTree.fromstring(package.read("xl/workbook.xml"))
        relations = ElementTree.fromstring(package.read("xl/_rels/workbook.xml.rels"))
        targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
        target = next(
            targets[sheet.get(_RELATION)]
            for sheet in book.iter()
            if _tag(sheet) == "sheet" and sheet.get("name") == name
        )
        on_opening = any(
            _tag(node) == "calcPr" and node.get("fullCalcOnLoad") in ("1", "true") for node in book
        )
        part = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
        with package.open(part) as sheet:
            for _, node in ElementTree.iterparse(sheet):
                if _tag(node) != "c":
                    continue
                parts = {_tag(child): child for child in node}
                value = parts["v"].text if "v" in parts else None
                # the empty text is a value, an empty number is none
                is_stored = value or ("v" in parts and node.get("t") == "str")
                if "f" in parts and (not is_stored or (on_opening and value == "0")):
                    yield node.get("r", "")
                node.clear()


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def _coded(value: Any) -> list[Any]:
    """A value as JSON that remembers its type."""
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, (int, float)):
        return ["number", value] if math.isfinite(value) else ["text", str(value)]
    if isinstance(value, datetime.timedelta):
        return ["duration", value.total_seconds()]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return [type(value).__name__, value.isoformat()]
    return ["text", str(value)]


if __name__ == "__main__":
    main()
