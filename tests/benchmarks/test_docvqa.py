"""DocVQA: the public CSV form, pages drawn by the test and seen through a real wire, ANLS, and a ratio split
that works.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from benchmarks._pages import draw, read
from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.docvqa import PLUGIN, DocVQASettings, to_task
from skillopt.config.load import load
from skillopt.errors import TaskError
from skillopt.run import open_run, prepare, train
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import SPLITS

RULE = "Read the number backwards when the page is of the topic mirror."


def number(n: int) -> str:
    return f"{(n * 7919 + 12345) % 100000:05d}"


def write(folder: Path, count: int = 20) -> Path:
    """A tasks file in the public form, with its images."""
    (folder / "images").mkdir(parents=True)
    lines = ["questionId,question,answer,image_path,topic,docId,ucsf_document_id"]
    for n in range(count):
        (folder / "images" / f"p{n}.png").write_bytes(draw(number(n)))
        shown = number(n)[::-1] if n % 2 else number(n)
        topic = "mirror" if n % 2 else "plain"
        lines.append(
            f"{500 + n},What is number {n}?,\"['{shown}', 'No."
            f" {shown}']\",images/p{n}.png,{topic},{n},abcd{n}"
        )
    file = folder / "all.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_it_is_registered_with_the_public_defaults() -> None:
    assert benchmarks.get("docvqa") is PLUGIN
    assert PLUGIN.defaults["env.workers"] == 16
    assert DocVQASettings().image_detail == "auto"


def test_the_public_columns_are_understood_and_a_ratio_divides_the_file(tmp_path: Path) -> None:
    benchmark = PLUGIN(DocVQASettings(data_path=write(tmp_path)))
    assert [len(benchmark.tasks(split)) for split in SPLITS] == [4, 2, 14]
    task = next(task for split in SPLITS for task in benchmark.tasks(split) if task.id == "503")
    assert task.prompt == "## Question\n\nWhat is number 3?"
    assert (task.reference, task.kind) == ([number(3)[::-1], f"No. {number(3)[::-1]}"], "mirror")
    (image,) = task.images
    assert (image.media_type, image.detail) == ("image/png", None)
    assert base64.b64decode(image.data) == (tmp_path / "images" / "p3.png").read_bytes()
    assert not any(str(answer) in task.prompt for answer in task.reference)


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"id": 1, "answer": "['a', \"b's\"]"}, ["a", "b's"]),
        ({"id": "x", "ground_truth": '["a"]'}, ["a"]),
        ({"questionId": 1, "answer": "[brackets] in the answer"}, None),
        ({"questionId": 1, "answer": "plain"}, ["plain"]),
        ({"questionId": 1, "answers": ["a", 12]}, ["a", "12"]),
    ],
)
def test_answers_come_as_python_json_or_plain(
    tmp_path: Path, fields: dict[str, Any], answers: list[str] | None
) -> None:
    (tmp_path / "p.png").write_bytes(draw("1"))
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": "Q?", "image_path": "p.png", **fields}) + "\n")
    rows = load_rows(tmp_path / "a.jsonl")
    if answers is None:
        with pytest.raises(TaskError, match="start like a list but are none"):
            to_task(rows[0])
    else:
        assert to_task(rows[0]).reference == answers


def test_a_path_in_the_question_is_taken_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(draw("1"))
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"id": 1, "question": "What date?\ndocument_path: p.png", "answer": "x"}) + "\n"
    )
    (task,) = (to_task(row, detail="high") for row in load_rows(tmp_path / "a.jsonl"))
    assert task.prompt == "## Question\n\nWhat date?"
    assert task.images[0].detail == "high"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"questionId": ""}, "has no id"),
        ({"question": " "}, "'question' is missing or empty"),
        ({"answer": "[]"}, "has no answer"),
        ({"image_path": None}, "names no image"),
        ({"image_path": "gone.png"}, "there is no image 'gone.png' in"),
        ({"image_path": "page.tiff"}, "'page.tiff' is no image that models take"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "page.tiff").write_bytes(b"II*")
    (tmp_path / "p.png").write_bytes(draw("1"))
    row = {"questionId": 1, "question": "Q?", "answer": "x", "image_path": "p.png", **changes}
    (tmp_path / "a.jsonl").write_text(
        json.dumps({**row, "questionId": 0, "image_path": "p.png", "question": "Q?", "answer": "x"})
        + "\n"
        + json.dumps(row)
    )
    with pytest.raises(TaskError) as caught:
        [to_task(row) for row in load_rows(tmp_path / "a.jsonl")]
    assert "line 2: " in str(caught.value)
    assert words in str(caught.value)


async def test_scores_are_anls(tmp_path: Path) -> None:
    benchmark = PLUGIN(DocVQASettings(data_path=write(tmp_path)))
    task = benchmark.tasks("train")[0]
    exact = str(task.reference[0])
    for answer, hard, soft in ((exact, 1, 1), (exact[:4] + "x", 0, 0.8), ("nothing of it", 0, 0)):
        found = await benchmark.score(
            task, Trajectory(messages=(), answer=f"<answer>{answer}</answer>", calls=1, usage=None)
        )
        assert (found.hard, found.soft) == (hard, pytest.approx(soft))


def test_another_page_or_another_detail_is_another_task(tmp_path: Path) -> None:
    file = write(tmp_path)
    task = PLUGIN(DocVQASettings(data_path=file)).tasks("train")[0]
    high = PLUGIN(DocVQASettings(data_path=file, image_detail="high")).tasks("train")[0]
    assert task.content_hash != high.content_hash
    before = task.content_hash
    (tmp_path / "images" / f"p{int(task.id) - 500}.png").write_bytes(draw("00000"))
    assert task.content_hash != before


def sees(call: Call) -> str:
    """A provider with eyes: it reads the number off the pixels, and backwards only once the skill says so."""
    if not (call.place or "").startswith("rollout/"):
        return json.dumps(
            {"batch_size": 4, "patch": {"reasoning": "r", "edits": [{"op": "append", "content": RULE}]}}
        )
    (image,) = [part for part in call.body["messages"][-1]["content"] if part["type"] == "image_url"]
    seen = read(image["image_url"]["url"])
    n = int(call.text.rpartition("number ")[2].rstrip("?"))
    return f"<answer>{seen[::-1] if RULE in call.text and n % 2 else seen}</answer>"


async def test_a_run_on_drawn_pages_through_a_provider_that_sees_learns_to_read_them(tmp_path: Path) -> None:
    write(tmp_path, 30)
    details: list[Any] = []

    def answer(call: Call) -> str:
        if (call.place or "").startswith("rollout/"):
            details.append(call.body["messages"][-1]["content"][-1]["image_url"].get("detail"))
        return sees(call)

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.data_path=all.csv",
            "env.split_ratio=1:1:1",
            "env.image_detail=high",
            "train.num_epochs=1",
        ]
        resolved = load(
            "docvqa",
            flags={},
            options=[*options, f"model.target={model}", f"model.optimizer={model}"],
            environ={},
            cwd=tmp_path,
        )
        async with open_run(prepare(resolved), tmp_path / "run") as opened:
            result = await train(opened)
    assert result.summary["test_hard"] == 1.0
    assert result.summary["baseline_test_hard"] < 1.0
    assert set(details) == {"high"}
