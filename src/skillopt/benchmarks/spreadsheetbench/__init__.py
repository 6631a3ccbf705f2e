"""SpreadsheetBench: real questions about workbooks, answered by a Python program that is run in a sandbox and
judged by its cells.

A row: `{"id": "59196", "instruction": "I need a formula ...", "instruction_type": "Cell-Level Manipulation",
"answer_position": "H3:H5", "spreadsheet_path": "spreadsheet/59196"}`, with `1_59196_input.xlsx` and
`1_59196_answer.xlsx`, `2_...` in that folder below `env.data_root`. A row that holds only an id is completed
from `dataset.json` there.
"""

from skillopt.benchmarks.spreadsheetbench._benchmark import SpreadsheetBench, SpreadsheetSettings

__all__ = ["PLUGIN", "SpreadsheetSettings"]

PLUGIN = SpreadsheetBench
