"""Scores a program: run on every workbook in the sandbox, its cells read there and compared."""

from __future__ import annotations

import asyncio
import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field

from skillopt.benchmarks.spreadsheetbench._code import (
    OUTPUT,
    SpreadsheetTools,
    Trial,
    clipped,
    run_code,
    solution_of,
    trouble_of,
)
from skillopt.benchmarks.spreadsheetbench._load import Problem, SpreadsheetLoader, openpyxl
from skillopt.errors import ConfigError, ScoringError
from skillopt.executors import Executor
from skillopt.executors.port import run_again
from skillopt.process.sandbox import Mode, ProcessLimits, Sandbox, require
from skillopt.process.waiting import together
from skillopt.tasks.benchmark import Environment
from skillopt.tasks.data import (
    CommonSettings,
    SplitBenchmark,
    TaskLoader,
    load_splits,
    package_text,
    published_defaults,
)
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import no_answer
from skillopt.tasks.task import Task

ENGINE = "formualizer"
REVISION = 1
"""Raise it when the same workbook could get another score."""
MOST_FEEDBACK = 6000
_CELLS_SHOWN = 15
_READ_OUTPUT = 32 << 20
_DATED: Mapping[str, Any] = {"datetime": datetime, "date": date, "time": time}


_WEAKER = (
    "set env.sandbox: limits to run programs with limits only: they then see your files and the network"
    " (docs/running.md#the-sandbox)"
)
_text = partial(package_text, folder="spreadsheetbench")


class SpreadsheetSettings(CommonSettings):
    """The `env.*` keys of SpreadsheetBench."""

    mode: Literal["single", "multi", "react"] = "multi"
    """How a program is written: in one reply, in several with errors told, or with tools."""
    max_turns: int = Field(default=30, ge=1)
    """Replies of the target in the modes multi and react."""
    data_root: Path | None = None
    """Folder with the workbooks; unset is the folder of the tasks file."""
    sandbox: Mode = "bubblewrap"
    """How programs are shut in; with 'limits' they see your files and the network."""
    code_timeout: float = Field(default=120.0, gt=0)
    """Seconds one program may run on one workbook."""
    code_memory: int = Field(default=2048, ge=256)
    """Megabytes one program may use."""


