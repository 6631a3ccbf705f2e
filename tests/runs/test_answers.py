"""The answers of a run are read from its folder: question, expected, and what each skill made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillopt.events import TestMeasured
from skillopt.redact import Scrubber
from skillopt.runs.answers import RunAnswers, read_answers, write_tasks
from skillopt.runs.reader import read_run
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task
from train._world import Trained


@pytest.fixture(scope="session")
def answers(trained: Trained) -> RunAnswers:
    return read_answers(read_run(trained.folder))


@pytest.mark.slow
def test_every_task_stands_with_its_question_what_was_expected_and_both_answers(
    trained: Trained, answers: RunAnswers
) -> None:
    (seen,) = trained.of(TestMeasured)
    tested = [one for one in answers.tasks if one.split == "test"]
    assert [one.id for one in tested] == [row.task for row in seen.rows["seed"]]
    stored = [json.loads(line) for line in (trained.folder / "tasks.jsonl").read_text().splitlines()]
    assert {one["id"]: (one["question"], one["expected"]) for one in stored if one["split"] == "test"} == {
        one.id: (one.stored.question, one.stored.expected) for one in tested if one.stored
    }
    for name, digest in (("seed", answers.seed), ("best", answers.best)):
        rows = {row.task: row for row in seen.rows[name]}
        for one in tested:
            (said,) = one.answers[digest]
            assert said.row == rows[one.id]
            assert said.text and bool(said.feedback) is (said.row.hard == 0)
    assert any(
        one.answers[answers.seed][0].row.hard < one.answers[answers.best][0].row.hard for one in tested
    )  # type: ignore[operator]


def test_val_answers_are_those_of_the_skill_that_was_measured(trained: Trained, answers: RunAnswers) -> None:
    val = [one for one in answers.tasks if one.split == "val"]
    assert len(val) == 30
    for digest, score in ((answers.seed, "baseline_gate_score"), (answers.best, "best_gate_score")):
        hard = [one.answers[digest][0].row.hard or 0.0 for one in val]
        assert sum(hard) / 30 == pytest.approx(trained.json("summary.json")[score])
    assert answers.seed != answers.best


def test_one_task_can_be_asked_for_and_other_skills_too(trained: Trained, answers: RunAnswers) -> None:
    id = answers.tasks[0].id
    (only,) = read_answers(read_run(trained.folder), tasks=[id]).tasks
    assert only == answers.tasks[0]
    (seed_only,) = read_answers(read_run(trained.folder), tasks=[id], skills=[answers.seed]).tasks
    assert set(seed_only.answers) == {answers.seed}


def test_credentials_are_taken_out_of_kept_tasks(tmp_path: Path) -> None:
    secret = "sk-live-0123456789abcdef"
    tasks = Splits(
        train=(Task(id="a", prompt=f"use {secret}", reference={"key": [secret]}),),
        val=(Task(id="b", prompt="b", reference=None),),
    )
    write_tasks(tmp_path / "tasks.jsonl", tasks, Scrubber([secret]))
    text = (tmp_path / "tasks.jsonl").read_text()
    assert secret not in text and '"use ' in text and '"expected": null' in text
