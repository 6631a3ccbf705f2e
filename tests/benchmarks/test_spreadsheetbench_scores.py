"""What SpreadsheetBench scores: cells by the public rules, programs as they are written, and nothing that is
not there.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.worksheet.formula import ArrayFormula

from _needs import needs_bubblewrap
from benchmarks._workbooks import DOUBLE, GOLDEN_MARK, bench, make_data, replied, write_book
from skillopt.benchmarks.spreadsheetbench import _reader
from skillopt.benchmarks.spreadsheetbench._benchmark import (
    MOST_FEEDBACK,
    SpreadsheetBench,
    Value,
    differences,
    same,
    shown,
)
from skillopt.errors import Fault, ScoringError
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        # numbers, to two decimals
        (1, 1.0, True),
        (1, 1.004, True),
        (1, 1.006, False),
        (-0.001, 0, True),
        (2.675, 2.68, False),  # as floats they are 2.67 and 2.68
        (0.145, 0.14500000000000002, True),  # rounding noise across a half
        (1e15, 1e15 + 0.25, True),
        (1e300, 1e300, True),
        (True, 1, True),
        (False, 0, True),
        (True, False, False),
        # numbers in text
        ("3.14159", 3.14, True),
        (" 12 ", 12, True),
        ("1e2", 100, True),
        ("-5", -5, True),
        ("(5)", -5, False),
        ("12%", 0.12, False),
        ("1,234", 1234, False),
        ("1_000", 1000, False),
        ("nan", "nan", True),
        ("nan", "inf", False),
        ("Infinity", "Infinity", True),
        ("007", 7, True),
        ("TRUE", True, False),
        # empty
        (None, "", True),
        (None, None, True),
        ("", "", True),
        (None, 0, False),
        ("", 0, False),
        (None, " ", False),
        (None, False, False),
        # text, exactly
        ("Paris", "Paris", True),
        ("Paris", "paris", False),
        ("Paris", "Paris ", False),
        ("Zürich", "Zürich", True),
        ("#N/A", "#N/A", True),
        ("#N/A", None, False),
        # dates, to the day
        (datetime(2024, 1, 5), datetime(2024, 1, 5, 11, 59), True),
        (datetime(2024, 1, 5), datetime(2024, 1, 5, 12), False),
        (datetime(2024, 1, 6), datetime(2024, 1, 5, 12), True),
        (datetime(2024, 1, 5), date(2024, 1, 5), True),
        (datetime(2024, 1, 5), 45296, True),
        (datetime(2024, 1, 5), "45296", True),
        (datetime(2024, 1, 5), "2024-01-05", False),
        (datetime(2024, 1, 5), datetime(2023, 1, 5), False),
        # times, to the minute
        (time(12, 30), time(12, 30, 59), True),
        (time(12, 30), time(12, 30, 0, 500_000), True),
        (time(12, 30), time(12, 31), False),
        (time(12, 30), "12:30", True),
        (time(12, 30), 0.52, False),
        (time(12, 30), timedelta(hours=12, minutes=30), True),
        (timedelta(hours=49, minutes=30), timedelta(hours=49, minutes=30, seconds=20), True),
        (timedelta(hours=49), time(1, 0), False),
    ],
)
def test_two_cells_are_the_same(one: Value, other: Value, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_every_cell_that_differs_is_named_also_one_that_should_be_empty() -> None:
    found = differences({"S!A1": 1, "S!A2": "x", "S!A3": ""}, {"S!A1": 1.0, "S!B9": 5})
    assert [(each.address, each.expected, each.got) for each in found] == [
        ("S!A2", "x", None),
        ("S!B9", None, 5),
    ]
    assert [shown(value) for value in (None, "", "x", 5, 2.5, True, date(2024, 1, 5))] == [
        "(empty)",
        "(empty)",
        "'x'",
        "5",
        "2.5",
        "True",
        "2024-01-05",
    ]
    assert len(shown("x" * 5000)) < 200


def read(path: Path, *areas: list[Any]) -> dict[str, Any]:
    return _reader._workbook(str(path), [list(area) for area in areas or [[None, 1, 1, 10, 40]]])


@pytest.mark.parametrize("wanted", ["HR ", "HR", "hr "])
def test_a_sheet_whose_name_ends_with_a_blank_is_found(wanted: str, tmp_path: Path) -> None:
    write_book(tmp_path / "book.xlsx", {"A1": 7}, sheet="HR ")
    found = read(tmp_path / "book.xlsx", [wanted, 1, 1, 1, 1])
    assert (found["missing"], found["cells"]) == ([], {"HR !A1": ["number", 7]})


def test_of_two_sheets_that_differ_by_a_blank_the_one_as_written_is_read(tmp_path: Path) -> None:
    write_book(tmp_path / "book.xlsx", {"A1": 7}, sheet="HR")
    book = openpyxl.load_workbook(tmp_path / "book.xlsx")
    book.create_sheet("HR ")["A1"] = 8
    book.save(tmp_path / "book.xlsx")
    for sheet, value in (("HR", 7), ("HR ", 8)):
        assert read(tmp_path / "book.xlsx", [sheet, 1, 1, 1, 1])["cells"] == {
            f"{sheet}!A1": ["number", value]
        }


def test_formulas_without_a_stored_value_are_calculated(tmp_path: Path) -> None:
    cells = {
        "A1": 2,
        "A2": 3.5,
        "A3": "x",
        "A4": datetime(2024, 1, 5, 18, 8),
        "B1": "=SUM(A1:A2)",
        "B2": '=A3&"!"',
        "B3": "=A1=2",
        "B4": '=IF(A1>1,"",5)',
        "B5": "=1/0",
        "B6": "=VLOOKUP(99,A1:A2,1,FALSE)",
        "B7": "=B1*2",
        "B8": "=A4+1",
        "B9": "=NOSUCH(1)",
        "B10": "=XLOOKUP(3.5,A1:A2,A1:A2)",
        "B11": ArrayFormula("B11", "=SUM(A1:A2*2)"),
        "B12": "=A4-INT(A4)",
        "B13": "=A40",
    }
    write_book(tmp_path / "a.xlsx", cells)
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    book["Data"]["B8"].number_format = "yyyy-mm-dd"
    book["Data"]["B12"].number_format = "hh:mm:ss"
    book.save(tmp_path / "a.xlsx")
    found = read(tmp_path / "a.xlsx")["cells"]
    assert {address.removeprefix("Data!"): value for address, value in found.items() if "!B" in address} == {
        "B1": ["number", 5.5],
        "B2": ["text", "x!"],
        "B3": ["bool", True],
        "B4": ["text", ""],
        "B5": ["text", "#DIV/0!"],
        "B6": ["text", "#N/A"],
        "B7": ["number", 11.0],
        "B8": ["datetime", "2024-01-06T18:08:00"],
        "B9": ["text", "#NAME?"],
        "B10": ["number", 3.5],
        "B11": ["number", 11.0],
        "B12": ["time", "18:08:00"],
        "B13": ["number", 0.0],
    }


def stored(path: Path, values: Mapping[str, str], *, on_opening: bool = False) -> None:
    """Give formulas of a workbook a stored value, as Excel would."""
    with zipfile.ZipFile(path) as package:
        parts = {name: package.read(name).decode() for name in package.namelist()}
    for formula, value in values.items():
        sheet = parts["xl/worksheets/sheet1.xml"]
        assert f"<f>{formula}</f><v" in sheet
        for empty in ("<v />", "<v/>", "<v></v>"):
            sheet = sheet.replace(f"<f>{formula}</f>{empty}", f"<f>{formula}</f>{value}")
        parts["xl/worksheets/sheet1.xml"] = sheet
    if not on_opening:
        parts["xl/workbook.xml"] = parts["xl/workbook.xml"].replace('fullCalcOnLoad="1"', "")
    with zipfile.ZipFile(path, "w") as package:
        for name, text in parts.items():
            package.writestr(name, text)


@pytest.mark.parametrize(
    ("value", "on_opening", "expected"),
    [
        ("<v>7</v>", False, ["number", 7]),  # what Excel stored is what Excel calculated
        ("<v>0</v>", False, ["number", 0]),
        ("<v>0</v>", True, ["number", 4.0]),  # as XlsxWriter leaves every formula
        ("<v>7</v>", True, ["number", 7]),
        ("", False, ["number", 4.0]),
    ],
)
def test_a_stored_value_is_taken_unless_it_is_a_placeholder(
    tmp_path: Path, value: str, on_opening: bool, expected: list[Any]
) -> None:
    write_book(tmp_path / "a.xlsx", {"A1": 2, "B1": "=A1*2"})
    stored(tmp_path / "a.xlsx", {"A1*2": value}, on_opening=on_opening)
    assert read(tmp_path / "a.xlsx", [None, 2, 1, 2, 1])["cells"] == {"Data!B1": expected}


def test_sheets_are_found_whatever_their_case_and_missing_ones_are_named(tmp_path: Path) -> None:
    write_book(tmp_path / "a.xlsx", {"A1": 1, "C9": 2}, sheet="Übersicht")
    assert read(tmp_path / "a.xlsx", ["übersicht ", 1, 1, 1, 1])["cells"] == {"Übersicht!A1": ["number", 1]}
    assert read(tmp_path / "a.xlsx", ["Data", 1, 1, 1, 1])["missing"] == ["Data"]
    assert list(read(tmp_path / "a.xlsx", [None, 1, 1, 3, None])["cells"]) == ["Übersicht!A1", "Übersicht!C9"]
    assert read(tmp_path / "a.xlsx", [None, 50, 50, None, None])["cells"] == {}


def test_what_is_no_workbook_is_said_and_the_next_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"not a zip")
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as package:
        package.writestr("[Content_Types].xml", "<Types/>")
    for name in ("a.xlsx", "b.xlsx"):
        assert "error" in read(tmp_path / name)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One case a task; for tests that change nothing."""
    return make_data(tmp_path_factory.mktemp("books") / "data", 2, cases=1)


