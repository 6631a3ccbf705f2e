"""A small data folder in the form of SpreadsheetBench, made here: every task wants the numbers of column A
doubled in column B.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl

from skillopt.benchmarks.spreadsheetbench import PLUGIN, SpreadsheetSettings
from skillopt.benchmarks.spreadsheetbench._benchmark import SpreadsheetBench
from skillopt.tasks.rollout import Trajectory

GOLDEN_MARK = 987_654
"""Stands in every golden workbook, outside of the cells that are compared, and nowhere else."""
DOUBLE = """\
import openpyxl
book = openpyxl.load_workbook(INPUT_PATH)
sheet = book["Data"]
for row in range(2, sheet.max_row + 1):
    sheet.cell(row, 2, sheet.cell(row, 1).value * 2)
book.save(OUTPUT_PATH)
"""
"""A right program."""


def write_book(path: Path, cells: dict[str, Any], sheet: str = "Data") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    book = openpyxl.Workbook()
    page = book.active
    page.title = sheet
    for address, value in cells.items():
        page[address] = value
    book.save(path)


def write_cases(
    folder: Path, name: str, values: Sequence[Sequence[int]], ends: tuple[str, str] = ("_input", "_answer")
) -> None:
    for number, case in enumerate(values, start=1):
        given = {
            "A1": "Number",
            "B1": "Double",
            **{f"A{row}": value for row, value in enumerate(case, start=2)},
        }
        doubled = {f"B{row}": 2 * value for row, value in enumerate(case, start=2)}
        write_book(folder / f"{number}_{name}{ends[0]}.xlsx", given)
        write_book(folder / f"{number}_{name}{ends[1]}.xlsx", {**given, **doubled, "D1": GOLDEN_MARK})


def row(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "instruction": f"Put twice the number of column A into column B ({name}).",
        "instruction_type": "Cell-Level Manipulation",
        "answer_position": "B2:B4",
        "spreadsheet_path": f"spreadsheet/{name}",
        **changes,
    }


def make_data(root: Path, count: int = 5, cases: int = 3, **changes: Any) -> Path:
    """A folder with `dataset.json` and the workbooks of `count` tasks."""
    names = [f"task-{number}" for number in range(count)]
    for number, name in enumerate(names):
        write_cases(root / "spreadsheet" / name, name, [[number + 3, case + 20, 7] for case in range(cases)])
    (root / "dataset.json").write_text(json.dumps([row(name, **changes) for name in names]), encoding="utf-8")
    return root


def bench(root: Path, **settings: Any) -> SpreadsheetBench:
    """The benchmark over such a folder, all in train and val."""
    given = {
        "data_path": root / "dataset.json",
        "split_ratio": "1:1:0",
        "mode": "single",
        "code_timeout": 20,
        **settings,
    }
    made = PLUGIN(SpreadsheetSettings(**given))
    assert isinstance(made, SpreadsheetBench)
    return made


def replied(code: str | None) -> Trajectory:
    """A rollout whose reply holds this program."""
    return Trajectory(
        messages=(),
        answer="Done." if code is None else f"Here it is.\n\n```python\n{code}\n```\n",
        calls=1,
        usage=None,
    )
