"""`skillopt init` writes what `skillopt train` then runs, and never over anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli._commands import Command
from skillopt.skill.folder import load_skill
from skillopt.skill.spec import violations


@pytest.mark.slow
def test_what_init_prints_works_as_printed(skillopt: Command, tmp_path: Path) -> None:
    made = skillopt("init demo-skill")
    assert made.code == 0, made.err
    assert "skillopt train demo-skill --target world" in made.out
    ran = skillopt("train demo-skill --target world --json")
    assert ran.code == 0, ran.err
    result = ran.json
    assert result["status"] == "finished"
    assert result["claim"].startswith("Simulated:")
    assert result["test_hard"] > result["baseline_test_hard"]


def test_the_skill_keeps_the_rules_of_the_format_and_the_files_are_named(
    skillopt: Command, tmp_path: Path
) -> None:
    skillopt("init sub/demo-2")
    folder = tmp_path / "sub" / "demo-2"
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "demo-2/SKILL.md",
        "tasks.jsonl",
        "train.yaml",
    ]
    skill = load_skill(folder / "demo-2")
    assert violations(skill.document.text, "demo-2") == []
    assert skill.name == "demo-2"


def test_nothing_is_overwritten(skillopt: Command, tmp_path: Path) -> None:
    skillopt("init demo-skill")
    (tmp_path / "demo-skill" / "tasks.jsonl").write_text("mine")
    again = skillopt("init demo-skill")
    assert again.code == 2
    assert "already holds something" in again.err
    assert (tmp_path / "demo-skill" / "tasks.jsonl").read_text() == "mine"
    (tmp_path / "a-file").write_text("mine")
    assert skillopt("init a-file").code == 2
    (tmp_path / "empty").mkdir()
    assert skillopt("init empty").code == 0


@pytest.mark.parametrize("link", ["mail-training", "mail-training/train.yaml", "new"])
def test_nothing_is_written_through_a_link_that_a_repository_brought(
    skillopt: Command, tmp_path: Path, link: str
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (tmp_path / "mail.md").write_text("# Mail\n")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(elsewhere / "profile" if link.endswith("yaml") else elsewhere)
    ran = skillopt("init", *(("new",) if link == "new" else ("--skill", "mail.md")))
    assert ran.code == 2 and f"{link} is a link to" in ran.err, ran.err
    assert not any(elsewhere.iterdir())


def test_a_skill_in_the_place_of_a_config_is_answered_with_the_command_that_makes_one(
    skillopt: Command, tmp_path: Path
) -> None:
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "SKILL.md").write_text("---\nname: mail\ndescription: Mails.\n---\n\n# Mail\n")
    ran = skillopt("train mail --target world")
    assert (ran.code, ran.out) == (2, "")
    assert "Make one: skillopt init --skill mail --tasks FILE" in ran.err
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "Ready?", "answer": "yes"}\n')
    assert skillopt("init --skill mail --tasks tasks.jsonl").code == 0
    assert "Did you mean 'mail-training'?" in skillopt("train mail --target world").err


def test_a_data_folder_of_a_packaged_name_does_not_hide_the_config(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "searchqa").mkdir()
    ran = skillopt("config show searchqa --json")
    assert ran.code == 0, ran.err
    assert ran.json["config"]["env"]["name"] == "searchqa"


def test_a_simulated_target_brings_the_simulated_optimizer_unless_one_is_named(skillopt: Command) -> None:
    skillopt("init demo-skill")
    named = skillopt("train demo-skill --target world --optimizer openai:gpt-5.5")
    assert named.code == 2
    assert "OPENAI_API_KEY" in named.err
    alone = skillopt("train demo-skill")
    assert alone.code == 2
    assert "needs an API key" in alone.err


def test_a_skill_that_is_there_gets_a_config_around_it_and_stays_as_it_is(
    skillopt: Command, tmp_path: Path
) -> None:
    skill = tmp_path / "skills" / "sums"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sums\ndescription: Adds.\n---\n\nAdd.\n")
    rows = [
        json.dumps({"prompt": f"{n} + 1?", "checks": [{"op": "contains", "arg": f"{n}"}]}) for n in range(6)
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    made = skillopt("init --skill skills/sums --tasks mine.jsonl")
    assert made.code == 0, made.err
    assert "6 tasks, scored by checks" in made.out and "Next: skillopt try sums-training" in made.out
    shown = skillopt("config show sums-training --json").json["config"]["env"]
    assert Path(shown["skill_init"]).samefile(skill)
    assert Path(shown["data_path"]).samefile(tmp_path / "mine.jsonl")
    assert shown["scorer"] == "checks"
    again = skillopt("init --skill skills/sums")
    assert again.code == 2 and "is there already" in again.err
    bare = skillopt("init elsewhere --skill skills/sums/SKILL.md")
    assert (
        bare.code == 0 and "skillopt tasks draft skills/sums/SKILL.md --out elsewhere/tasks.jsonl" in bare.out
    )
    assert skillopt("init").code == 2 and skillopt("init --skill nowhere").code == 2


def test_a_config_finds_its_skill_and_tasks_where_others_lie_at_the_same_path_from_elsewhere(
    skillopt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    for folder in (tmp_path, tmp_path / "work"):
        _skill(folder, "house")
        (folder / "mine.csv").write_text("prompt,answer\n" + "".join(f"{n},{n}\n" for n in range(6)))
    monkeypatch.chdir(tmp_path / "work")
    assert skillopt("init tried --skill skills/house --tasks mine.csv").code == 0
    shown = skillopt("config show tried --json")
    assert shown.code == 0, shown.err
    found = shown.json["config"]["env"]
    assert Path(found["skill_init"]).samefile(tmp_path / "work" / "skills" / "house")
    assert Path(found["data_path"]).samefile(tmp_path / "work" / "mine.csv")


def _skill(tmp_path: Path, name: str = "mail") -> Path:
    folder = tmp_path / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Sorts.\n---\n\nSort.\n")
    return folder


@pytest.mark.parametrize(
    ("header", "told", "said"),
    [
        ("message;team", [], {"prompt": "{message}", "reference_field": "team"}),
        ("Mail text;Calendar line", [], {"prompt": "{Mail text}", "reference_field": "Calendar line"}),
        ("note;expected", [], {"prompt": "{note}", "reference_field": None}),
        ("question;team", [], {"prompt": None, "reference_field": "team"}),
        ("Question;Answer", [], {"prompt": "{Question}", "reference_field": "Answer"}),
        ("message;team;split", [], {"prompt": "{message}", "reference_field": "team"}),
        ("prompt;answer", [], {"prompt": None, "reference_field": None}),
        (
            "mail;from;team",
            ["--prompt", "{from}: {mail}"],
            {"prompt": "{from}: {mail}", "reference_field": "team"},
        ),
    ],
)
def test_columns_of_any_name_are_found_told_and_work(
    skillopt: Command, tmp_path: Path, header: str, told: list[str], said: dict[str, str | None]
) -> None:
    columns = header.split(";")
    lines = [header, *(";".join(f"{column} {n}" for column in columns) for n in range(8))]
    (tmp_path / "mine.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    made = skillopt("init --skill", str(_skill(tmp_path)), "--tasks", "mine.csv", *told)
    assert made.code == 0, made.err
    shown = skillopt("config show mail-training --json").json["config"]["env"]
    assert {key: shown.get(key) for key in said} == said
    for key, value in said.items():
        assert (value is None) == (f"correct env.{key}" not in made.out)
        assert value is None or value in made.out
    tried = skillopt("try mail-training --target world --json")
    assert tried.code == 0, tried.err


def test_columns_that_leave_a_choice_are_asked_about_and_nothing_is_written(
    skillopt: Command, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("mail,from,team\na,b,c\n")
    made = skillopt("init --skill", str(_skill(tmp_path)), "--tasks", "mine.csv")
    assert made.code == 2
    assert "has the columns mail, from, team: which is asked" in made.err
    assert "--prompt '{COLUMN}' --reference_field COLUMN" in made.err
    assert not (tmp_path / "mail-training").exists()


def test_rows_that_give_no_task_are_told_at_once_and_a_missing_answer_column_too(
    skillopt: Command, tmp_path: Path
) -> None:
    skill = str(_skill(tmp_path))
    (tmp_path / "holes.csv").write_text("question,answer\na,b\nc,d\ne,\n")
    made = skillopt("init --skill", skill, "--tasks", "holes.csv")
    assert "2 tasks, scored by exact_match." in made.out
    assert "1 row could not be used and is left out" in made.out and "line 4" in made.out
    (tmp_path / "bare.csv").write_text("question,mood,tone\na,b,c\n")
    bare = skillopt("init other --skill", skill, "--tasks", "bare.csv")
    assert bare.code == 0 and "No column is known to hold the answer" in bare.out