class SpreadsheetBench(SplitBenchmark):
    """Tasks about workbooks, solved by a program."""

    name = "spreadsheetbench"
    Settings = SpreadsheetSettings
    defaults = published_defaults(workers=24, exec_timeout=600.0)
    has_environment = True
    graded = False
    scoring_rule = (
        "The program is run on several workbooks of the task, and all cells of the answer have the wanted"
        " values in each."
    )

    def __init__(self, settings: SpreadsheetSettings) -> None:
        package = Path(openpyxl().__file__).parent.parent
        require(settings.sandbox, remedy=_WEAKER)
        try:  # what calculates formulas: another one may give another score
            engine = f"{ENGINE}-{version(ENGINE)}"
        except PackageNotFoundError as error:
            raise ConfigError(
                f"'spreadsheetbench' needs {ENGINE}: pip install 'skillopt-trainer[spreadsheet]'"
            ) from error
        self.scorer_version = f"spreadsheetbench-{REVISION} {engine}"
        loader = SpreadsheetLoader(settings.data_root, _text("task.md"))
        super().__init__(
            splits=load_splits(settings, TaskLoader(loader.task)),
            system=_text(f"{settings.mode}.md"),
            seed_skill=_text("skill.md"),
        )
        self._settings = settings
        self._problems = loader.problems
        inputs = [case.input.parent for problem in loader.problems.values() for case in problem.cases]
        self._sandbox = Sandbox(
            settings.sandbox,
            limits=ProcessLimits(seconds=settings.code_timeout, memory=settings.code_memory << 20),
            hidden=tuple(dict.fromkeys(inputs)),
            packages=(package,),
        )
        self._golden: dict[str, asyncio.Future[list[_Read]]] = {}

    @classmethod
    def harness(cls, settings: SpreadsheetSettings) -> str:
        """Only the tools of `react` need a harness that calls tools."""
        return "tool_loop" if settings.mode == "react" else "chat"

    def programs_in(self, executor: Executor) -> SpreadsheetBench:
        """Workbooks and programs travel as content."""
        there = copy.copy(self)
        there._sandbox = self._sandbox.elsewhere(partial(run_again, executor))
        there._golden = {}
        return there

    def open(self, task: Task) -> Environment | None:
        """What the target may try before it answers: the same in training as anywhere else."""
        mode = self._settings.mode
        if mode == "single":
            return None
        workbook = self._problems[task.id].cases[0].input.read_bytes()
        return (Trial if mode == "multi" else SpreadsheetTools)(
            self._sandbox, workbook, self._settings.max_turns
        )

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Run the program on every case. Hard is all of them, soft the share that is right."""
        if trajectory.failure is not None:
            return no_answer(trajectory.failure)
        code = solution_of(trajectory)
        if code is None:
            told = "The target handed in no program: there is no block of Python in its reply."
            return Score(hard=0.0, soft=0.0, feedback=told)
        cases = self._problems[task.id].cases
        runs = await together(*(run_code(self._sandbox, code, case.input.read_bytes()) for case in cases))
        troubles = [trouble_of(ran) for ran in runs]
        left = {number: ran.files[OUTPUT] for number, ran in enumerate(runs) if troubles[number] is None}
        found = iter(await self.compare(task, left))
        complaints = [next(found) if trouble is None else trouble for trouble in troubles]
        pairs = zip(cases, complaints, strict=True)
        wrong = [f"Case {case.name}: {complaint}" for case, complaint in pairs if complaint is not None]
        feedback = clipped("\n".join(wrong), MOST_FEEDBACK)
        return Score(hard=float(not wrong), soft=1 - len(wrong) / len(cases), feedback=feedback)

    async def compare(self, task: Task, workbooks: Mapping[int, bytes]) -> list[str | None]:
        """What is wrong with each workbook, given by the number of its case from 0; None where nothing is."""
        problem = self._problems[task.id]
        golden = await self._golden_of(task.id, problem)
        found = await self._read(list(workbooks.values()), problem, golden[0].sheets[0])
        return [_complaint(golden[number], read) for number, read in zip(workbooks, found, strict=True)]

    async def _golden_of(self, task_id: str, problem: Problem) -> list[_Read]:
        """The cells that should come out, read once a task and apart from workbooks of programs."""
        if task_id not in self._golden:
            self._golden[task_id] = asyncio.ensure_future(self._read_golden(task_id, problem))
        waiting = self._golden[task_id]
        try:
            return await asyncio.shield(waiting)
        except BaseException:
            if waiting.done():  # a failure is tried again; one of us giving up is no failure
                self._golden.pop(task_id, None)
            raise

    async def _read_golden(self, task_id: str, problem: Problem) -> list[_Read]:
        found = await self._read([case.golden.read_bytes() for case in problem.cases], problem, None)
        for case, read in zip(problem.cases, found, strict=True):
            if read.error is not None or read.missing:
                trouble = read.error or f"it {_without_sheets(read)}"
                raise ScoringError(
                    "judge", f"task {task_id!r}: nothing can be compared with {case.golden.name}: {trouble}"
                )
        return found

    async def _read(
        self, workbooks: Sequence[bytes], problem: Problem, first_sheet: str | None
    ) -> list[_Read]:
        """The cells of workbooks, read in the sandbox; each alone where one spoils the reading of all."""
        if not workbooks:
            return []
        areas = [replace(area, sheet=area.sheet or first_sheet).as_json() for area in problem.areas]
        names = [f"{number}.xlsx" for number in range(len(workbooks))]
        ran = await self._sandbox.run(
            ["python", "-c", _reader()],
            files=dict(zip(names, workbooks, strict=True)),
            input=json.dumps({"workbooks": names, "areas": areas}).encode(),
            limits=replace(self._sandbox.limits, output=_READ_OUTPUT),
        )
        if ran.succeeded and not ran.cut:
            try:
                return [_Read(told) for told in json.loads(ran.stdout)]
            except (ValueError, KeyError, TypeError) as error:
                raise ScoringError("judge", f"the reader of workbooks printed no report: {error}") from error
        if len(workbooks) > 1:
            return [(await self._read([one], problem, first_sheet))[0] for one in workbooks]
        said = ran.stderr.decode(errors="replace").strip()[-300:]
        if "ModuleNotFoundError" in said or "ImportError" in said:
            raise ScoringError("sandbox", f"the sandbox cannot read workbooks: {said}")
        why = ran.stopped or said or f"code {ran.code}"
        return [_Read({"error": f"it could not be read within the limits ({why})"})]


class _Read:
    """What was found in one workbook."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.error: str | None = told.get("error")
        self.sheets: list[str] = told.get("sheets", [])
        self.missing: list[str] = told.get("missing", [])
        self.uncalculated: list[str] = told.get("uncalculated", [])
        self.cells: Cells = {address: _value(*coded) for address, coded in told.get("cells", {}).items()}


