"""SpreadsheetBench on 27 of its real tasks (81 cases): golden workbooks, untouched inputs, right programs,
and the formula engine.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from _needs import needs_bubblewrap, needs_program
from benchmarks._workbooks import replied
from skillopt.benchmarks.spreadsheetbench import PLUGIN, SpreadsheetSettings, _reader
from skillopt.benchmarks.spreadsheetbench._benchmark import SpreadsheetBench, _complaint, _Read
from skillopt.benchmarks.spreadsheetbench._load import Problem, SpreadsheetLoader
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import SPLITS, Task

pytestmark = [
    pytest.mark.filterwarnings("ignore:Data Validation extension"),
    pytest.mark.xdist_group("spreadsheets"),  # the workbooks are unpacked once
]

HEADING_OF_LARGEST = """
import openpyxl
book = openpyxl.load_workbook(INPUT_PATH)
sheet = book.active
for row in range(3, 6):
    sheet[f"H{row}"] = f"=INDEX($D$2:$G$2,MATCH(MAX(D{row}:G{row}),D{row}:G{row},0))"
book.save(OUTPUT_PATH)
"""
LAST_DAY = """
import openpyxl
book = openpyxl.load_workbook(INPUT_PATH)
sheet = book.active
sheet["B1"] = max(cell.value for cell in sheet["A"] if cell.value is not None).day
book.save(OUTPUT_PATH)
"""
DATES_ONLY = """
import datetime, openpyxl
book = openpyxl.load_workbook(INPUT_PATH)
for cell in book.active["A"][1:]:
    if isinstance(cell.value, str) and "T" in cell.value:
        cell.value = datetime.datetime.fromisoformat(cell.value.split("T")[0])
book.save(OUTPUT_PATH)
"""
TIME_OF_DAY = """
import openpyxl
book = openpyxl.load_workbook(INPUT_PATH)
for row in range(2, 5):
    book.active[f"J{row}"] = f"=I{row}-INT(I{row})"
    book.active[f"J{row}"].number_format = "hh:mm:ss"
