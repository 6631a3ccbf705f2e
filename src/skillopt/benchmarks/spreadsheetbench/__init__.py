"""SpreadsheetBench: real questions about workbooks, answered by a Python program that is run in a sandbox and
judged by its cells.

A row: `{"id": "59196", "instruction": "I need a formula ...", "instruction_type": "Cell-Level Manipulation",
"answer_position": "H3:H5", "spreadsheet_path": "spreadsheet/59196"}`, with `1_59196_input.xlsx` and
`1_59196_answer.xlsx`, `2_...` in that folder below `env.data_root`. A row that holds only an id is completed
from `dataset.json` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from skillopt.benchmarks.spreadsheetbench._benchmark import SpreadsheetBench
from skillopt.benchmarks.spreadsheetbench._load import SpreadsheetLoader, openpyxl
from skillopt.process.sandbox import Mode, ProcessLimits, Sandbox, require
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin
from skillopt.tasks.data import CommonSettings, TaskLoader, load_splits, package_text, published_defaults

_WEAKER = (
    "set env.sandbox: limits to run programs with limits only: they then see your files and the network"
    " (docs/sandbox.md)"
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


class _Plugin:
    Settings: type[BaseModel] = SpreadsheetSettings
    defaults: Mapping[str, Any] = published_defaults(workers=24, exec_timeout=600.0)

    def harness(self, settings: SpreadsheetSettings) -> str:
        """Only the tools of `react` need a harness that calls tools."""
        return "tool_loop" if settings.mode == "react" else "chat"

    def __call__(self, settings: SpreadsheetSettings) -> Benchmark:
        package = Path(openpyxl().__file__).parent.parent
        require(settings.sandbox, remedy=_WEAKER)
        loader = SpreadsheetLoader(settings.data_root, _text("task.md"))
        splits = load_splits(settings, TaskLoader(loader.task))
        inputs = [case.input.parent for problem in loader.problems.values() for case in problem.cases]
        sandbox = Sandbox(
            settings.sandbox,
            limits=ProcessLimits(seconds=settings.code_timeout, memory=settings.code_memory << 20),
            hidden=tuple(dict.fromkeys(inputs)),
            packages=(package,),
        )
        return SpreadsheetBench(
            splits=splits,
            problems=loader.problems,
            sandbox=sandbox,
            mode=settings.mode,
            max_turns=settings.max_turns,
            system=_text(f"{settings.mode}.md"),
            seed_skill=_text("skill.md"),
        )


PLUGIN: BenchmarkPlugin = _Plugin()
