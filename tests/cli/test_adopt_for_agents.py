"""`skillopt adopt --to AGENT`: from a run to a file an agent finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli._commands import SMALL, Command
from skillopt.skill.folder import load_skill

DESCRIPTION = "Answers cases with their code. Use it for cases."
HEAD = f"---\nname: cases\ndescription: {DESCRIPTION}\n---\n"


@pytest.fixture
def folder_run(skillopt: Command) -> Path:
    """A finished run whose seed is a skill folder with references and a script."""
    seed = Path("seeds/cases")
    for name, text in (
        ("SKILL.md", f"{HEAD}\n# Cases\n"),
        ("references/codes.md", "Codes\n"),
        ("scripts/look.sh", "#!/bin/sh\n"),
    ):
        (seed / name).parent.mkdir(parents=True, exist_ok=True)
        (seed / name).write_text(text)
    (seed / "scripts/look.sh").chmod(0o755)
    words = ("train quickstart --quiet --out_root run --skill_init", str(seed), "--num_epochs", "1")
    assert skillopt(*words, "--cfg-options", *SMALL).code == 0
    return Path("run")


@pytest.mark.slow
def test_the_best_skill_of_a_folder_arrives_with_its_references_and_scripts(
    skillopt: Command, folder_run: Path
) -> None:
    words = ("adopt", str(folder_run), "--to", "claude-code", "--yes", "--force")
    ran = skillopt(*words)
    home = Path(".claude/skills/cases")
    assert ran.code == 0
    assert (home / "SKILL.md").read_bytes() == (folder_run / "best_skill.md").read_bytes()
    assert (home / "SKILL.md").read_text().startswith(HEAD)
    assert (home / "references/codes.md").read_text() == "Codes\n"
    assert os.access(home / "scripts/look.sh", os.X_OK)
    files = [path for path in home.rglob("*") if path.is_file()]  # training may have added references
    assert len(files) >= 3 and ran.out.count("written") == len(files)
    assert "simulated" in ran.err
    again = skillopt(*words)
    assert again.out.count("written") == 0 and "holds the best skill already" in again.err


def test_a_skill_without_frontmatter_needs_a_description(skillopt: Command, finished: Path) -> None:
    words = ("adopt", str(finished), "--to", "codex", "--name", "cases", "--yes", "--force")
    ran = skillopt(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "--description" in ran.err
    ran = skillopt(*words, "--description", DESCRIPTION, "--json")
    data = ran.json
    path = Path(".agents/skills/cases/SKILL.md").absolute()
    assert (data["adopted"], data["files"]) == (True, [str(path)])
    skill = load_skill(Path(".agents/skills/cases"))
    assert (
        skill.document.text
        == f'---\nname: "cases"\ndescription: "{DESCRIPTION}"\n---\n\n'
        + (finished / "best_skill.md").read_text()
    )


def test_user_means_the_home_folder(
    skillopt: Command, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    words = ("adopt", str(finished), "--to", "cursor", "--name", "cases", "--description", DESCRIPTION)
    words = (*words, "--yes", "--force")
    assert skillopt(*words, "--user").code == 0
    assert skillopt(*words, "--into", str(project)).code == 0
    assert (home / ".cursor/skills/cases/SKILL.md").is_file()
    assert (project / ".cursor/skills/cases/SKILL.md").is_file()
    for more in (("--user", "--into", str(project)), ("--user", "--to", "zip")):
        assert skillopt(*words, *more).code == 2


def test_an_edited_skill_is_kept_unless_forced_and_comes_back_with_undo(
    skillopt: Command, finished: Path
) -> None:
    words = ("adopt", str(finished), "--to", "agents", "--name", "cases", "--description", DESCRIPTION)
    assert skillopt(*words, "--yes", "--force").code == 0
    file = Path(".agents/skills/cases/SKILL.md")
    file.write_text("mine\n")
    ran = skillopt(*words, "--yes")
    assert (ran.code, file.read_text()) == (2, "mine\n")
    assert "SKILL.md is there and differs" in ran.err and "--force" in ran.err
    assert skillopt(*words, "--yes", "--force").code == 0
    assert skillopt("adopt", str(finished), "--undo").code == 0
    assert file.read_text() == "mine\n"


def test_a_best_skill_that_was_edited_since_is_said_to_be(skillopt: Command, folder_run: Path) -> None:
    file = folder_run / "best_skill.md"
    file.write_text(file.read_text() + "More.\n")
    assert "changed since" in skillopt("adopt", str(folder_run), "--to", "zip", "--yes", "--force").err
    assert Path("cases.zip").is_file()