book.save(OUTPUT_PATH)
"""
PROGRAMS = {"59196": HEADING_OF_LARGEST, "31628": LAST_DAY, "416-15": DATES_ONLY, "32438": TIME_OF_DAY}
"""Right programs for real tasks, two with values and two with formulas, written by hand here."""
BEYOND_THE_ENGINE = {"48365", "8942", "9726", "10452", "54638"}
"""Tasks whose golden formulas formualizer 0.13 calculates otherwise than Excel: arrays inside IF, LOOKUP,
SUMPRODUCT and COUNTIF.
"""

BEYOND_LIBREOFFICE = {"2768", "50768"}
"""Tasks whose golden formulas LibreOffice 7.4 calculates otherwise than Excel and formualizer: FILTER, and
arrays over their own column.
"""


@pytest.fixture(scope="session")
def folder(test_data: Path) -> Path:
    return test_data / "spreadsheetbench"


@pytest.fixture(scope="session")
def loaded(folder: Path) -> tuple[list[Task], dict[str, Problem]]:
    loader = SpreadsheetLoader(None, "{instruction}\n{preview}")
    return [loader.task(row) for row in load_rows(folder / "dataset.json")], loader.problems


def read(problem: Problem, paths: list[Path], first_sheet: str | None = None) -> list[_Read]:
    areas = [[area.sheet or first_sheet, *area.as_json()[1:]] for area in problem.areas]
    return [_Read(_reader._workbook(str(path), areas)) for path in paths]


@pytest.mark.slow
def test_the_golden_workbook_scores_one_and_the_untouched_input_zero_on_all_81_cases(
    loaded: tuple[list[Task], dict[str, Problem]],
) -> None:
    """Read in this process, for speed; the same through the sandbox is among the slower tests."""
    tasks, problems = loaded
    seen = 0
    for task in tasks:
        problem = problems[task.id]
        golden = read(problem, [case.golden for case in problem.cases])
        inputs = read(problem, [case.input for case in problem.cases], golden[0].sheets[0])
        for expected, untouched in zip(golden, inputs, strict=True):
            assert expected.error is None
            assert expected.cells, task.id
            assert _complaint(expected, expected) is None, task.id
            assert _complaint(expected, untouched) is not None, task.id
            seen += 1
    assert (len(tasks), seen) == (27, 81)


def bench(folder: Path) -> SpreadsheetBench:
    made = PLUGIN(SpreadsheetSettings(data_path=folder / "dataset.json", mode="single"))
    assert isinstance(made, SpreadsheetBench)
    return made


def all_tasks(made: SpreadsheetBench) -> dict[str, Task]:
    return {task.id: task for split in SPLITS for task in made.tasks(split)}


@pytest.mark.slow
@needs_bubblewrap
async def test_right_programs_pass_through_the_sandbox_on_all_their_cases(folder: Path) -> None:
    made = bench(folder)
    tasks = all_tasks(made)
    scores = await asyncio.gather(
        *(made.score(tasks[name], replied(code)) for name, code in PROGRAMS.items())
    )
    assert {
        name: (score.hard, score.soft, score.feedback) for name, score in zip(PROGRAMS, scores, strict=True)
    } == dict.fromkeys(PROGRAMS, (1, 1, ""))


@needs_bubblewrap
@pytest.mark.real
@pytest.mark.timeout(400)
async def test_all_81_cases_through_the_sandbox(folder: Path) -> None:
    """What a program hands back travels as bytes; here it is by turns the golden workbook itself, and the
    input as a program that changes nothing would hand it back. Programs are run by the test above.
    """
    made = bench(folder)
    for number, (name, task) in enumerate(all_tasks(made).items()):
        handed = {
            place: (case.golden if (number + place) % 2 else case.input).read_bytes()
            for place, case in enumerate(made._problems[name].cases)
        }
        found = await made.compare(task, handed)
        assert [one is None for one in found] == [(number + place) % 2 == 1 for place in range(3)], name


def formulas_only(path: Path, folder: Path) -> Path:
    """The golden workbook as openpyxl writes it: formulas without a stored value."""
    out = folder / path.name
    openpyxl.load_workbook(path).save(out)
    return out


@pytest.mark.real
def test_the_engine_calculates_the_golden_formulas_as_excel_did(
    loaded: tuple[list[Task], dict[str, Problem]], tmp_path: Path
) -> None:
    """On 22 of the 27 tasks; the five others are named, so that a better engine is noticed."""
    tasks, problems = loaded
    wrong = set()
    for task in tasks:
        problem = problems[task.id]
        golden = read(problem, [case.golden for case in problem.cases])
        calculated = read(
            problem, [formulas_only(case.golden, tmp_path) for case in problem.cases], golden[0].sheets[0]
        )
        if any(
            _complaint(expected, found) is not None
            for expected, found in zip(golden, calculated, strict=True)
        ):
            wrong.add(task.id)
    assert wrong == BEYOND_THE_ENGINE


@pytest.mark.real
@pytest.mark.timeout(400)
@needs_program("soffice", "libreoffice-calc")
def test_where_engine_and_excel_agree_libreoffice_does_too(
    loaded: tuple[list[Task], dict[str, Problem]], tmp_path: Path, machine_env: Any
) -> None:
    tasks, problems = loaded
    bare, calculated = tmp_path / "bare", tmp_path / "calculated"
    bare.mkdir()
    chosen = [task for task in tasks if task.id not in BEYOND_THE_ENGINE]
    for task in chosen:
        for case in problems[task.id].cases:
            formulas_only(case.golden, bare)
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    argv = [
        "soffice",
        profile,
        "--headless",
        "--convert-to",
        "xlsx",
        "--outdir",
        str(calculated),
        *map(str, sorted(bare.iterdir())),
    ]
    subprocess.run(argv, check=True, capture_output=True, timeout=280, env=dict(machine_env))
    wrong = {}
    for task in chosen:
        problem = problems[task.id]
        golden = read(problem, [case.golden for case in problem.cases])
        found = read(problem, [calculated / case.golden.name for case in problem.cases], golden[0].sheets[0])
        complaints = [_complaint(expected, got) for expected, got in zip(golden, found, strict=True)]
        if any(complaints):
            wrong[task.id] = complaints
    assert wrong.keys() <= BEYOND_LIBREOFFICE, wrong
