"""Looking before paying: three tasks as sent, a scorer that is tried, and a wordy target that is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli._commands import Command
from skillopt.benchmarks.own import OwnBenchmark
from skillopt.errors import TaskError
from skillopt.evaluation.first_answers import common_cause, scorer_trouble
from skillopt.tasks.rollout import Score, Scored, Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import Task

ROWS = [{"id": f"t{n}", "prompt": f"How much is {n} + 1?", "answer": str(n + 1)} for n in range(70)]
WORDY = """
def wordy(task, skill):
    return f"Let me think. The sum is {int(task.prompt.split()[3]) + 1}, I believe."
"""
TARGET = ("--env", "own", "--data_path", "tasks.jsonl", "--target", "wordy.py:wordy")
TRAIN = ("train", *TARGET, "--optimizer", "world", "--num_epochs", "1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "wordy.py").write_text(WORDY)
    return tmp_path


def test_try_shows_what_was_asked_what_came_and_why_it_failed(skillopt: Command) -> None:
    ran = skillopt("try", *TARGET)
    assert ran.code == 0, ran.err
    for part in ("How much is", "Let me think. The sum is", "expected", "score     0", "0 of 3 passed"):
        assert part in ran.out, ran.out
    assert "3 of 3 failing answers contain the reference: score with contains" in ran.out
    told = skillopt("try", *TARGET, "--scorer", "contains", "--json").json
    assert [one["hard"] for one in told["tasks"]] == [1.0, 1.0, 1.0] and told["diagnosis"] == ""


def test_a_chat_target_is_shown_what_it_is_told_and_the_next_command_follows(skillopt: Command) -> None:
    skillopt("init demo")
    said = skillopt("try demo --target world").out
    assert said.startswith("Sent before every task:\n  system ")
    assert "Answer each case with its code." in said and "<answer>" in said.partition("task 1 of 3")[0]
    assert said.endswith("Next: skillopt train demo --target world\n")


def test_the_simulated_world_says_that_it_cannot_answer_tasks_of_ones_own(skillopt: Command) -> None:
    own = ("--env", "own", "--data_path", "tasks.jsonl", "--target", "world")
    ran = skillopt("try", *own)
    assert "knows only the cases that 'skillopt init NAME' writes" in ran.out
    trained = skillopt("train", *own, "--num_epochs", "1", "--out_root", "run")
    assert "warning: The target is the simulated world" in trained.err and "asked" in trained.err


def test_an_agent_of_ones_own_can_be_measured_without_a_model(skillopt: Command) -> None:
    ran = skillopt("eval", *TARGET, "--skill", "none", "--split", "val", "--scorer", "contains")
    assert ran.code == 0 and "1.000" in ran.out, ran.err


@pytest.mark.slow
def test_a_wordy_target_is_warned_of_and_trained_on(skillopt: Command) -> None:
    ran = skillopt(*TRAIN, "--out_root", "run")
    assert ran.code == 0 and "28 of 28 failing answers contain the reference" in ran.err, ran.err
    assert "contains (env.scorer)" in ran.err and "seed skill: 0.000" in ran.err
    other = skillopt(*TRAIN, "--out_root", "other", "--scorer", "contains")
    assert other.code == 0 and "1.000" in other.out and "No answer passed" not in other.err


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "asked"), [(70, 28), (12, 12)])  # val of one split; all, cross-fitted
def test_a_silent_target_stops_the_run_before_more_is_paid(
    tasks: int, asked: int, home: Path, skillopt: Command
) -> None:
    (home / "silent.py").write_text(
        "def silent(task, skill):\n    open('asked', 'a').write('.')\n    return ''\n"
    )
    (home / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:tasks]))
    command = (*TRAIN, "--target", "silent.py:silent", "--out_root", "run")
    for _ in range(2):
        ran = skillopt(*command)
        assert ran.code == 3 and f"{asked} of {asked} failing answers are none" in ran.err, ran.err
        assert len((home / "asked").read_text()) == asked
    off = "evaluation.check_baseline=false"
    assert off in ran.err
    on = skillopt(*command, "--cfg-options", off, *(("--budget", "13 calls") if tasks == 12 else ()))
    assert "another run" not in on.err and on.code == (4 if tasks == 12 else 0), on.err


def _row(task: Task, answer: str, failure: str | None = None) -> tuple[Task, Scored]:
    trajectory = Trajectory(messages=(), answer=answer, calls=1, usage=None, failure=failure)
    score = Score(hard=0.0, soft=0.0)
    return task, Scored(task_id=task.id, draw=0, attempt=0, key="k", trajectory=trajectory, score=score)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["It is Lisbon.", "lisbon, I think", "Maybe Lisbon"], "3 of 3 failing answers contain"),
        (["lisbon", "LISBON.", " Lisbon!"], "only in case, spaces or punctuation"),
        (["Porto", "Lisbon?", "Rome"], ""),
        (["Porto", "Rome", "Oslo"], ""),
        ([], ""),
    ],
)
def test_a_cause_is_named_only_where_nearly_all_failures_share_it(answers: list[str], said: str) -> None:
    task = Task(id="1", prompt="?", reference=["Lisbon", "Lisboa"])
    found = common_cause([_row(task, answer) for answer in answers])
    assert said in found and bool(said) == bool(found)


def test_targets_that_all_end_at_the_cap_are_told_the_key() -> None:
    task = Task(id="1", prompt="?", reference="x")
    cause = common_cause([_row(task, "", "length")] * 4)
    assert "4 of 4" in cause and "model.target.max_tokens" in cause


async def test_a_scorer_must_pass_the_reference_and_fail_nonsense() -> None:
    def made(scorer: Any) -> OwnBenchmark:
        return OwnBenchmark.from_tasks(ROWS[:5], scorer=scorer)

    task = made("exact_match").tasks("train")[0]
    assert await scorer_trouble(made("exact_match"), task) == ""
    assert "passes the answer" in await scorer_trouble(made(lambda task, answer: True), task)
    assert "fails the reference" in await scorer_trouble(made(lambda task, answer: False), task)
    assert "the scorer fails on task" in await scorer_trouble(made(lambda task, answer: 1 / 0), task)


@pytest.mark.parametrize("sign", [";", "\t", ","])
def test_csv_of_other_countries_is_read(tmp_path: Path, sign: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f'question{sign}answer\n"3,5 + 1{sign} how much?"{sign}4.5\n', encoding="utf-8")
    (row,) = load_rows(file)
    assert row.data == {"question": f"3,5 + 1{sign} how much?", "answer": "4.5"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"promt": "?", "answer": "1"}, "'promt', which may be meant as 'prompt'"),
        ({"Question": "?", "answer": "1"}, "'Question', which may be meant as 'question'"),
        ({"prompt": "?", "anwser": "1"}, "'anwser', which may be meant as 'answer'"),
        ({"prompt": "?", "Expected": "1"}, "'Expected', which may be meant as 'expected'"),
    ],
)
def test_a_mistyped_field_is_named(row: dict[str, str], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        OwnBenchmark.from_tasks([{**row, "id": str(n)} for n in range(5)], scorer="exact_match")