@cache
def ready(data: Path, **settings: Any) -> SpreadsheetBench:
    """A benchmark that has read its golden workbooks once for all tests."""
    return bench(data, code_memory=512, **settings)


async def scored(data: Path, code: str | None, **settings: Any) -> tuple[float, float, str]:
    made = ready(data, **settings)
    score = await made.score(made.tasks("train")[0], replied(code))
    return score.hard, score.soft, score.feedback


@pytest.mark.slow
@needs_bubblewrap
async def test_hard_is_all_cases_and_soft_their_share(tmp_path: Path) -> None:
    data = make_data(tmp_path, 2)
    assert await scored(data, DOUBLE) == (1, 1, "")
    some = DOUBLE.replace("book.save", "if sheet['A3'].value == 21: sheet['B3'] = 'wrong'\nbook.save")
    hard, soft, feedback = await scored(data, some)
    assert (hard, soft) == (0, pytest.approx(2 / 3))
    assert feedback == "Case 2: 1 cells are wrong.\n  Data!B3: got 'wrong', expected 42"


@pytest.mark.slow
@needs_bubblewrap
async def test_a_program_is_run_as_it_is_written(data: Path) -> None:
    """No indentation into a try, no line taken out: each of these was broken by that once."""
    code = f'''from __future__ import annotations
text = """
  two spaces
INPUT_PATH = "kept"
"""
assert text.split("\\n")[1] == "  two spaces" and 'INPUT_PATH = "kept"' in text
INPUT_PATH == OUTPUT_PATH and exit(5)
if __name__ != "__main__":
    raise SystemExit(6)
import dataclasses, pickle, sys
@dataclasses.dataclass
class Row:
    value: int
assert pickle.loads(pickle.dumps(Row(3))) == Row(3)
{DOUBLE}'''
    assert await scored(data, code) == (1, 1, "")


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "no block of Python"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
        ("import nothing_like_it", "ModuleNotFoundError"),
        ("pass", "wrote no file to OUTPUT_PATH"),
        ("import os; os.mkdir(OUTPUT_PATH)", "something else than a file"),
        ("open(OUTPUT_PATH, 'w').write('text')", "cannot be read"),
        ("import shutil; shutil.copy(INPUT_PATH, OUTPUT_PATH)", "Data!B2: got (empty), expected"),
        ("import openpyxl; openpyxl.Workbook().save(OUTPUT_PATH)", "has no sheet 'Data'; it has 'Sheet'"),
        ("import time; time.sleep(60)", "its time was up"),
        ("x = [bytearray(64 << 20) for _ in range(64)]", "MemoryError"),
        (DOUBLE + "\nraise SystemExit(4)", "code 4"),
    ],
)
async def test_what_a_program_does_wrong_is_a_zero_with_words(
    data: Path, code: str | None, words: str
) -> None:
    hard, soft, feedback = await scored(
        data, code, **({"code_timeout": 3} if code and "sleep" in code else {})
    )
    assert (hard, soft) == (0, 0)
    assert words in feedback
    assert len(feedback) <= MOST_FEEDBACK + 100