def _without_sheets(read: _Read) -> str:
    missing, there = (", ".join(map(repr, names)) for names in (read.missing, read.sheets))
    return f"has no sheet {missing}; it has {there}"


def _complaint(golden: _Read, read: _Read) -> str | None:
    if read.error is not None:
        return f"The workbook at OUTPUT_PATH cannot be read: {read.error}"
    if read.missing:
        return f"The workbook {_without_sheets(read)}."
    wrong = differences(golden.cells, read.cells)
    if not wrong:
        return None
    lines = [
        f"  {each.address}: got {shown(each.got)}, expected {shown(each.expected)}"
        for each in wrong[:_CELLS_SHOWN]
    ]
    more = [f"  and {len(wrong) - _CELLS_SHOWN} more"] if len(wrong) > _CELLS_SHOWN else []
    formulas = [f"  a formula that could not be calculated: {each}" for each in read.uncalculated[:3]]
    return "\n".join([f"{len(wrong)} cells are wrong.", *lines, *more, *formulas])


def _value(kind: str, value: Any) -> Value:
    if kind == "duration":
        return timedelta(seconds=value)
    found: Value = _DATED[kind].fromisoformat(value) if kind in _DATED else value
    return found


@cache
def _reader() -> str:
    return (files("skillopt.benchmarks.spreadsheetbench") / "_reader.py").read_text(encoding="utf-8")


Value: TypeAlias = str | float | int | bool | datetime | date | time | timedelta | None
Cells: TypeAlias = Mapping[str, Value]
"""Cells by address (`Sheet1!B2`), those that hold something."""

_EPOCH = datetime(1899, 12, 30)
_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A cell that does not hold what it should."""

    address: str
    expected: Value
    got: Value


def differences(expected: Cells, got: Cells) -> list[Wrong]:
    """Every cell that is not the same, in the order of the expected workbook, then surplus ones."""
    addresses = dict.fromkeys([*expected, *got])
    pairs = ((address, expected.get(address), got.get(address)) for address in addresses)
    return [
        Wrong(address=address, expected=wanted, got=found)
        for address, wanted, found in pairs
        if not same(wanted, found)
    ]


def same(one: Value, other: Value) -> bool:
    """Whether two cells count as equal."""
    left, right = _plain(one), _plain(other)
    if isinstance(left, float) and isinstance(right, float):
        return round(left, 2) == round(right, 2) or math.isclose(left, right, rel_tol=_NOISE)
    return type(left) is type(right) and left == right


def shown(value: Value) -> str:
    """A value as a person reads it in feedback."""
    if value is None or value == "":
        return "(empty)"
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, str):
        return repr(value if len(value) <= 120 else value[:120] + "...")
    return str(value)


def _plain(value: Value) -> float | str | None:
    """What of a value is compared."""
    if isinstance(value, str):
        return _number(value) if value else None
    if isinstance(value, datetime):
        return float(math.floor((value - _EPOCH) / timedelta(days=1) + 0.5))
    if isinstance(value, date):
        return float((value - _EPOCH.date()).days)
    if isinstance(value, time):
        return f"{value.hour:02d}:{value.minute:02d}"
    if isinstance(value, timedelta):
        minutes = math.floor(value.total_seconds() / 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return None if value is None else float(value)


def _number(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text
