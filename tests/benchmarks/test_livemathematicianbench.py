"""LiveMathematicianBench: raw monthly files and normalised items, the right choice added, and an order of
choices per item.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.livemathematicianbench import PLUGIN, LiveMathSettings, load_months, to_task
from skillopt.errors import TaskError
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import SPLITS, Task

RIGHT = "Exactly one such map exists."


def raw(no: int, /, **changes: Any) -> dict[str, Any]:
    choices = [{"label": label, "text": f"Wrong {label} of {no}"} for label in "BCDE"]
    mcq = {
        "question": f"How many maps are there in case {no}?",
        "choices": choices,
        "correct_choice": {"label": "A", "text": f"{RIGHT} ({no})"},
    }
    item = {
        "month": "202511",
        "no": no,
        "paper_link": "https://example.org",
        "theorem": f"Theorem {no}",
        "sketch": f"Sketch {no}",
    }
    return {
        **item,
        "theorem_type": ["Existence", "Uniqueness"],
        "mcq": {**mcq, **changes.pop("mcq", {})},
        **changes,
    }


def tasks(
    folder: Path, rows: list[dict[str, Any]], name: str = "qa_202511_final.json", **settings: Any
) -> list[Task]:
    (folder / name).write_text(json.dumps(rows))
    return [to_task(row, LiveMathSettings(**settings)) for row in load_rows(folder / name)]


def right_text(task: Task) -> str:
    return str(task.data["choices"][task.reference])


def test_it_is_registered_under_its_public_name_with_the_public_defaults() -> None:
    assert benchmarks.get("livemathematicianbench") is PLUGIN
    assert (PLUGIN.defaults["env.workers"], PLUGIN.defaults["env.exec_timeout"]) == (64, 300.0)
    assert (
        LiveMathSettings().shuffle_choices,
        LiveMathSettings().use_theorem,
        LiveMathSettings().use_sketch,
    ) == (True, False, False)


def test_the_right_choice_is_added_and_the_choices_are_shuffled_per_item(tmp_path: Path) -> None:
    found = tasks(tmp_path, [raw(no) for no in range(100)])
    assert all(
        len(task.data["choices"]) == 5 and list(task.data["choices"]) == list("ABCDE") for task in found
    )
    assert [right_text(task) for task in found] == [f"{RIGHT} ({no})" for no in range(100)]
    places = Counter(task.reference for task in found)
    assert set(places) == set("ABCDE")
    assert max(places.values()) < 40  # a fifth each, give or take
    assert found[7].id == "202511:7"
    assert found[7].kind == "Existence, Uniqueness"


def test_the_order_is_the_published_one_for_a_seed_and_an_id(tmp_path: Path) -> None:
    (task,) = tasks(tmp_path, [raw(7)], choice_seed=3)
    order = list(range(5))
    random.Random(int(hashlib.sha256(b"3:202511:7").hexdigest()[:16], 16)).shuffle(order)
    texts = [f"{RIGHT} (7)", *(f"Wrong {label} of 7" for label in "BCDE")]
    assert list(task.data["choices"].values()) == [texts[place] for place in order]


def test_an_item_keeps_its_order_whatever_else_is_in_the_file(tmp_path: Path) -> None:
    alone = tasks(tmp_path, [raw(7)])[0]
    among = tasks(tmp_path, [raw(no) for no in range(20)])[7]
    assert alone == among
    assert alone != tasks(tmp_path, [raw(7)], choice_seed=1)[0]


def test_unshuffled_the_right_one_of_a_raw_file_is_a(tmp_path: Path) -> None:
    found = tasks(tmp_path, [raw(no) for no in range(5)], shuffle_choices=False)
    assert {task.reference for task in found} == {"A"}


@pytest.mark.parametrize(
    ("choices", "correct"),
    [
        ([{"label": "A", "text": "yes"}, {"label": "B", "text": "no"}], "A"),
        ([{"label": "A", "text": "yes"}, {"label": "B", "text": "no"}], {"label": "A", "text": "yes"}),
        ({"A": "yes", "B": "no"}, "A"),
        (["yes", "no"], "yes"),
        (["no", "perhaps"], "yes"),
        (["no", "perhaps"], {"label": "A", "text": "yes"}),
    ],
)
def test_normalised_items_come_in_several_shapes(tmp_path: Path, choices: Any, correct: Any) -> None:
    for key in ("answer", "correct_choice"):
        (task,) = tasks(
            tmp_path,
            [{"id": "202511:9", "question": "Is it?", "choices": choices, key: correct}],
            "items.json",
        )
        assert (task.id, right_text(task)) == ("202511:9", "yes")
        assert set(task.data["choices"].values()) >= {"yes", "no"}


def test_question_and_choices_are_shown_and_theorem_and_sketch_only_when_asked_for(tmp_path: Path) -> None:
    (plain,) = tasks(tmp_path, [raw(7)])
    assert plain.prompt.startswith("## Question\n\nHow many maps are there in case 7?\n\n## Choices\n\nA. ")
    assert "Theorem 7" not in plain.prompt and "Sketch 7" not in plain.prompt
    (told,) = tasks(tmp_path, [raw(7)], use_theorem=True, use_sketch=True)
    assert told.prompt.startswith("## Theorem\n\nTheorem 7\n\n## Sketch\n\nSketch 7\n\n## Question")


def test_all_months_of_a_folder_are_read_and_a_missing_month_is_the_files(tmp_path: Path) -> None:
    for month in ("202510", "202511"):
        (tmp_path / month).mkdir()
        rows = [{key: value for key, value in raw(no).items() if key != "month"} for no in range(6)]
        for row in rows:
            row["mcq"]["question"] += f" In {month}?"
        (tmp_path / month / f"qa_{month}_final.json").write_text(json.dumps(rows))
    assert [row.path.parent.name for row in load_months(tmp_path, [])] == ["202510"] * 6 + ["202511"] * 6
    benchmark = PLUGIN(LiveMathSettings(data_path=tmp_path))
    assert sum(len(benchmark.tasks(split)) for split in SPLITS) == 12
    assert {task.id.partition(":")[0] for split in SPLITS for task in benchmark.tasks(split)} == {
        "202510",
        "202511",
    }


async def test_the_label_or_the_text_of_the_right_choice_passes(tmp_path: Path) -> None:
    (tmp_path / "qa_202511_final.json").write_text(json.dumps([raw(no) for no in range(10)]))
    benchmark = PLUGIN(LiveMathSettings(data_path=tmp_path / "qa_202511_final.json"))
    task = benchmark.tasks("val")[0]
    wrong = next(label for label in "ABCDE" if label != task.reference)
    for answer, hard in (
        (task.reference, 1),
        (f"({task.reference})", 1),
        (right_text(task), 1),
        (wrong, 0),
        ("", 0),
        ("A or B", 0),
    ):
        found = await benchmark.score(
            task, Trajectory(messages=(), answer=f"<answer>{answer}</answer>", calls=1, usage=None)
        )
        assert found.hard == found.soft == hard


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"no": None}, "has no id"),
        ({"mcq": {"question": ""}}, "'question' is missing or empty"),
        ({"mcq": {"choices": "A, B"}}, "'choices' is no list"),
        ({"mcq": {"choices": [{"label": "B"}]}}, "a choice has no text"),
        (
            {"mcq": {"choices": [{"label": "B", "text": "x"}, {"label": "B", "text": "y"}]}},
            "two have the same label",
        ),
        ({"mcq": {"correct_choice": None}}, "does not say which choice is right"),
        ({"mcq": {"correct_choice": "Z"}}, "the right choice 'Z' is no label"),
        (
            {"mcq": {"correct_choice": {"label": "B", "text": "another"}}},
            "two different choices have the label 'B'",
        ),
        (
            {"mcq": {"correct_choice": {"label": "A", "text": "Wrong B of 2"}}},
            "two choices have the same text",
        ),
        ({"theorem": ""}, "has no theorem, which env.use_theorem asks for"),
    ],
)
def test_an_item_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        tasks(tmp_path, [raw(1), raw(2, **changes)], use_theorem=True)
