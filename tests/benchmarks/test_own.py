"""Your own tasks, from files and from Python; bad input ends with one clear message before
anything is paid.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.own import PLUGIN, OwnBenchmark, OwnSettings
from skillopt.errors import ConfigError, SkillOptError, TaskError, UnknownName
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import SPLITS, Task


def rows(count: int = 10, **extra: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"q{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n), **extra}
        for n in range(count)
    ]


def jsonl(path: Path, content: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return path


def build(**settings: Any) -> Benchmark:
    return PLUGIN(OwnSettings(**settings))


def said(answer: str) -> Trajectory:
    return Trajectory(messages=(), answer=answer, calls=1, usage=None)


def by_id(benchmark: Benchmark) -> dict[str, Task]:
    return {task.id: task for split in SPLITS for task in benchmark.tasks(split)}


async def test_a_file_a_template_and_a_scorer_make_a_benchmark(tmp_path: Path) -> None:
    benchmark = build(
        data_path=jsonl(tmp_path / "tasks.jsonl", rows(kind="sum")),
        prompt='{question} Reply {"n": 1}.',
        kind_field="kind",
    )
    assert isinstance(benchmark, Benchmark)
    assert [len(benchmark.tasks(split)) for split in SPLITS] == [4, 4, 2]
    task = by_id(benchmark)["q3"]
    assert (task.prompt, task.reference, task.kind) == ('What is 3 + 3? Reply {"n": 1}.', "6", "sum")
    assert "answer" not in task.data
    assert task.data["question"] == "What is 3 + 3?"
    assert benchmark.open(task) is None
    assert (await benchmark.score(task, said("<answer>6</answer>"))).hard == 1
    assert (await benchmark.score(task, said("7"))).hard == 0
    assert not benchmark.graded
    assert "exact_match" in benchmark.scorer_version


def test_it_is_registered_by_its_file_and_proves_edits_by_default() -> None:
    assert benchmarks.get("own") is PLUGIN
    assert "own" in benchmarks.names()
    assert not {"texts", "_data", "_rows"} & set(benchmarks.names())
    assert PLUGIN.defaults == {"train.strategy": "proof"}
    assert all(field.description for field in PLUGIN.Settings.model_fields.values())


def test_the_default_prompts_show_the_skill_and_ask_for_tags() -> None:
    benchmark = OwnBenchmark.from_tasks(rows())
    assert benchmark.prompts["rollout"].count("{skill}") == 1
    assert "<answer>" in benchmark.prompts["rollout"]
    assert benchmark.seed_skill.startswith("# ")


@pytest.mark.parametrize("field", ["prompt", "question", "input", "task"])
@pytest.mark.parametrize("reference", ["reference", "answer", "answers", "expected", "expected_output"])
def test_common_field_names_are_found(field: str, reference: str) -> None:
    benchmark = OwnBenchmark.from_tasks([{field: f"p{n}", reference: [f"r{n}"]} for n in range(5)])
    assert {(task.prompt, task.reference[0]) for task in by_id(benchmark).values()} == {
        (f"p{n}", f"r{n}") for n in range(5)
    }


def test_ids_are_the_row_s_own_or_a_stable_hash(tmp_path: Path) -> None:
    plain = [{"question": f"q{n % 6}", "answer": "x"} for n in range(12)]
    first, again = (
        by_id(OwnBenchmark.from_tasks(plain, settings=OwnSettings(split_ratio="1:1:0"))) for _ in range(2)
    )
    assert list(first) == list(again)
    assert len(first) == 12  # equal rows keep apart
    assert set(
        by_id(
            build(
                data_path=jsonl(tmp_path / "a.jsonl", [{"key": n, **row} for n, row in enumerate(plain)]),
                id_field="key",
            )
        )
    ) == {str(n) for n in range(12)}


def test_templates_and_system_prompts_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Solve: {question} {unrelated_words}", encoding="utf-8")
    (tmp_path / "system.txt").write_text("Use {skill}.", encoding="utf-8")
    settings = OwnSettings(prompt=str(tmp_path / "prompt.md"), system=str(tmp_path / "system.txt"))
    benchmark = OwnBenchmark.from_tasks(rows(), settings=settings)
    assert by_id(benchmark)["q1"].prompt == "Solve: What is 1 + 1? {unrelated_words}"
    assert benchmark.prompts["rollout"] == "Use {skill}."


def test_braces_in_the_data_are_never_filled() -> None:
    benchmark = OwnBenchmark.from_tasks(
        [{"question": f"{{answer}} {{}} {n}", "answer": f"secret{n}"} for n in range(5)],
        settings=OwnSettings(prompt="{question}"),
    )
    assert not any("secret" in task.prompt for task in by_id(benchmark).values())


def test_folders_give_the_splits_under_every_public_name(tmp_path: Path) -> None:
    all_rows = rows(6)
    for name, part in {
        "train": all_rows[:3],
        "valid_seen": all_rows[3:5],
        "valid_unseen": all_rows[5:],
    }.items():
        jsonl(tmp_path / name / "items.jsonl", part)
    benchmark = build(split_dir=tmp_path)
    assert [[task.id for task in benchmark.tasks(split)] for split in SPLITS] == [
        ["q0", "q1", "q2"],
        ["q3", "q4"],
        ["q5"],
    ]
    assert [len(build(split_dir=tmp_path, limit=1).tasks(split)) for split in SPLITS] == [1, 1, 1]


def test_the_split_mode_decides_when_both_places_are_given(tmp_path: Path) -> None:
    for name, part in {"train": rows(6)[:3], "val": rows(6)[3:]}.items():
        jsonl(tmp_path / name / "items.jsonl", part)
    data = jsonl(tmp_path / "all.jsonl", rows(20))
    assert [len(build(split_dir=tmp_path, data_path=data).tasks(split)) for split in SPLITS] == [3, 3, 0]
    assert [
        len(build(split_dir=tmp_path, data_path=data, split_mode="ratio").tasks(split)) for split in SPLITS
    ] == [8, 8, 4]


def test_ratio_and_seed_are_read(tmp_path: Path) -> None:
    data = jsonl(tmp_path / "all.jsonl", rows(20))
    assert [len(build(data_path=data, split_ratio="1:1:0").tasks(split)) for split in SPLITS] == [10, 10, 0]
    assert build(data_path=data, split_seed=0).tasks("train") != build(data_path=data).tasks("train")


async def test_from_python_come_tasks_rows_and_any_function() -> None:
    given = [Task(id=f"t{n}", prompt=f"p{n}", data={"n": n}) for n in range(3)] + rows(3)

    def near(task: Task, answer: str) -> float:
        return 0.5 if "n" in task.data else 1.0

    benchmark = OwnBenchmark.from_tasks(given, scorer=near)
    assert benchmark.graded
    tasks = by_id(benchmark)
    assert set(tasks) == {"t0", "t1", "t2", "q0", "q1", "q2"}
    assert (await benchmark.score(tasks["t1"], said("x"))).soft == 0.5
    assert (await benchmark.score(tasks["q1"], said("x"))).hard == 1
    assert not OwnBenchmark.from_tasks(given, scorer=near, settings=OwnSettings(pass_at=0.5)).graded


def test_from_python_splits_may_be_given_by_name() -> None:
    benchmark = OwnBenchmark.from_tasks(
        {"train": rows(6)[:2], "selection": rows(6)[2:5], "test": rows(6)[5:]}
    )
    assert [[task.id for task in benchmark.tasks(split)] for split in SPLITS] == [
        ["q0", "q1"],
        ["q2", "q3", "q4"],
        ["q5"],
    ]
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        OwnBenchmark.from_tasks({"trian": rows(6)})
    with pytest.raises(TaskError, match="are the val split"):
        OwnBenchmark.from_tasks({"train": rows(1), "val": rows(6)[2:4], "selection": rows(6)[4:]})


def test_a_template_may_name_a_column_of_any_spelling(tmp_path: Path) -> None:
    data = jsonl(
        tmp_path / "all.jsonl",
        [{"Mail text": f"m{n} {{Über}}", "Über": "u", "answer": "x"} for n in range(5)],
    )
    made = build(data_path=data, prompt="{Über}: {Mail text} {else}")
    assert {task.prompt for split in SPLITS for task in made.tasks(split)} == {
        f"u: m{n} {{Über}} {{else}}" for n in range(5)
    }


@pytest.mark.parametrize(
    ("content", "settings", "error", "words"),
    [
        (rows(5), {"prompt": "{question} {answer}"}, TaskError, "which is the reference"),
        (rows(5), {"prompt": "{qestion}"}, TaskError, "Did you mean 'question'"),
        (rows(5), {"prompt": "always the same"}, TaskError, r"names no field.* \{question\}"),
        ([{"note": "n", "team": "x"}], {}, TaskError, r"or task, but note, team\..*such as '\{note\}'"),
        ([{"note": "n", "team": "x"}], {"prompt": "{note}"}, TaskError, "note, team: env.reference_field"),
        (rows(5), {"prompt": "missing.md"}, ConfigError, "env.prompt: the file missing.md cannot be read"),
        (rows(5), {"system": "no place for it"}, ConfigError, "has no {skill}"),
        ([*rows(5), {**rows(1)[0], "answer": "else"}], {}, TaskError, "used more than once: q0"),
        ([{**rows(1)[0], "id": f"x{n}"} for n in range(5)], {}, TaskError, "val split is empty"),
        (rows(1), {}, TaskError, "val split is empty"),
        (rows(5), {"scorer": "exct_match"}, UnknownName, "Did you mean 'exact_match'"),
        (rows(5), {"scorer": "cmd: no-such-program-here"}, ConfigError, "there is no program"),
        (rows(5), {"scorer": "missing.py:score"}, ConfigError, "there is no file missing.py"),
        ([{"question": str(n)} for n in range(5)], {}, TaskError, "has no reference"),
        (
            rows(5),
            {"reference_field": "anser"},
            TaskError,
            "line 1: has no field 'anser'.*Did you mean 'answer'",
        ),
        (rows(5), {"id_field": "key"}, TaskError, "line 1: has no field 'key'"),
        (rows(5), {"kind_field": "type"}, TaskError, "line 1: has no field 'type'"),
        ([{**row, "id": {"a": 1}} for row in rows(5)], {}, TaskError, "line 1: the id"),
        (rows(5), {"split_ratio": "2:1"}, ConfigError, "env.split_ratio '2:1'"),
        (rows(5), {"split_mode": "split_dir"}, ConfigError, "env.split_dir is not set"),
        (rows(5), {"scorer_options": {"ignor_case": True}}, ConfigError, "Did you mean 'ignore_case'"),
    ],
)
def test_bad_input_ends_with_one_clear_message(
    tmp_path: Path,
    content: list[dict[str, Any]],
    settings: dict[str, Any],
    error: type[SkillOptError],
    words: str,
) -> None:
    with pytest.raises(error, match=words) as caught:
        build(data_path=jsonl(tmp_path / "tasks.jsonl", content), **settings)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "settings", "words"),
    [
        (
            [*rows(5), {"id": "x", "answer": "1"}],
            {},
            "line 6: has no field prompt, question, input or task",
        ),
        ([*rows(5), {"id": "x", "question": " "}], {}, "line 6: the field 'question' is empty"),
        (
            [*rows(5, hint="h"), {"id": "x", "question": "q", "answer": "a"}],
            {"prompt": "{question} {hint}"},
            "line 6: has no field 'hint'",
        ),
        (
            [{**row, "answer": "(" if row["id"] == "q4" else "x"} for row in rows(5)],
            {"scorer": "regex"},
            "Task 'q4'",
        ),
    ],
)
def test_a_row_that_gives_no_task_is_told_and_the_others_are_used(
    tmp_path: Path, content: list[dict[str, Any]], settings: dict[str, Any], words: str
) -> None:
    made = build(data_path=jsonl(tmp_path / "tasks.jsonl", content), **settings)
    (told,) = made.bad_rows
    assert words in told
    assert sum(len(made.tasks(split)) for split in SPLITS) == len(content) - 1


def test_a_missing_file_and_no_file_at_all_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="There is no tasks file"):
        build(data_path=tmp_path / "nowhere.jsonl")
    with pytest.raises(TaskError, match="there is no folder"):
        build(split_dir=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="There are no tasks"):
        build()


def test_folders_that_overlap_repeat_or_miss_a_split_are_errors(tmp_path: Path) -> None:
    jsonl(tmp_path / "train" / "a.jsonl", rows(4))
    with pytest.raises(TaskError, match="has no folder val/"):
        build(split_dir=tmp_path)
    jsonl(tmp_path / "val" / "a.jsonl", [{**rows(4)[3], "id": "other"}])
    with pytest.raises(TaskError, match=r"q3 \(train\) = other \(val\)"):
        build(split_dir=tmp_path)
    jsonl(tmp_path / "selection" / "a.jsonl", rows(1))
    with pytest.raises(TaskError, match="both the val split"):
        build(split_dir=tmp_path)


def test_unknown_settings_and_values_are_refused() -> None:
    for wrong in ({"promt": "x"}, {"limit": -1}, {"pass_at": 2}, {"split_mode": "random"}):
        with pytest.raises(ValidationError):
            OwnSettings(**wrong)


async def test_a_command_can_score_without_any_code_of_ours(tmp_path: Path) -> None:
    script = tmp_path / "score.py"
    script.write_text(
        "import json, sys\njob = json.load(sys.stdin)\nprint(float(job['answer'] =="
        " job['task']['reference']))\n"
    )
    benchmark = build(
        data_path=jsonl(tmp_path / "tasks.jsonl", rows()), scorer=[sys.executable, str(script)], graded=True
    )
    assert benchmark.graded
    assert (await benchmark.score(by_id(benchmark)["q4"], said("8"))).hard == 1


def test_what_is_neither_task_nor_row_is_refused() -> None:
    with pytest.raises(TaskError, match="Task 2 of the list is str"):
        OwnBenchmark.from_tasks([rows(1)[0], "question"])  # type: ignore[list-item]


def test_the_optimizers_prompts_may_come_from_a_folder(tmp_path: Path) -> None:
    tasks, folder = jsonl(tmp_path / "tasks.jsonl", rows()), tmp_path / "prompts"
    with pytest.raises(ConfigError, match=r"env\.prompts: .* cannot be read"):
        build(data_path=tasks, prompts=folder)
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"holds no \.md file"):
        build(data_path=tasks, prompts=folder)
    (folder / "analyst_failure.md").write_text("Find the cause.")
    benchmark = build(data_path=tasks, prompts=folder)
    assert benchmark.prompts["analyst_failure"] == "Find the cause."
    assert set(benchmark.prompts) == {"analyst_failure", "rollout"}
    (folder / "analyst_failures.md").write_text("Find the cause.")
    with pytest.raises(
        ConfigError, match=r"no stage is named 'analyst_failures' .* Did you mean 'analyst_failure'"
    ):
        build(data_path=tasks, prompts=folder)
