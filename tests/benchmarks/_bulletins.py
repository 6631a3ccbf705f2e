"""Self-made questions over four Treasury Bulletins: each answer is computed here from the figures in the
text, none is OfficeQA's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, in which row of which document the figures stand, and what is made of them."""

    id: str
    text: str
    file: str
    rows: tuple[str, ...]
    """How the lines with the figures begin; the first line of each counts."""
    columns: tuple[int, ...]
    work_out: Callable[[Sequence[float]], str]


def _plain(number: float) -> str:
    return f"{number:,.0f}"


QUESTIONS = (
    Question(
        id="self-made-1941-deficit",
        text=(
            "By how much did total expenditures exceed total receipts in the first half of fiscal year 1941,"
            " in millions of dollars?"
        ),
        file="treasury_bulletin_1941_01.txt",
        rows=("| Total expenditures |", "| Total receipts |"),
        columns=(6,),
        work_out=lambda found: f"${_plain(found[0] - found[1])} million",
    ),
    Question(
        id="self-made-1941-share",
        text=(
            "What percentage of total receipts was income tax in the first six months of fiscal year 1941, to"
            " two decimals?"
        ),
        file="treasury_bulletin_1941_01.txt",
        rows=("| Income tax |", "| Total receipts |"),
        columns=(6,),
        work_out=lambda found: f"{100 * found[0] / found[1]:.2f}%",
    ),
    Question(
        id="self-made-1941-customs",
        text=(
            "By how many million dollars did customs receipts change from the first six months of fiscal 1940"
            " to those of 1941?"
        ),
        file="treasury_bulletin_1941_01.txt",
        rows=("| Customs |",),
        columns=(5, 6),
        work_out=lambda found: f"({_plain(found[0] - found[1])})",  # as accounts write a negative number
    ),
    Question(
        id="self-made-1939-receipts",
        text=(
            "What were total receipts of fiscal year 1938 as the summary of December 1939 gives them, in"
            " millions of dollars?"
        ),
        file="treasury_bulletin_1939_12.txt",
        rows=("| Total Receipts.................... |",),
        columns=(1,),
        work_out=lambda found: _plain(found[0]),
    ),
    Question(
        id="self-made-1939-debt",
        text=(
            "Give the total debt increase of fiscal years 1938 and 1939 in this order, in millions of"
            " dollars."
        ),
        file="treasury_bulletin_1939_12.txt",
        rows=("| Total debt increase.................... |",),
        columns=(1, 2),
        work_out=lambda found: f"[{_plain(found[0])}, {_plain(found[1])}]",
    ),
    Question(
        id="self-made-1944-debt",
        text=(
            "By what factor did the total public debt outstanding grow over the first two columns of the"
            " summary, to three decimals?"
        ),
        file="treasury_bulletin_1944_01.txt",
        rows=("| Total public debt outstanding. |",),
        columns=(1, 2),
        work_out=lambda found: f"{found[1] / found[0]:.3f}",
    ),
    Question(
        id="self-made-1944-war",
        text=(
            "Which share of total expenditures went to war activities in the third column of the budget?"
            " Answer as a fraction of one."
        ),
        file="treasury_bulletin_1944_01.txt",
        rows=("| Total war activities.... |", "| Total expenditures 6/..... |"),
        columns=(3,),
        work_out=lambda found: f"{found[0] / found[1]:.4f}",
    ),
    Question(
        id="self-made-2020-deficit",
        text=(
            "What was the total surplus or deficit of fiscal year 2020 in trillions of dollars, to three"
            " decimals?"
        ),
        file="treasury_bulletin_2020_12.txt",
        rows=("| 2020 | 34",),
        columns=(7,),
        work_out=lambda found: f"{found[0] / 1e6:.3f} trillion",
    ),
    Question(
        id="self-made-2020-receipts",
        text="By how many percent did total receipts grow from fiscal year 2018 to 2019, to two decimals?",
        file="treasury_bulletin_2020_12.txt",
        rows=("| 2018 | 33", "| 2019 | 34"),
        columns=(1,),
        work_out=lambda found: f"{100 * (found[1] / found[0] - 1):.2f} percent",
    ),
)


def figures(question: Question, lines: Sequence[str]) -> list[float]:
    """The figures that a question needs, out of lines of its document."""
    found = []
    for row in question.rows:
        cells = [
            cell.strip() for cell in next(line for line in lines if line.startswith(row)).split("|")[1:-1]
        ]
        found += [float(cells[column].replace(",", "").replace("+", "")) for column in question.columns]
    return found


def answer(question: Question, folder: Path) -> str:
    """The reference, computed from the document itself."""
    return question.work_out(
        figures(question, (folder / question.file).read_text(encoding="utf-8").splitlines())
    )


def as_row(question: Question, folder: Path) -> Mapping[str, Any]:
    """A question as a row of OfficeQA has it."""
    return {
        "uid": question.id,
        "question": question.text,
        "answer": answer(question, folder),
        "source_files": question.file,
        "source_docs": "",
        "difficulty": "easy",
        "origin": "self-made",
    }


def write_splits(folder: Path, documents: Path) -> Path:
    """A folder with splits of the self-made questions."""
    for split, questions in (("train", QUESTIONS[0::3]), ("val", QUESTIONS[1::3]), ("test", QUESTIONS[2::3])):
        (folder / split).mkdir(parents=True)
        (folder / split / "rows.json").write_text(
            json.dumps([as_row(question, documents) for question in questions])
        )
    return folder
