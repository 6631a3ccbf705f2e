"""A row that cannot be used costs that row, in every benchmark: it is told by file and line, and the rest is
trained on. Only a file without any good row is an error.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks._pages import draw
from benchmarks._workbooks import make_data
from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.alfworld._load import to_task
from skillopt.benchmarks.own import OwnBenchmark
from skillopt.benchmarks.spreadsheetbench._load import SpreadsheetLoader
from skillopt.config.load import load
from skillopt.doctor._examine import load_data
from skillopt.errors import TaskError
from skillopt.events import Event, Notice
from skillopt.redact import Scrubber
from skillopt.run import prepare
from skillopt.run.library import optimize
from skillopt.tasks.data import CommonSettings, TaskLoader, load_splits
from skillopt.tasks.task import SPLITS, Task
from skillopt.tasks.triggers import load_queries
from skillopt.testing import ScriptedModel

COUNT = 10
"""Rows of each file; the fourth is spoilt."""


def built(name: str, **settings: Any) -> Callable[[Path], tuple[Any, list[str]]]:
    def load_it(file: Path) -> tuple[Any, list[str]]:
        plugin = benchmarks.get(name)
        made = plugin(plugin.Settings(data_path=file, **settings))
        ids = [task.id for split in SPLITS for task in made.tasks(split)]
        return made.bad_rows, ids

    return load_it


def loaded(loader: TaskLoader, file: Path) -> tuple[Any, list[str]]:
    splits = load_splits(CommonSettings(data_path=file), loader)
    return splits.bad_rows, [task.id for task in splits.all]


def queries(file: Path) -> tuple[Any, list[str]]:
    splits = load_queries(file, "1:1:1", 1)
    return splits.bad_rows, [task.id for task in splits.all]


def own(n: int) -> dict[str, Any]:
    return {"id": f"t{n}", "question": f"What is {n} + 1?", "answer": str(n + 1)}


def searchqa(n: int) -> dict[str, Any]:
    return {"key": f"k{n}", "question": f"Q{n}?", "context": None, "answers": [f"A{n}"]}


def page(n: int) -> dict[str, Any]:
    return {"questionId": n, "question": f"What is on page {n}?", "answer": str(n), "image_path": f"{n}.png"}


def choice(n: int) -> dict[str, Any]:
    choices = [{"label": label, "text": f"{label} {n}"} for label in "ABC"]
    return {"id": f"m{n}", "question": f"How many in {n}?", "choices": choices, "answer": "B"}


def bulletin(n: int) -> dict[str, Any]:
    return {"uid": f"u{n}", "question": f"How much in {n}?", "answer": "5", "source_files": "one.txt"}


def query(n: int) -> dict[str, Any]:
    return {"prompt": f"Split column {n}", "should_load": n % 2 == 0}


def case(n: int) -> dict[str, Any]:
    return {"id": n, "prompt": f"Sum up month {n}.", "assertions": [f"Names month {n}"]}


def game(n: int) -> dict[str, Any]:
    return {"id": f"g{n}", "gamefile": f"{n}.tw-pddl", "task_type": "look"}


def furnish(folder: Path) -> None:
    """What the rows of some benchmarks point to."""
    (folder / "one.txt").write_text("Total 5\n")
    for n in range(COUNT):
        (folder / f"{n}.png").write_bytes(draw(str(n)))
        told = f'"rhs": "Your task is to: look at {n}."'
        parts = {"pddl_domain": "d", "pddl_problem": f"(:init (x {n}))", "grammar": told}
        (folder / f"{n}.tw-pddl").write_text(json.dumps(parts))


SPOILT = [
    ("own", own, {"question": ""}, "the field 'question' is empty"),
    ("own", own, {"anwser": "4", "answer": None}, None),
    ("numeric", own, {"answer": "many"}, "has a reference 'many' that is not a number"),
    ("own", own, {"id": "a\n::error::b"}, "the id 'a\\n::error::b' holds a line break"),
    ("evals_json", case, {"id": "a\u2028b"}, "holds a line break"),
    ("searchqa", searchqa, {"answers": []}, "'answers' holds no answer"),
    ("searchqa", searchqa, {"answers": "[" * 9000}, "starts like a JSON list but is none"),
    ("docvqa", page, {"image_path": "gone.png"}, "there is no image 'gone.png'"),
    ("livemath", choice, {"answer": "Z"}, "the right choice 'Z' is no label"),
    ("officeqa", bulletin, {"source_files": "gone.txt"}, "there is no gone.txt"),
    ("evals_json", case, {"assertions": [], "prompt": "x"}, "nothing can be judged"),
    ("triggers", query, {"should_load": "maybe"}, "should_load is no true or false"),
    ("alfworld", game, {"gamefile": "gone"}, "cannot be read"),
]


def loading(name: str, folder: Path) -> Callable[[Path], tuple[Any, list[str]]]:
    return {
        "own": built("own"),
        "numeric": built("own", scorer="numeric"),
        "searchqa": built("searchqa"),
        "docvqa": built("docvqa"),
        "livemath": built("livemathematicianbench"),
        "officeqa": built("officeqa", data_dirs=[str(folder)]),
        "evals_json": built("evals_json"),
        "triggers": queries,
        "alfworld": partial(loaded, TaskLoader(partial(to_task, root=folder, template="{goal} {places}"))),
    }[name]


@pytest.mark.parametrize(("name", "make", "changes", "words"), SPOILT)
def test_one_bad_row_costs_that_row(
    name: str, make: Callable[[int], Any], changes: Any, words: str | None, tmp_path: Path
) -> None:
    furnish(tmp_path)
    rows = [make(n) for n in range(COUNT)]
    rows[3] = {**rows[3], **changes}
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told, ids = loading(name, tmp_path)(file)
    if words is None:  # a reference of null is for the scorer to refuse
        words = "has no reference"
    assert len(ids) == COUNT - 1
    assert len(told) == 1
    assert told[0].startswith(f"{file}, line 4: ")
    assert words in told[0]
    file.write_text(json.dumps(rows[3]) + "\n")
    with pytest.raises(TaskError, match="line 1: ") as caught:
        loading(name, tmp_path)(file)
    assert words in str(caught.value)


def test_a_damaged_workbook_costs_its_row(tmp_path: Path) -> None:
    data = make_data(tmp_path, 8)
    first = sorted((data / "spreadsheet").iterdir())[0]
    min(first.glob("*_input.xlsx")).write_bytes(b"PK\x03\x04 broken off")
    loader = SpreadsheetLoader(None, "{instruction} {preview}")
    told, ids = loaded(TaskLoader(loader.task), data / "dataset.json")
    assert len(ids) == len(loader.problems) == 7
    assert "cannot be opened as a workbook" in told[0]


def test_a_workbook_that_grows_beyond_all_measure_when_it_is_unpacked_costs_its_row(tmp_path: Path) -> None:
    data = make_data(tmp_path, 8)
    first = sorted((data / "spreadsheet").iterdir())[0]
    with (
        zipfile.ZipFile(min(first.glob("*_input.xlsx")), "a", zipfile.ZIP_DEFLATED) as package,
        package.open("xl/more.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(257):
            part.write(bytes(1 << 20))
    told, ids = loaded(TaskLoader(SpreadsheetLoader(None, "{preview}").task), data / "dataset.json")
    assert len(ids) == 7 and "unpacked it is larger than 256 MiB" in told[0]


@pytest.mark.parametrize(
    ("name", "content", "line", "words"),
    [
        ("a.jsonl", b'{"id": 1, "question": "a", "answer": "x"}\n{"id": 2,\n%s', 2, "not JSON"),
        ("a.jsonl", b'{"id": 1, "question": "\xff", "answer": "x"}\n%s', 1, "not UTF-8"),
        ("a.jsonl", b'{"id": 1, "question": NaN, "answer": "x"}\n%s', 1, "not JSON: NaN"),
        ("a.json", b'[\n7,\n{"id": 1, "question": "a", "answer": "x"},\n%s]', 2, "not a number"),
        ("a.json", b'[\n{"id": 1, "question": "a", "answer": -1e999},\n%s]', 2, "without end"),
        ("a.csv", b"id,question,answer\n1,a\n2,b,c\n%s", 2, "2 cells under 3 columns"),
        ("a.csv", b'id,question,answer\n1,"a" b,c\n2,b,c\n%s', 2, "not CSV"),
    ],
)
def test_a_row_that_cannot_be_read_costs_that_row(
    name: str, content: bytes, line: int, words: str, tmp_path: Path
) -> None:
    rows = [own(n) for n in range(3, 9)]
    rest = {
        "a.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "a.json": json.dumps(rows)[1:-1],
        "a.csv": "".join(f"{','.join(row.values())}\n" for row in rows),
    }[name]
    file = tmp_path / name
    file.write_bytes(content.replace(b"%s", rest.encode()))
    told, ids = built("own")(file)
    assert {"t3", "t8"} <= set(ids)
    assert len(told) == 1
    assert told[0].startswith(f"{file}, line {line}: ")
    assert words in told[0]


def test_a_quote_that_swallows_the_rest_of_a_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,question,answer\n1,"a,b\n2,b,c\n3,c,d\n')
    with pytest.raises(TaskError, match="line 2: not CSV: unexpected end"):
        built("own")(tmp_path / "a.csv")


def test_an_empty_split_names_the_rows_that_are_missing_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(own(1)) + '\n{"id": 2}\n')
    with pytest.raises(TaskError, match=r"split is empty.*1 row could not be used.*a\.jsonl, line 2: "):
        built("own", split_ratio="1:1:0")(tmp_path / "a.jsonl")


@pytest.mark.slow
def test_bad_rows_are_told_by_a_run_an_estimate_and_doctor(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(own(n)) + "\n" for n in range(COUNT)) + '{"id": "t11"}\n')
    flags = {"env": "own", "data_path": file, "target_model": "world", "optimizer_model": "world"}
    resolved = load(None, flags=flags, options=[], environ={}, cwd=tmp_path)
    job = prepare(resolved)
    assert f"1 row could not be used and is left out: {file}, line 11: " in job.bad_rows
    findings = load_data(resolved, Scrubber(())).findings
    assert [one.remedy for one in findings if one.state == "fix"] == [job.bad_rows]

    seen: list[Event] = []
    model = ScriptedModel(["7"] * 200)
    optimize(
        tasks=file,
        scorer=lambda task, answer: 1.0,
        target=model,
        optimizer=model,
        out=tmp_path / "run",
        on_event=seen.append,
        options={"train.num_epochs": 1},
    )
    assert [one.text for one in seen if isinstance(one, Notice) and one.level == "warning"] == [job.bad_rows]


def test_the_same_task_under_the_same_id_costs_the_later_row_and_another_one_is_an_error(
    tmp_path: Path,
) -> None:
    """Which of two different tasks an id means is for the person to say: answers and verdicts go by it."""
    rows = [own(n) for n in range(COUNT)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[3], rows[3]]))
    told, ids = built("own")(file)
    assert sorted(ids) == sorted(row["id"] for row in rows)
    assert told == tuple(f"{file}, line {n}: is 't3' of line 4 once more. Remove it" for n in (11, 12))
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[3], "answer": "5"}]))
    with pytest.raises(TaskError, match="1 task id is used more than once: t3"):
        built("own")(file)


@pytest.mark.parametrize("spoilt", [{"question": ""}, {"answer": None}, {"id": "t2", **own(2)}])
def test_a_bad_row_from_python_costs_that_row_too(spoilt: dict[str, Any]) -> None:
    rows = [own(n) for n in range(COUNT)]
    kept = [Task(id="own", prompt="What is it?", reference="x"), *rows[:3], *rows[4:]]
    given = [*kept[:4], {**rows[3], **spoilt}, *kept[4:]]
    for tasks in (given, {"train": given, "val": [own(20)]}):
        made = OwnBenchmark.from_tasks(tasks)
        assert len(made.bad_rows) == 1 and made.bad_rows[0].startswith("tasks given from Python, line 5: ")
        assert len([task for split in SPLITS for task in made.tasks(split)]) == len(kept) + (tasks != given)
    with pytest.raises(TaskError, match="tasks given from Python, line 1: "):
        OwnBenchmark.from_tasks([{**rows[3], "question": ""}])
