"""SearchQA speaks the public format: rows, context limit, tags, SQuAD scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.searchqa import CONTEXT_LIMIT, PLUGIN, SearchQASettings, shorten, to_task
from skillopt.errors import ConfigError, TaskError
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import SPLITS


def row(number: int, **changes: Any) -> dict[str, Any]:
    context = "".join(f"[DOC] [TLE] page {number}.{page} [PAR] {'words ' * 400}" for page in range(10))
    return {
        "id": f"q{number}",
        "question": f"Capital number {number}",
        "context": context,
        "answers": ['"Paris"', "City of Light"],
        **changes,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return path


def said(answer: str) -> Trajectory:
    return Trajectory(messages=(), answer=answer, calls=1, usage=None)


def test_it_is_registered_with_the_public_defaults(tmp_path: Path) -> None:
    assert benchmarks.get("searchqa") is PLUGIN
    assert PLUGIN.defaults == {
        "optimizer.skip_unchanged_epochs": False,
        "optimizer.salvage": False,
        "gate.leak_guard": False,
        "evaluation.repeats": 1,
        "env.workers": 24,
        "train.train_size": 0,
        "env.max_completion_tokens": 16384,
    }
    benchmark = PLUGIN(SearchQASettings(data_path=write(tmp_path / "a.jsonl", [row(n) for n in range(20)])))
    assert isinstance(benchmark, Benchmark)
    assert [len(benchmark.tasks(split)) for split in SPLITS] == [4, 2, 14]
    assert not benchmark.graded
    assert benchmark.prompts["rollout"].count("{skill}") == 1
    assert "<answer>" in benchmark.prompts["rollout"]
    assert 0 < len(benchmark.seed_skill) < 300


async def test_scores_are_squad_s_with_the_last_line_as_fallback(tmp_path: Path) -> None:
    benchmark = PLUGIN(SearchQASettings(data_path=write(tmp_path / "a.jsonl", [row(n) for n in range(20)])))
    task = benchmark.tasks("train")[0]
    for answer, hard, soft in [
        ("Hm. <answer>the paris</answer>", 1, 1),
        ("I think:\nCity of Light.", 1, 1),
        ("<answer>Paris, France</answer>", 0, 2 / 3),
        ("<answer>Rome</answer>\nParis", 0, 0),
    ]:
        found = await benchmark.score(task, said(answer))
        assert (found.hard, found.soft) == (hard, pytest.approx(soft))


def test_the_prompt_holds_snippets_and_question_and_never_the_answer(tmp_path: Path) -> None:
    rows = load_rows(write(tmp_path / "a.jsonl", [row(1), row(2, context=None, answers="Rome")]))
    first, second = map(to_task, rows)
    assert first.prompt.startswith("## Snippets\n\n[DOC] [TLE] page 1.0")
    assert first.prompt.endswith("## Question\n\nCapital number 1")
    assert "page 1.1" in first.prompt
    assert "page 1.2" not in first.prompt  # a document is shown whole or not at all
    assert "Paris" not in first.prompt
    assert second.prompt == "## Question\n\nCapital number 2"
    assert second.reference == ["Rome"]


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ("[DOC] short", "[DOC] short"),
        ("[DOC] " + "a" * 5994, "[DOC] " + "a" * 5994),
        ("[DOC] " + "a" * 5994 + "[DOC] next", "[DOC] " + "a" * 5994),
        ("[DOC] " + "a" * 5990 + "[DOC] next", "[DOC] " + "a" * 5990),
        ("[DOC] first [DOC] " + "b" * 9000, "[DOC] first"),
        ("[DOC] " + "a" * 9000, "[DOC] " + "a" * 5994),
        ("a" * 9000, "a" * 6000),
    ],
)
def test_the_context_is_cut_where_a_document_begins(context: str, shown: str) -> None:
    assert shorten(context) == shown
    assert len(shown) <= CONTEXT_LIMIT


def test_rows_of_the_published_files_are_understood(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'key,question,context,answers\nk1,Where?,,"[""Paris"", ""Lutetia""]"\nk2,Who?,[DOC] x,Marie Curie\n'
    )
    first, second = map(to_task, load_rows(tmp_path / "a.csv"))
    assert (first.id, first.reference, second.reference) == ("k1", ["Paris", "Lutetia"], ["Marie Curie"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": None}, "line 2: has no id"),
        ({"question": ""}, "line 2: 'question' is missing or empty"),
        ({"question": 5}, "line 2: 'question' is no text"),
        ({"context": ["x"]}, "line 2: 'context' is no text"),
        ({"answers": []}, "line 2: 'answers' holds no answer"),
        ({"answers": None}, "line 2: 'answers' holds no answer"),
        ({"answers": [None, " "]}, "line 2: 'answers' holds no answer"),
        ({"answers": "[broken"}, "line 2: 'answers' starts like a JSON list"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words.replace("[", r"\[")):
        list(map(to_task, load_rows(write(tmp_path / "a.jsonl", [row(1), row(2, **changes)]))))


@pytest.mark.parametrize("mode", [None, "ratio"])
def test_the_published_folder_of_a_checkout_is_found_where_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"data.searchqa_split is read where it exists"):
        PLUGIN(SearchQASettings(split_mode=mode))
    for number, split in enumerate(SPLITS):
        (tmp_path / "data" / "searchqa_split" / split).mkdir(parents=True)
        write(tmp_path / "data" / "searchqa_split" / split / "items.jsonl", [row(number)])
    found = PLUGIN(SearchQASettings(split_mode=mode))
    assert [[task.id for task in found.tasks(split)] for split in SPLITS] == [["q0"], ["q1"], ["q2"]]
    given = PLUGIN(SearchQASettings(data_path=write(tmp_path / "a.jsonl", [row(n) for n in range(20)])))
    assert len(given.tasks("test")) == 14
