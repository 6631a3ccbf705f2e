from __future__ import annotations

import stat
from pathlib import Path

import pytest

from skillopt.errors import SkillError
from skillopt.skill import load_skill
from skillopt.skill.folder import copy_skill, write_skill

TEXT = "---\nname: demo\ndescription: Does a thing when asked.\n---\n# Demo\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    (folder / "references").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "SKILL.md").write_text(TEXT)
    (folder / "references" / "facts.md").write_bytes(b"facts\r\n")
    script = folder / "scripts" / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return folder


def test_a_skill_is_a_folder_or_its_file(folder: Path) -> None:
    for path in (folder, str(folder), folder / "SKILL.md"):
        skill = load_skill(path)
        assert (skill.name, skill.document.text, skill.folder, skill.seedless) == (
            "demo",
            TEXT,
            folder,
            False,
        )
        assert skill.path == folder / "SKILL.md"


def test_a_skill_may_be_one_file_kept_byte_for_byte(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf# Gr\xc3\xb6\xc3\x9fe\r\nlast line"
    (tmp_path / "seed.md").write_bytes(data)
    skill = load_skill(tmp_path / "seed.md")
    assert skill.document.text.encode() == data
    assert (skill.name, skill.folder) == ("seed", None)
    write_skill(skill.document.text, tmp_path / "copy.md")
    assert (tmp_path / "copy.md").read_bytes() == data


def test_a_folder_named_by_a_dot_still_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "SKILL.md").write_text("no frontmatter\n")
    monkeypatch.chdir(tmp_path)
    assert load_skill(".").name == tmp_path.name


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_a_seedless_start(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "empty.md").write_bytes(data)
    assert load_skill(tmp_path / "empty.md").seedless


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("missing.md", None, "There is no skill at .*missing.md.*create an empty .md file"),
        ("skill.txt", b"x", "is no Markdown file"),
        ("latin.md", b"caf\xe9", "not UTF-8: byte 3 .*Save the file as UTF-8"),
        ("utf16.md", "x".encode("utf-16"), "not UTF-8: byte 0"),
        ("broken.md", b"a\n<!-- APPENDIX_END -->\n", "broken.md: Line 2: <!-- APPENDIX_END -->"),
    ],
)
def test_a_file_that_is_no_skill_is_refused_with_what_to_do(
    tmp_path: Path, name: str, data: bytes | None, message: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(SkillError, match=message):
        load_skill(tmp_path / name)


def test_a_folder_without_skill_md_is_refused_with_the_near_miss(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"holds no SKILL\.md\. Create"):
        load_skill(tmp_path)
    (tmp_path / "Skill.md").write_text("x")
    if (tmp_path / "SKILL.md").exists():
        pytest.skip("the file system does not tell the two names apart")
    with pytest.raises(SkillError, match=r"Rename Skill\.md to SKILL\.md"):
        load_skill(tmp_path)


def test_a_write_that_breaks_a_rule_the_file_kept_is_refused_and_changes_nothing(folder: Path) -> None:
    with pytest.raises(SkillError, match="must equal the folder's name"):
        write_skill(TEXT.replace("name: demo", "name: other"), folder)
    assert (folder / "SKILL.md").read_text() == TEXT
    with pytest.raises(SkillError, match="no description"):
        write_skill("---\nname: x\n---\n", folder / "new.md", before=TEXT)
    write_skill(TEXT + "more\n", folder)
    assert (folder / "SKILL.md").read_text() == TEXT + "more\n"


def test_a_write_keeps_the_faults_the_users_file_already_has(folder: Path) -> None:
    faulty = TEXT.replace("name: demo", "name: Other Name")
    (folder / "SKILL.md").write_text(faulty)
    write_skill(faulty + "- rule\n", folder / "SKILL.md")
    assert (folder / "SKILL.md").read_text() == faulty + "- rule\n"


def test_a_copied_skill_carries_its_other_files_as_they_are(folder: Path, tmp_path: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    out = tmp_path / "out" / "demo"
    assert copy_skill(load_skill(folder), TEXT + "new text\n", out) == ()
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert found == ["SKILL.md", "references/facts.md", "scripts/run.sh"]
    assert (out / "SKILL.md").read_text() == TEXT + "new text\n"
    assert (out / "references" / "facts.md").read_bytes() == b"facts\r\n"
    assert stat.S_IMODE((out / "scripts" / "run.sh").stat().st_mode) & 0o100
    assert (folder / "SKILL.md").read_text() == TEXT


def test_a_copy_follows_no_link_out_of_the_skill(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (folder / "references" / "secret.txt").symlink_to(secret)
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    (folder / "alias.md").symlink_to(Path("references") / "facts.md")
    (folder / "dangling").symlink_to("nowhere")
    out = tmp_path / "out"
    left_out = copy_skill(load_skill(folder), TEXT, out)
    assert set(left_out) == {Path("references/secret.txt"), Path("elsewhere"), Path("loop"), Path("dangling")}
    assert (out / "alias.md").read_bytes() == b"facts\r\n"
    assert not (out / "alias.md").is_symlink()
    assert not any("secret" in path.name for path in out.rglob("*"))


def test_a_copy_that_breaks_a_rule_the_skill_keeps_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(SkillError, match="no frontmatter"):
        copy_skill(load_skill(folder), "x", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_copy_never_overwrites(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="already holds something"):
        copy_skill(load_skill(folder), "x", folder)
    assert (folder / "SKILL.md").read_text() == TEXT


def test_a_copy_into_the_skills_own_folder_ends(folder: Path) -> None:
    copy_skill(load_skill(folder), TEXT, folder / "best")
    assert not (folder / "best" / "best").exists()
    assert (folder / "best" / "references" / "facts.md").exists()


def test_a_single_file_becomes_a_folder(tmp_path: Path) -> None:
    (tmp_path / "seed.md").write_text("seed")
    copy_skill(load_skill(tmp_path / "seed.md"), "better", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["SKILL.md"]