@pytest.mark.slow
@needs_bubblewrap
async def test_a_workbook_of_an_earlier_run_is_never_scored(data: Path) -> None:
    made = ready(data)
    task = made.tasks("train")[0]
    assert (await made.score(task, replied(DOUBLE))).hard == 1
    assert (await made.score(task, replied("print('nothing')"))).soft == 0
    assert not [path for path in data.rglob("*") if "output" in path.name]


@needs_bubblewrap
@pytest.mark.real
async def test_a_workbook_that_swells_when_it_is_read_harms_only_itself(tmp_path: Path) -> None:
    """Two of three cases are right; the third hands back a sheet of 600 MB in a small file."""
    data = make_data(tmp_path, 2)
    bomb = """
import zipfile
if sheet["A3"].value == 22:
    with zipfile.ZipFile(OUTPUT_PATH) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    with zipfile.ZipFile(OUTPUT_PATH, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            with package.open(name, "w") as part:
                part.write(content.replace(b"</worksheet>", b""))
                for _ in range(600 if "sheet1" in name else 0):
                    part.write(b" " * (1 << 20))
"""
    hard, soft, feedback = await scored(data, DOUBLE + bomb)
    assert (hard, soft) == (0, pytest.approx(2 / 3))
    assert "Case 3: The workbook at OUTPUT_PATH cannot be read" in feedback


