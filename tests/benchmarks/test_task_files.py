"""Task files as spreadsheets, notebooks and other people write them: read as meant, or named with the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillopt.benchmarks.own import PLUGIN, OwnBenchmark, OwnSettings
from skillopt.errors import ConfigError, TaskError
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import SPLITS

ROWS = [{"id": str(n), "prompt": f"Say {n}, é", "answer": str(n)} for n in range(5)]


def table(sign: str) -> str:
    lines = [sign.join(ROWS[0]), *(sign.join(f'"{cell}"' for cell in row.values()) for row in ROWS)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pipe.csv", table("|").encode()),
        ("tabs.tsv", table("\t").encode()),
        ("one column.tsv", b"\xef\xbb\xbf" + table("\t").encode()),
        ("unicode text.csv", table("\t").encode("utf-16")),
        ("unicode.jsonl", "\n".join(map(json.dumps, ROWS)).encode("utf-16")),
        ("list.jsonl", json.dumps(ROWS, indent=1).encode()),
        ("tasks.json", json.dumps({"tasks": ROWS}).encode()),
        ("examples.json", json.dumps({"version": 1, "examples": ROWS}).encode()),
    ],
)
def test_what_other_programs_save_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert [dict(row.data) for row in load_rows(tmp_path / name)] == ROWS


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'{"q": 1, "a": 2, "a": 3}\n', "line 1: not JSON: the key 'a' stands more than once"),
        ("a.json", b'[{"q": {"x": 1, "x": 2}}]', "the key 'x' stands more than once"),
        ("a.csv", b"q,a,a\n1,2,3\n", "line 1: the header must name every column once, and has a"),
        ("a.csv", b"q,,a\n1,2,3\n", "and has one without a name"),
        ("a.jsonl", b"\x1f\x8b\x08\x00", "is compressed"),
        ("a.csv", b"PK\x03\x04\x14", "is an archive or a workbook"),
        ("a.csv", b"\xff\xfea\x00\xd8", "is neither UTF-8 nor UTF-16"),
    ],
)
def test_a_file_that_would_be_misread_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError) as caught:
        load_rows(tmp_path / name)
    assert words in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def split_rows(*names: str | None) -> list[dict[str, Any]]:
    return [
        {"id": str(n), "prompt": f"Say {n}", "answer": str(n), **({} if name is None else {"split": name})}
        for n, name in enumerate(names)
    ]


def ids(benchmark: Any) -> list[list[str]]:
    return [[task.id for task in benchmark.tasks(split)] for split in SPLITS]


def from_file(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> Any:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return PLUGIN(OwnSettings(data_path=file, **settings))


def test_rows_that_say_their_split_keep_it(tmp_path: Path) -> None:
    rows = split_rows("train", "Validation", "test", "train", "dev")
    for made in (from_file(tmp_path, rows), OwnBenchmark.from_tasks(rows)):
        assert ids(made) == [["0", "3"], ["1", "4"], ["2"]]
        assert not made.undivided  # so that few tasks are not cross-fitted over somebody's test


def test_train_is_divided_where_rows_say_train_and_test_only(tmp_path: Path) -> None:
    made = from_file(tmp_path, split_rows("train", "train", "train", "train", "test"))
    assert [len(part) for part in ids(made)] == [2, 2, 1]
    assert ids(made)[2] == ["4"]


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (["north", "south"] * 5, {}),  # another meaning of the word
        (["train"] * 10, {}),  # one split of a larger set
        (["train", "test"] * 4 + ["train", None], {}),  # not all rows say it
        (["train", "test"] * 5, {"split_ratio": "2:2:1"}),  # somebody says otherwise
    ],
)
def test_other_rows_are_divided_by_ratio(
    tmp_path: Path, names: list[str | None], settings: dict[str, Any]
) -> None:
    made = from_file(tmp_path, split_rows(*names), **settings)
    assert [len(part) for part in ids(made)] == [4, 4, 2]
    assert made.undivided == (not settings)


def test_the_field_of_the_split_can_be_named_and_must_then_say_it(tmp_path: Path) -> None:
    rows = [{**row, "part": row["split"]} for row in split_rows("train", "val", "test")]
    assert ids(from_file(tmp_path, rows, split_field="part")) == [["0"], ["1"], ["2"]]
    with pytest.raises(TaskError, match="'1' has 'vall' as its part, which is none of train, val"):
        from_file(tmp_path, [rows[0], {**rows[1], "part": "vall"}], split_field="part")
    with pytest.raises(ConfigError, match=r"env\.test_path and env\.split_field both say what is test"):
        from_file(tmp_path, rows, split_field="part", test_path=tmp_path / "tasks.jsonl")


def test_an_id_that_two_tasks_share_is_named_with_file_and_lines(tmp_path: Path) -> None:
    rows = split_rows(None, None, None)
    rows[2]["id"] = "0"
    with pytest.raises(TaskError) as caught:
        from_file(tmp_path, rows)
    assert f"{tmp_path / 'tasks.jsonl'}: 1 task id is used more than once: 0 (lines 1 and 3)" in str(
        caught.value
    )


def test_a_template_may_name_columns_as_people_name_them(tmp_path: Path) -> None:
    rows = [{"Frage an Müller": f"Say {n}", "Größe": n, "answer": n} for n in range(3)]
    made = from_file(tmp_path, rows, prompt="{Frage an Müller} in {Größe}, {no such field}, {0}")
    prompts = {task.prompt for split in SPLITS for task in made.tasks(split)}
    assert prompts == {f"Say {n} in {n}, {{no such field}}, {{0}}" for n in range(3)}
