"""Tasks drafted from a bare skill: what holds is kept as a draft, and nothing is trained on before a person says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from _loopback import Call, LoopbackProvider
from cli._commands import Command
from skillopt.cli import app
from skillopt.cli import tasks as command
from skillopt.run.drafting import alike

SKILL = "---\nname: dates\ndescription: How the house writes dates.\n---\n\nWrite dates as 2026-11-16.\n"
DAYS = ("Monday the 3rd of May 2027", "Christmas 2031", "the last day of February 2028")
ISO = [{"op": "regex", "arg": r"\d{4}-\d\d-\d\d"}]


def drafted(prompt: str, **changed: Any) -> dict[str, Any]:
    return {"prompt": prompt, "checks": ISO, "good": "On 2027-05-03.", "bad": "On May 3rd.", **changed}


REPLIES = [
    [drafted(f"When is {DAYS[0]}?"), drafted(f"WHEN is {DAYS[0]}"), drafted("Which day?", good="never")],
    [drafted("What?", checks=[{"op": "no_such", "arg": 1}]), drafted("Hm?", bad="2027-05-03")],
    [drafted(f"Plan a dinner on {DAYS[1]}, please."), drafted(f"Book the room for {DAYS[2]}.")],
]


@pytest.fixture
def optimizer() -> Iterator[LoopbackProvider]:
    def say(call: Call) -> str:
        return json.dumps({"tasks": REPLIES[len(provider.log) - 1] if len(provider.log) <= 3 else []})

    with LoopbackProvider.in_thread(say) as provider:
        yield provider


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "tasks.jsonl"
    (tmp_path / "SKILL.md").write_text(SKILL)
    return made


def write(file: Path, count: int = 4) -> None:
    rows = [
        {"id": f"draft-{n}", "prompt": f"Say {n}", "checks": ISO, "drafted_by": "m"} for n in range(1, count)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in [{"prompt": "mine", "checks": ISO}, *rows]))


def rows_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.slow
def test_drafts_hold_before_they_are_written(
    skillopt: Command, optimizer: LoopbackProvider, file: Path
) -> None:
    words = ("--optimizer", f"compatible:o@{optimizer.base_url}", "--count", "3")
    ran = skillopt("tasks draft SKILL.md", *words)
    assert ran.code == 0, ran.err
    assert [row["prompt"] for row in rows_in(file)] == [
        f"When is {DAYS[0]}?",
        f"Plan a dinner on {DAYS[1]}, please.",
        f"Book the room for {DAYS[2]}.",
    ]
    for why in (
        "1 dropped: much like another task",
        "1 dropped: its checks fail the good sample",
        "1 dropped: its checks pass the bad sample",
        "1 dropped: a check that cannot be used",
        "skillopt tasks review tasks.jsonl",
    ):
        assert why in ran.out, ran.out
    train = ("train", "--env", "own", "--data_path", "tasks.jsonl", "--scorer", "checks", "--target", "world")
    unread = skillopt(*train)
    assert unread.code == 2 and "nobody has kept it yet: skillopt tasks review" in unread.err


def test_a_small_model_writes_one_task_at_a_time_about_another_part_of_the_skill_each(
    skillopt: Command, file: Path
) -> None:
    asked: list[str] = []

    def say(call: Call) -> str:
        asked.append(call.text)
        day = DAYS[min(len(asked), 3) - 1]
        bad = "May 3rd." if len(asked) > 1 else "On 2027-05-03, perhaps."
        good = "On 2027-05-03." if len(asked) < 4 else "In 4711."
        return json.dumps({"prompt": f"When is {day}? Not 2027-05-03.", "good": good, "bad": bad})

    with LoopbackProvider.in_thread(say) as small:
        words = ("--optimizer", f"compatible:qwen-1.5b@{small.base_url}", "--count", "3")
        ran = skillopt("tasks draft SKILL.md", *words)
    assert ran.code == 0, ran.err
    assert [row["checks"] for row in rows_in(file)] == [[{"op": "contains", "arg": "On 2027-05-03"}]] * 2
    assert "dropped: no words tell its good sample from its bad one" in ran.out
    assert "2 of 3 drafted, 1 dropped." in ran.err and "4711" not in file.read_text(), "it was made up"
    themes = [text.partition("The request is about: ")[2] for text in asked]
    assert len(set(themes)) > 3 and not any(DAYS[1] in text for text in asked), "it would copy them"


def test_a_model_that_brings_nothing_is_not_asked_for_ever(skillopt: Command, file: Path) -> None:
    with LoopbackProvider.in_thread(lambda call: '{"tasks": []}') as silent:
        ran = skillopt("tasks draft SKILL.md --optimizer", f"compatible:o@{silent.base_url}")
        assert ran.code == 0 and "0 tasks drafted" in ran.out and len(silent.log) == 3


def test_drafts_are_kept_and_dropped_by_number_or_id(skillopt: Command, file: Path) -> None:
    write(file, 6)
    assert "5 drafts in tasks.jsonl" in skillopt("tasks review tasks.jsonl --list").out
    ran = skillopt("tasks review tasks.jsonl --keep 1,3-4 --drop draft-2")
    assert ran.code == 0 and "4 tasks to train on, 1 draft left" in ran.out, ran.err
    assert [(row["prompt"], "drafted_by" in row) for row in rows_in(file)] == [
        *(("mine", False), ("Say 1", False), ("Say 3", False), ("Say 4", False)),
        ("Say 5", True),
    ]
    wrong = skillopt("tasks review tasks.jsonl --keep draft-55")
    assert wrong.code == 2 and "no draft is named 'draft-55'. Did you mean 'draft-5'?" in wrong.err
    assert skillopt("tasks review tasks.jsonl --keep all --drop 1").code == 2


def test_drafts_are_reviewed_one_by_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, 5)
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(command, "is_asked", lambda: True)
    answers = 'k\nd\ne\nAnother\nnonsense\n[{"op": "contains", "arg": "x"}]\nq\n'
    ran = CliRunner().invoke(app("tasks"), ["tasks", "review", "tasks.jsonl"], input=answers)
    assert ran.exit_code == 0, ran.output
    assert [(row["prompt"], row["checks"][0]["op"], "drafted_by" in row) for row in rows_in(file)] == [
        ("mine", "regex", False),
        ("Say 1", "regex", False),
        ("Another", "contains", False),
        ("Say 4", "regex", True),
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("When is Easter?", "when is EASTER", True), ("When is Easter 2026?", "Plan a dinner at Easter", False)],
)
def test_requests_are_compared_by_their_words(one: str, other: str, same: bool) -> None:
    assert alike(one, other) is same


def test_the_simulated_optimizer_says_that_it_drafts_nothing(skillopt: Command, file: Path) -> None:
    ran = skillopt("tasks draft", str(file.parent / "SKILL.md"), "--optimizer", "world")
    assert ran.code == 2
    assert ran.err.startswith("error: The simulated optimizer proposes edits")
    assert "--optimizer PROVIDER:MODEL" in ran.err
    assert not file.exists()


def test_a_review_of_a_missing_file_names_the_command_that_makes_one(skillopt: Command) -> None:
    ran = skillopt("tasks review tasks.jsonl")
    assert ran.code == 2
    assert (
        "There is no file tasks.jsonl. 'skillopt tasks draft SKILL --out tasks.jsonl' makes one." in ran.err
    )


@pytest.mark.parametrize("line", ["no JSON", "[" * 5000], ids=["words", "deep"])
def test_a_review_of_a_file_that_is_no_jsonl_says_so(skillopt: Command, line: str) -> None:
    Path("tasks.jsonl").write_text(line)
    ran = skillopt("tasks review tasks.jsonl")
    assert ran.code == 2 and "cannot be read as JSONL" in ran.err
