"""Installing a skill: where it goes, what it must hold, and what is never lost."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from skillopt.errors import SkillError, UnknownName, UsageError
from skillopt.export import Best, export, read_best, slug, targets
from skillopt.skill.document import Document
from skillopt.skill.folder import load_skill
from skillopt.skill.spec import frontmatter_fields, violations

TEXT = (
    "---\nname: dates\ndescription: Reads dates. Use it for dates.\n---\n\n# Dates\n\nSay the year first.\n"
)
BARE = "# Dates\n\nSay the year first.\n"
GUIDE, SCRIPT = PurePosixPath("references/guide.md"), PurePosixPath("scripts/run.sh")


def best(text: str = TEXT, *, files: bool = True) -> Best:
    carried = {GUIDE: (b"Guide\r\n\xff", 0o644), SCRIPT: (b"#!/bin/sh\n", 0o755)} if files else {}
    return Best(text=text, name="dates", files=carried)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("agent", "place"),
    [
        ("claude-code", ".claude/skills"),
        ("codex", ".agents/skills"),
        ("cursor", ".cursor/skills"),
        ("agents", ".agents/skills"),
    ],
)
def test_each_agent_gets_the_whole_skill_where_it_looks(tmp_path: Path, agent: str, place: str) -> None:
    done = export(best(), agent, tmp_path)
    home = tmp_path / place / "dates"
    assert done.path == home
    assert everything(tmp_path) == {
        f"{place}/dates/SKILL.md": TEXT.encode(),
        f"{place}/dates/references/guide.md": b"Guide\r\n\xff",
        f"{place}/dates/scripts/run.sh": b"#!/bin/sh\n",
    }
    assert {one.state for one in done.placed} == {"written"}
    assert (home / "scripts/run.sh").stat().st_mode & stat.S_IXUSR
    assert not (home / "SKILL.md").stat().st_mode & stat.S_IXUSR


def test_the_same_again_changes_nothing_and_says_so(tmp_path: Path) -> None:
    export(best(), "codex", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert {one.state for one in export(best(), "agents", tmp_path).placed} == {"unchanged"}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("file", ["SKILL.md", "references/guide.md"])
def test_a_file_that_differs_stops_the_whole_export(tmp_path: Path, file: str) -> None:
    mine = tmp_path / ".claude/skills/dates" / file
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    with pytest.raises(UsageError, match=rf"{file}.*--force"):
        export(best(), "claude-code", tmp_path)
    assert everything(tmp_path) == {str(mine.relative_to(tmp_path)): b"mine\n"}


def test_force_keeps_every_old_file_beside_the_new_one(tmp_path: Path) -> None:
    home = tmp_path / ".claude/skills/dates"
    export(best(), "claude-code", tmp_path)
    (home / "notes.md").write_text("notes\n")
    for text in ("mine\n", "mine too\n"):
        (home / "SKILL.md").write_text(text)
        done = export(best(), "claude-code", tmp_path, force=True)
        assert {one.path.name: one.state for one in done.placed} == {
            "SKILL.md": "replaced",
            "guide.md": "unchanged",
            "run.sh": "unchanged",
        }
    assert [one.backup for one in done.placed if one.backup] == [home / "SKILL.md.bak2"]
    assert ((home / "SKILL.md.bak").read_text(), (home / "SKILL.md.bak2").read_text()) == (
        "mine\n",
        "mine too\n",
    )
    assert (home / "SKILL.md").read_text() == TEXT
    assert set(done.others) == {home / "notes.md", home / "SKILL.md.bak"}
    assert (home / "notes.md").read_text() == "notes\n"


def test_skill_md_comes_last_so_that_no_agent_finds_half_a_skill(tmp_path: Path) -> None:
    (tmp_path / ".claude/skills/dates").mkdir(parents=True)
    (tmp_path / ".claude/skills/dates/scripts").write_text("a file where a folder must go")
    with pytest.raises(UsageError, match="in the way"):
        export(best(), "claude-code", tmp_path)
    assert not (tmp_path / ".claude/skills/dates/SKILL.md").exists()
    assert export(best(), "codex", tmp_path).placed[-1].path.name == "SKILL.md"


def test_frontmatter_is_written_where_there_is_none(tmp_path: Path) -> None:
    said = 'Reads "dates": all of them.\nUse it for dates – always.'
    done = export(best(BARE), "claude-code", tmp_path, name="my-dates", description=said)
    text = (done.path / "SKILL.md").read_text(encoding="utf-8")
    assert violations(text, "my-dates") == []
    assert frontmatter_fields(text) == {"name": "my-dates", "description": said}
    assert text.endswith(f"---\n\n{BARE}")
    assert load_skill(done.path).name == "my-dates"


def test_a_skill_with_windows_line_ends_gets_such_frontmatter(tmp_path: Path) -> None:
    done = export(best("\ufeff" + BARE.replace("\n", "\r\n")), "codex", tmp_path, description="Reads dates.")
    text = (done.path / "SKILL.md").read_bytes()
    assert text.startswith(b"---\r\n")
    assert text.count(b"\n") == text.count(b"\r\n")
    assert b"\xef\xbb\xbf" not in text  # the byte order mark would now stand in the middle


@pytest.mark.parametrize(
    ("text", "given", "told"),
    [
        (BARE, {}, "--description"),
        (BARE, {"description": " "}, "no description"),
        (BARE, {"description": "x" * 1025}, "1025 characters"),
        (BARE, {"description": "\udcff"}, "surrogate"),
        (BARE, {"description": "Dates.", "name": "My Dates"}, "lowercase"),
        (BARE, {"description": "Dates.", "name": "../dates"}, "lowercase"),
        (BARE, {"description": "Dates.", "name": "-dates"}, "hyphen"),
        (BARE, {"description": "Dates.", "name": ""}, "no name"),
        (TEXT, {"name": "times"}, "calls itself 'dates'"),
        (TEXT, {"description": "Other."}, "its own frontmatter"),
        ("---\nname: dates\n---\n", {}, "no description"),
        ("---\ndescription: Dates.\n---\n", {}, "no name"),
    ],
)
def test_what_an_agent_would_refuse_is_not_written(
    tmp_path: Path, text: str, given: dict[str, str], told: str
) -> None:
    with pytest.raises(SkillError, match=told):
        export(best(text), "claude-code", tmp_path, force=True, **given)  # type: ignore[arg-type]
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("name", ["on", "123", "null"])
def test_a_name_that_yaml_would_read_as_something_else_stays_a_name(tmp_path: Path, name: str) -> None:
    done = export(best(BARE), "codex", tmp_path, name=name, description="Dates.")
    assert f'name: "{name}"' in (done.path / "SKILL.md").read_text()


def test_a_zip_holds_the_folder_and_is_the_same_every_time(tmp_path: Path) -> None:
    done = export(best(), "zip", tmp_path)
    assert done.path == tmp_path / "dates.zip"
    with zipfile.ZipFile(done.path) as package:
        assert {name: package.read(name) for name in package.namelist()} == {
            "dates/SKILL.md": TEXT.encode(),
            "dates/references/guide.md": b"Guide\r\n\xff",
            "dates/scripts/run.sh": b"#!/bin/sh\n",
        }
        assert package.getinfo("dates/scripts/run.sh").external_attr >> 16 & stat.S_IXUSR
        assert {entry.date_time for entry in package.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert [one.state for one in export(best(), "zip", tmp_path).placed] == ["unchanged"]
    with pytest.raises(UsageError, match="differs"):
        export(best(files=False), "zip", tmp_path)
    assert [one.backup for one in export(best(files=False), "zip", tmp_path, force=True).placed] == [
        tmp_path / "dates.zip.bak"
    ]


def test_an_unknown_agent_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="claude-code"):
        export(best(), "claude-cod", tmp_path)
    with pytest.raises(UsageError, match="gone"):
        export(best(), "codex", tmp_path / "gone")
    assert {name: targets()[name] for name in ("claude-code", "codex", "cursor", "agents")} == {
        "claude-code": ".claude/skills",
        "codex": ".agents/skills",
        "cursor": ".cursor/skills",
        "agents": ".agents/skills",
    }
    assert "zip" not in targets()


def test_what_is_only_advised_is_a_remark(tmp_path: Path) -> None:
    done = export(best(TEXT + "more\n" * 600), "codex", tmp_path)
    assert any("fewer than 500 are advised" in remark for remark in done.remarks)


def test_a_folder_without_a_run_or_a_skill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        read_best(tmp_path)
    for name in ("events.jsonl", "run.db"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"no best_skill\.md yet"):
        read_best(tmp_path)


def test_a_run_without_an_end_is_said_to_have_none(tmp_path: Path) -> None:
    for name in ("events.jsonl", "run.db"):
        (tmp_path / name).touch()
    (tmp_path / "best_skill.md").write_text(BARE)
    (tmp_path / "settings.json").write_text('{"env": {"skill_init": "skills/My Dates.md"}}')
    found = read_best(tmp_path)
    assert (found.text, found.name, dict(found.files)) == (Document(BARE).rendered, "my-dates", {})
    assert "has not ended" in found.remarks[0]


@pytest.mark.parametrize(
    ("text", "name"),
    [("My Skill!", "my-skill"), ("über--x_", "uber-x"), ("日本", "skill"), ("a" * 80, "a" * 64)],
)
def test_a_derived_name_keeps_the_rules(text: str, name: str) -> None:
    assert slug(text) == name


def test_keys_beyond_the_rules_are_the_users_own_and_are_kept_and_said(tmp_path: Path) -> None:
    text = (
        "---\nname: demo\ndescription: Does things. Use it when asked.\ndisable-model-invocation:"
        " true\n---\n\n# Demo\n"
    )
    done = export(Best(text=text, name="demo", files={}), "claude-code", tmp_path)
    assert (done.path / "SKILL.md").read_text() == text
    assert any("disable-model-invocation" in remark for remark in done.remarks)
