"""Reading task files: every format gives the same rows, and whatever is broken is named by file and line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import TaskError
from skillopt.tasks.rows import load_rows

ROWS = [
    {"id": "1", "question": 'Says "hi",\nthen é\u2028goes', "answer": "x"},
    {"id": "2", "question": "y" * 200_000, "answer": "{z}"},
]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_csv(rows: list[dict[str, str]], path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    files = [
        write(tmp_path / "a.jsonl", lines + "\n\n"),
        write(tmp_path / "b.ndjson", lines.replace("\n", "\r\n")),
        write(tmp_path / "c.json", lines),
        write(tmp_path / "d.json", json.dumps(ROWS)),
        write(
            tmp_path / "e.json", "\ufeff" + json.dumps({"version": [1, {"data": 2}], "data": ROWS}, indent=2)
        ),
        write(
            tmp_path / "f.json",
            json.dumps({row["id"]: {k: v for k, v in row.items() if k != "id"} for row in ROWS}),
        ),
        as_csv(ROWS, tmp_path / "g.CSV"),
    ]
    for file in files:
        assert [row.data for row in load_rows(file)] == ROWS, file.name


def test_rows_know_the_line_they_start_on(tmp_path: Path) -> None:
    rows = [{"q": "a"}, {"q": "b\nc"}, {"q": "d"}]
    assert [row.line for row in load_rows(write(tmp_path / "a.jsonl", '{"q": 1}\n\n{"q": 2}\n'))] == [1, 3]
    assert [row.line for row in load_rows(write(tmp_path / "b.json", json.dumps(rows, indent=1)))] == [
        2,
        5,
        8,
    ]
    assert [
        row.line
        for row in load_rows(write(tmp_path / "c.json", json.dumps({"n": 1, "data": rows}, indent=1)))
    ] == [4, 7, 10]
    assert [row.line for row in load_rows(as_csv(rows, tmp_path / "d.csv"))] == [2, 3, 5]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", '{"q": 1}\n{"q": \n{"q": 3}\n', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", '{"q": 1}\n\n[1]\n', "line 3: a row is an object with named fields, not a list"),
        ("a.jsonl", '{"q": NaN}\n', "line 1: not JSON: NaN"),
        ("a.jsonl", '{"q": "ok"}\n{"q": "\\ud800"}\n', "line 2: holds half of a surrogate pair"),
        ("a.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", b'{"q": "ok"}\n{"q": "\xff"}\n', "line 2: not UTF-8"),
        ("a.jsonl", "\n\n", "holds no rows"),
        ("a.json", '[\n{"q": 1},\n{"q": \n]', "a.json, line 4: not JSON"),
        ("a.json", '[\n{"q": 1},\n"x"\n]', "line 3: a row is an object with named fields, not a string"),
        ("a.json", '{"q": 1}\n{"q": }\n', "line 2: not JSON"),
        ("a.json", "3", "a.json is a number"),
        ("a.json", '{"rows": [1]}', "without a list under 'data'"),
        ("a.json", "[]", "holds no rows"),
        ("a.json", '{"data": []}', "holds no rows"),
        ("a.csv", "q,a\n1,2\n3\n", "a.csv, line 3: 1 cells under 2 columns"),
        ("a.csv", 'q,a\n"x\ny",2\n1,2,3\n', "a.csv, line 4: 3 cells under 2 columns"),
        ("a.csv", 'q,a\n1,2\n"x" y,2\n', "a.csv, line 3: not CSV"),
        ("a.csv", "q,q\n1,2\n", "line 1: the header"),
        ("a.csv", "q,a\n", "holds no rows"),
        ("a.csv", b"q,a\n1,2\n\xe9,3\n", "line 3: not UTF-8"),
        ("a.txt", "x", "no data file we read by its name"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, name: str, content: Any, words: str) -> None:
    with pytest.raises(TaskError) as caught:
        load_rows(write(tmp_path / name, content))
    assert words in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"There is no tasks file .*nowhere\.jsonl"):
        load_rows(tmp_path / "nowhere.jsonl")


def test_a_folder_must_hold_exactly_one_data_file(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="found none"):
        load_rows(tmp_path)
    write(tmp_path / "README.md", "no data")
    write(tmp_path / "a.jsonl", '{"q": 1}')
    assert len(load_rows(tmp_path)) == 1
    write(tmp_path / "b.csv", "q\n1\n")
    with pytest.raises(TaskError, match=r"found a\.jsonl, b\.csv"):
        load_rows(tmp_path)


def test_reading_csv_leaves_the_module_s_own_limit_alone(tmp_path: Path) -> None:
    csv.field_size_limit(150_000)
    load_rows(as_csv(ROWS, tmp_path / "a.csv"))
    assert csv.field_size_limit(131_072) == 150_000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_spreadsheets_write_is_read(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "tasks.csv"
    file.write_bytes('Frage;Antwort\r\n"Größe; Gewicht?";5 €\r\n'.encode(encoding))
    (row,) = load_rows(file)
    assert row.data == {"Frage": "Größe; Gewicht?", "Antwort": "5 €"}


def test_half_a_file_in_utf_16_is_told(tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_bytes("a;b\n1;2".encode("utf-16")[:-1])
    with pytest.raises(TaskError, match="neither UTF-8 nor UTF-16"):
        load_rows(file)