@pytest.mark.slow
@needs_bubblewrap
async def test_feedback_names_wrong_cells_up_to_a_limit(tmp_path: Path) -> None:
    data = make_data(tmp_path, 2, answer_position="A1:C400")
    fill = DOUBLE.replace("book.save", "for row in range(5, 400): sheet.cell(row, 3, 'x' * 1000)\nbook.save")
    _, _, feedback = await scored(data, fill)
    assert "395 cells are wrong." in feedback
    assert "  and 380 more" in feedback
    assert len(feedback) <= MOST_FEEDBACK + 100


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("damage", ["not a workbook", "no such sheet"])
async def test_a_golden_file_that_cannot_be_used_is_an_error_and_never_a_zero(
    tmp_path: Path, damage: str
) -> None:
    data = make_data(tmp_path, 2, cases=1)
    if damage == "not a workbook":
        for path in data.rglob("*_answer.xlsx"):
            path.write_bytes(b"damaged")
    else:
        rows = json.loads((data / "dataset.json").read_text())
        (data / "dataset.json").write_text(json.dumps([{**row, "answer_sheet": "Nowhere"} for row in rows]))
    made = bench(data)
    for _ in range(2):
        with pytest.raises(ScoringError, match="nothing can be compared with 1_task-") as caught:
            await made.score(made.tasks("train")[0], replied(DOUBLE))
        assert caught.value.kind == "judge"


@needs_bubblewrap
async def test_a_target_that_gave_no_answer_scores_zero_and_runs_nothing(data: Path) -> None:
    made = ready(data)
    lost = Trajectory(messages=(), answer=replied(DOUBLE).answer, calls=1, usage=None, failure="turns")
    score = await made.score(made.tasks("train")[0], lost)
    assert (score.hard, score.feedback) == (0, "The target gave no answer to score: turns.")


@pytest.mark.slow
@needs_bubblewrap
async def test_the_golden_workbook_is_never_near_a_program(tmp_path: Path) -> None:
    """Neither beside its input, nor by the path it lies at, nor by searching everything that can be read."""
    data = make_data(tmp_path / "data", 2, cases=1)
    for path in [data, *data.rglob("*"), *data.parents[:2]]:
        path.chmod(0o777)
    search = f"""
import os, sys, zipfile
def holds(path):
    try:
        with zipfile.ZipFile(path) as package:
            return any(b"{GOLDEN_MARK}" in package.read(name) for name in package.namelist())
    except Exception:
        return False
found = []
for root, folders, names in os.walk("/"):
    if root in ("/proc", "/usr", sys.prefix, sys.base_prefix):
        folders.clear()
    found += [os.path.join(root, name) for name in names if name.endswith(".xlsx")]
found += [{str(data)!r} + "/spreadsheet/task-0/1_task-0_answer.xlsx", os.path.dirname(INPUT_PATH) + "/1_task-0_answer.xlsx"]
sys.exit(repr(([path for path in found if os.path.exists(path)], [path for path in found if holds(path)])))
"""
    _, _, feedback = await scored(data, search)
    assert feedback.count("(['/box/input.xlsx'], [])") == 1


@needs_bubblewrap
async def test_a_sandbox_that_fails_is_no_score(data: Path) -> None:
    made = bench(data)
    made._sandbox.visible = (Path("/gone/meanwhile"),)
    with pytest.raises(Fault) as caught:
        await made.score(made.tasks("train")[0], replied(DOUBLE))
    assert caught.value.kind == "sandbox"


@pytest.mark.slow
async def test_the_weaker_mode_scores_the_same_where_it_is_asked_for(data: Path) -> None:
    assert await scored(data, DOUBLE, sandbox="limits") == (1, 1, "")
    assert (await scored(data, "1 / 0", sandbox="limits"))[0] == 0


def workbook(cells: dict[str, Any]) -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Data"
    for address, value in cells.items():
        book.active[address] = value
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.mark.slow
@needs_bubblewrap
async def test_workbooks_are_compared_by_case_and_formulas_count(tmp_path: Path) -> None:
    data = make_data(tmp_path, 2)
    made: SpreadsheetBench = bench(data)
    task: Task = made.tasks("train")[0]
    first = openpyxl.load_workbook(task.files[0]).active
    cells = {f"A{row}": first[f"A{row}"].value for row in (2, 3, 4)}
    formulas = workbook({**cells, **{f"B{row}": f"=A{row}*2" for row in (2, 3, 4)}})
    wrong = workbook({**cells, "B2": "=A2*3"})
    found = await made.compare(task, {0: formulas, 1: wrong})
    assert found[0] is None
    assert found[1] is not None
    assert found[1].startswith("3 cells are wrong.")
