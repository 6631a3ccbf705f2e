"""What a newcomer types in the place of something else is answered with what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli._commands import Command

SKILL = "---\nname: mail\ndescription: Mails.\n---\n\nWrite.\n"


@pytest.fixture
def demo(skillopt: Command, tmp_path: Path) -> str:
    skillopt("init demo")
    (tmp_path / "tasks.csv").write_text("question;answer\na;b\n")
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    (tmp_path / "outputs" / "first").mkdir(parents=True)
    (tmp_path / "outputs" / "first" / "run.db").write_bytes(b"")
    (tmp_path / "skills" / "mail").mkdir(parents=True)
    (tmp_path / "skills" / "mail" / "SKILL.md").write_text(SKILL)
    return "demo"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("train", "Name the folder of a train.yaml ('skillopt init NAME' makes one)"),
        ("estimate", "--env own --data_path FILE"),
        ("check skills/mail --target world", "No tasks are named: --tasks FILE"),
        ("check skills --tasks demo/tasks.jsonl --target world", "skills/mail?"),
        (
            "train tasks.csv --target world",
            "Make one around it: skillopt init --skill PATH --tasks tasks.csv",
        ),
        ("train dmo --target world", "Did you mean 'demo'?"),
        ("eval first", "Did you mean 'outputs/first'?"),
        ("train demo", "or name another model: --target MODEL"),
        ("train demo --target openai:gpt-5 --optimizer world", "--target MODEL"),
        ("train demo --target wrold", "Did you mean 'world'?"),
        ("train demo --dry-run", "'skillopt estimate' says what a run takes"),
        ("try demo --effort quick", "'skillopt train' and 'skillopt estimate' have it"),
        ("init mine --skill skills/mail --tasks book.xlsx", "saves it as 'CSV UTF-8'"),
    ],
)
def test_a_slip_is_answered_with_the_next_command(
    skillopt: Command, demo: str, typed: str, told: str
) -> None:
    ran = skillopt(*typed.split())
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_models_are_named_in_one_way_everywhere(skillopt: Command, demo: str) -> None:
    shown = skillopt("config show", demo, "--target", "world")
    assert shown.code == 0 and '"world"' in shown.out
