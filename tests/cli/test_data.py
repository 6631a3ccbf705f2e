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
from cli._commands import Command, Ran
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


def made(skillopt: Command, ids: Path, source: Path, out: str = "made", benchmark: str = "searchqa") -> Ran:
    words = ("--manifest", str(ids), "--source", str(source), "--out", out)
    return skillopt(f"config data {benchmark}", *words)


@pytest.mark.parametrize("shape", ["objects", "plain", "file"])
def test_the_splits_hold_the_named_rows_in_the_order_of_the_manifest(
    skillopt: Command, tmp_path: Path, shape: str
) -> None:
    words = ("--manifest", str(manifest(tmp_path, IDS, shape)), "--source", str(searchqa(tmp_path)))
    ran = skillopt("config data searchqa", *words)
    assert ran.code == 0, ran.err
    plugin = benchmarks.get("searchqa")
    found = plugin(plugin.Settings(split_dir=Path("data/searchqa")))
    assert {split: [task.id for task in found.tasks(split)] for split in IDS} == IDS
    assert found.tasks("test")[0].reference == ["A5"]


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
    ran = made(skillopt, manifest(tmp_path, ids, "file"), searchqa(tmp_path))
    assert ran.code == 2 and words in ran.err
    assert not (tmp_path / "made").exists()


def test_rows_that_cannot_be_used_stop_it_only_where_they_are_wanted(
    skillopt: Command, tmp_path: Path
) -> None:
    source, ids = searchqa(tmp_path), manifest(tmp_path, IDS)
    lines = source.read_text()
    source.write_text(lines + lines.splitlines()[7] + "\n")  # k7 is in no split
    assert made(skillopt, ids, source, "one").code == 0
    source.write_text(lines + lines.splitlines()[3] + "\n")
    twice = made(skillopt, ids, source, "two")
    assert twice.code == 2 and "all.jsonl holds 1 ids more than once: k3" in twice.err
    source.write_text(re.sub(r'\["A\d"\]', "[]", lines))
    unread = made(skillopt, ids, source, "three")
    assert unread.code == 2 and "'answers' holds no answer" in unread.err
    assert not (tmp_path / "two").exists() and not (tmp_path / "three").exists()
    source.write_text(lines.replace('["A3"]', "[]") + "{not a row\n")
    few = made(skillopt, ids, source, "four")
    assert few.code == 0 and "'answers' holds no answer" in few.err
    assert f"{source}, line 9: not JSON" in few.err
    assert len(list((tmp_path / "four").rglob("*.jsonl"))) == len(IDS)


def test_nothing_is_overwritten(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_text("mine")
    assert made(skillopt, manifest(tmp_path, IDS), searchqa(tmp_path), "there").code == 2
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["x"]


def test_pages_of_docvqa_are_found_from_the_new_place(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "raw" / "images").mkdir(parents=True)
    lines = ["questionId,question,answer,image_path"]
    for n in range(6):
        (tmp_path / "raw" / "images" / f"{n}.png").write_bytes(draw(str(n)))
        lines.append(f"k{n},What number is it ({n})?,{n},images/{n}.png")
    (tmp_path / "raw" / "all.csv").write_text("\n".join(lines) + "\n")
    ran = made(skillopt, manifest(tmp_path, IDS), Path("raw/all.csv"), benchmark="docvqa")
    assert ran.code == 0, ran.err
    plugin = benchmarks.get("docvqa")
    found = plugin(plugin.Settings(split_dir=tmp_path / "made"))
    assert [task.id for task in found.tasks("test")] == ["k5", "k4"]
    assert found.tasks("val")[0].images[0].data


def test_months_of_livemathematicianbench_become_items(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    choices = [{"label": "B", "text": "no"}]
    correct = {"label": "A", "text": "yes"}
    items = [
        {"no": n, "mcq": {"question": f"Q{n}", "choices": choices, "correct_choice": correct}}
        for n in range(6)
    ]
    (tmp_path / "raw" / "qa_202511_final.json").write_text(json.dumps(items))
    ids = {split: [name.replace("k", "202511:") for name in names] for split, names in IDS.items()}
    ran = made(skillopt, manifest(tmp_path, ids), Path("raw"), benchmark="livemathematicianbench")
    assert ran.code == 0, ran.err
    plugin = benchmarks.get("livemathematicianbench")
    found = plugin(plugin.Settings(split_dir=tmp_path / "made"))
    assert [task.id for task in found.tasks("test")] == ["202511:5", "202511:4"]
