"""A skill that is a folder is trained as one: rules go to the file they belong in, and every face shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli._commands import run
from skillopt.models.world.rules import FAMILIES, SEED_SKILL
from skillopt.skill.folder import load_skill
from train._world import Trained, train

RULES = [rule for pair in FAMILIES.values() for rule in pair]
HEAD = "---\nname: house\ndescription: House rules for cases.\n---\n"
DATES = b"# Dates of the house\r\n\r\n"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    folder = tmp_path / "house"
    for name in ("references", "scripts", "assets"):
        (folder / name).mkdir(parents=True)
    (folder / "SKILL.md").write_text(HEAD + SEED_SKILL + "- Dates stand in references/dates.md.\n")
    (folder / "references" / "dates.md").write_bytes(DATES)
    (folder / "references" / "long.md").write_text("long " * 10_000)
    (folder / "scripts" / "run.sh").write_text("#!/bin/sh\necho one\n")
    (folder / "scripts" / "run.sh").chmod(0o755)
    (folder / "assets" / "logo.bin").write_bytes(b"\x00\xff\x01")
    return folder


def trained_on(house: Path, **settings: Any) -> Trained:
    return train(
        house.parent / "run", env__skill_init=str(house), **{"train__num_epochs": 2, "train__seed": 3, **settings}
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["paper", "proof"])
def test_what_belongs_in_a_reference_is_learned_there_and_used(house: Path, strategy: str) -> None:
    trained = trained_on(house, train__strategy=strategy)
    result, best = trained.result, trained.folder / "best_skill" / "house"
    files = result.best_files
    learned = [rule for rule in RULES if any(rule in text for text in files.values())]
    assert len(learned) >= 6
    assert not [rule for rule in RULES if rule in result.best_skill], "SKILL.md only says where to look"
    for path in files:
        assert path in result.best_skill, f"nothing tells an agent of {path}"
    assert result.test is not None and result.test.delta > 0.15, "a chat target used what it was shown"
    # On disk: the trained folder, and outside the edits every byte as it was.
    assert (
        (trained.folder / "best_skill.md").read_text() == (best / "SKILL.md").read_text() == result.best_skill
    )
    assert result.best_skill.startswith(HEAD)
    assert (best / "references" / "dates.md").read_bytes().startswith(DATES)
    assert {path: (best / path).read_bytes().decode() for path in files} == files
    for path in ("references/long.md", "scripts/run.sh", "assets/logo.bin"):
        assert (best / path).read_bytes() == (house / path).read_bytes()
    assert (best / "scripts" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert load_skill(best).document.files == files
    _every_face_shows_the_files(trained, files)


def _every_face_shows_the_files(trained: Trained, files: Any) -> None:
    folder, (path, text) = str(trained.folder), max(files.items(), key=lambda one: len(one[1]))
    rule = next(rule for rule in RULES if rule in text)
    shown = run("runs", "diff", folder)
    assert f"best/{path}" in shown.out and f"+- {rule}" in shown.out
    assert run("report", folder).code == 0
    page = (trained.folder / "report.html").read_text()
    assert path in page and rule in page
    (trained.folder / "target").mkdir()
    exported = run(
        "adopt", folder, "--to", "claude-code", "--into", str(trained.folder / "target"), "--yes", "--force"
    )
    assert exported.code == 0, exported.err
    installed = trained.folder / "target" / ".claude" / "skills" / "house"
    assert {path: (installed / path).read_bytes().decode() for path in files} == files
    assert "append | references/" in run("runs", "explain", folder, str(trained.result.state.best_step)).out
