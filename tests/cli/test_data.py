"""`skillopt config data` makes splits from published ids and published data, or says what is missing and writes
nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks._pages import draw
from cli._commands import Command
from skillopt.benchmarks import benchmarks

IDS = {"train": ["k0", "k3"], "val": ["k1"], "test": ["k5", "k4"]}


def searchqa(folder: Path, count: int = 8) -> Path:
    rows = [
        {"key": f"k{n}", "question": f"Q{n}?", "context": None, "answers": [f"A{n}"]} for n in range(count)
    ]
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "all.jsonl"


def manifest(folder: Path, ids: dict[str, Any], shape: str = "objects") -> Path:
    if shape == "file":
        (folder / "ids.json").write_text(json.dumps(ids))
        return folder / "ids.json"
    for split, names in ids.items():
        (folder / "ids" / split).mkdir(parents=True)
        listed = names if shape == "plain" else [{"id": name} for name in names]
        (folder / "ids" / split / "items.json").write_text(json.dumps(listed))
    return folder / "ids"


@pytest.mark.parametrize("shape", ["objects", "plain", "file"])
def test_the_splits_hold_the_named_rows_in_the_order_of_the_manifest(
    skillopt: Command, tmp_path: Path, shape: str
) -> None:
    source, ids = searchqa(tmp_path), manifest(tmp_path, IDS, shape)
    ran = skillopt("config data searchqa --manifest", str(ids), "--source", str(source))
    assert ran.code == 0, ran.err
    plugin = benchmarks.get("searchqa")
    made = plugin(plugin.Settings(split_dir=Path("data/searchqa")))
    assert {split: [task.id for task in made.tasks(split)] for split in IDS} == IDS
    assert made.tasks("test")[0].reference == ["A5"]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ({**IDS, "val": ["k1", "k9", "k77"]}, "2 of 7 ids of"),
        ({**IDS, "val": ["k1", "k9"]}, "all.jsonl: k9"),
        ({**IDS, "val": ["k0"]}, "1 ids more than once: k0"),
        ({**IDS, "valid_seen": ["k2"]}, "names the val split twice"),
        ({**IDS, "dev": ["k2"]}, "No split named 'dev'"),
        ({**IDS, "val": [None]}, "None is no id"),
    ],
)
def test_a_manifest_that_does_not_fit_is_named_and_nothing_is_written(
    skillopt: Command, tmp_path: Path, ids: dict[str, Any], words: str
) -> None:
    source = searchqa(tmp_path)
    ran = skillopt(
        "config data searchqa --manifest", str(manifest(tmp_path, ids, "file")), "--source", str(source)
    )
    assert ran.code == 2
    assert words in ran.err
    assert not (tmp_path / "data").exists()


def test_an_id_that_the_data_holds_twice_is_refused_only_where_it_is_wanted(
    skillopt: Command, tmp_path: Path
) -> None:
    source, ids = searchqa(tmp_path), manifest(tmp_path, IDS)
    lines = source.read_text()
    source.write_text(lines + lines.splitlines()[7] + "\n")  # k7 is in no split
    assert (
        skillopt("config data searchqa --manifest", str(ids), "--source", str(source), "--out", "one").code
        == 0
    )
    source.write_text(lines + lines.splitlines()[3] + "\n")
    ran = skillopt("config data searchqa --manifest", str(ids), "--source", str(source), "--out", "two")
    assert ran.code == 2
    assert "all.jsonl holds 1 ids more than once: k3" in ran.err


def test_nothing_is_overwritten(skillopt: Command, tmp_path: Path) -> None:
    source, ids = searchqa(tmp_path), manifest(tmp_path, IDS)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_text("mine")
    ran = skillopt("config data searchqa --manifest", str(ids), "--source", str(source), "--out", "there")
    assert ran.code == 2
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["x"]


def test_rows_that_the_benchmark_cannot_read_leave_nothing_behind(skillopt: Command, tmp_path: Path) -> None:
    source, ids = searchqa(tmp_path), manifest(tmp_path, IDS)
    source.write_text(re.sub(r'\["A\d"\]', "[]", source.read_text()))
    ran = skillopt("config data searchqa --manifest", str(ids), "--source", str(source), "--out", "made")
    assert ran.code == 2
    assert "'answers' holds no answer" in ran.err
    assert not (tmp_path / "made").exists()


def test_a_published_row_that_cannot_be_used_is_named_and_costs_nothing_else(
    skillopt: Command, tmp_path: Path
) -> None:
    source, ids = searchqa(tmp_path), manifest(tmp_path, IDS)
    source.write_text(source.read_text().replace('["A3"]', "[]") + "{not a row\n")
    ran = skillopt("config data searchqa --manifest", str(ids), "--source", str(source), "--out", "made")
    assert ran.code == 0
    assert "'answers' holds no answer" in ran.err
    assert f"{source}, line 9: not JSON" in ran.err
    assert len(list((tmp_path / "made").rglob("*.jsonl"))) == len(IDS)


def test_pages_of_docvqa_are_found_from_the_new_place(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "raw" / "images").mkdir(parents=True)
    lines = ["questionId,question,answer,image_path"]
    for n in range(6):
        (tmp_path / "raw" / "images" / f"{n}.png").write_bytes(draw(str(n)))
        lines.append(f"k{n},What number is it ({n})?,{n},images/{n}.png")
    (tmp_path / "raw" / "all.csv").write_text("\n".join(lines) + "\n")
    ran = skillopt(
        "config data docvqa --manifest",
        str(manifest(tmp_path, IDS)),
        "--source",
        "raw/all.csv",
        "--out",
        "splits",
    )
    assert ran.code == 0, ran.err
    plugin = benchmarks.get("docvqa")
    made = plugin(plugin.Settings(split_dir=tmp_path / "splits"))
    assert [task.id for task in made.tasks("test")] == ["k5", "k4"]
    assert made.tasks("val")[0].images[0].data


def test_months_of_livemathematicianbench_become_items(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    choices = [{"label": "B", "text": "no"}]
    items = [
        {
            "no": n,
            "mcq": {"question": f"Q{n}", "choices": choices, "correct_choice": {"label": "A", "text": "yes"}},
        }
        for n in range(6)
    ]
    (tmp_path / "raw" / "qa_202511_final.json").write_text(json.dumps(items))
    ids = {split: [name.replace("k", "202511:") for name in names] for split, names in IDS.items()}
    ran = skillopt(
        "config data livemathematicianbench --manifest",
        str(manifest(tmp_path, ids)),
        "--source",
        "raw",
        "--out",
        "splits",
    )
    assert ran.code == 0, ran.err
    plugin = benchmarks.get("livemathematicianbench")
    made = plugin(plugin.Settings(split_dir=tmp_path / "splits"))
    assert [task.id for task in made.tasks("test")] == ["202511:5", "202511:4"]
