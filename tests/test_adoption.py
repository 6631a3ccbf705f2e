"""Writing a skill where an agent looks: where it goes, what it must hold, and what is never lost."""

from __future__ import annotations

import os
import signal
import stat
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from skillopt.changes.best_skill import (
    AdoptionPlan,
    adopt,
    place_for_agent,
    plan_files,
    targets,
    undo_adoption,
)
from skillopt.errors import SkillError, UsageError
from skillopt.runs.best import BestSkill, read_best, slug
from skillopt.runs.reader import RunReader, read_run
from skillopt.skill.document import Document
from skillopt.skill.folder import load_skill
from skillopt.skill.spec import frontmatter_fields, violations

TEXT = (
    "---\nname: dates\ndescription: Reads dates. Use it for dates.\n---\n\n# Dates\n\nSay the year first.\n"
)
BARE = "# Dates\n\nSay the year first.\n"
GUIDE, SCRIPT = PurePosixPath("references/guide.md"), PurePosixPath("scripts/run.sh")


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


def best(text: str = TEXT, *, files: bool = True) -> BestSkill:
    carried = {GUIDE: (b"Guide\r\n\xff", 0o644), SCRIPT: (b"#!/bin/sh\n", 0o755)} if files else {}
    return BestSkill(run=Path("run"), text=text, name="dates", carried=carried)


def written(skill: BestSkill, agent: str, into: Path, **given: str | None) -> AdoptionPlan:
    """The plan for an agent, carried out."""
    plan = plan_files(skill, place_for_agent(skill, agent, into, **given))
    adopt(plan)
    return plan


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
    plan = written(best(), agent, tmp_path)
    home = tmp_path / place / "dates"
    assert plan.skill == home / "SKILL.md" and plan.changes[-1].file.path == plan.skill
    assert everything(tmp_path) == {
        f"{place}/dates/SKILL.md": TEXT.encode(),
        f"{place}/dates/references/guide.md": b"Guide\r\n\xff",
        f"{place}/dates/scripts/run.sh": b"#!/bin/sh\n",
    }
    assert plan.doubts == []
    assert (home / "scripts/run.sh").stat().st_mode & stat.S_IXUSR
    assert not (home / "SKILL.md").stat().st_mode & stat.S_IXUSR


def test_the_same_again_changes_nothing_and_undo_leaves_nothing(tmp_path: Path) -> None:
    written(best(), "codex", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert written(best(), "agents", tmp_path).changes == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    undo_adoption(Path("run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["SKILL.md", "references/guide.md"])
def test_a_file_that_differs_is_a_doubt_and_comes_back_with_undo(tmp_path: Path, file: str) -> None:
    mine = tmp_path / ".claude/skills/dates" / file
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    plan = plan_files(best(), place_for_agent(best(), "claude-code", tmp_path))
    assert plan.doubts == [f"{mine} is there and differs: adopting replaces it."]
    assert everything(tmp_path) == {str(mine.relative_to(tmp_path)): b"mine\n"}
    adopt(plan)
    assert mine.read_bytes() != b"mine\n" and len(everything(tmp_path)) == 3
    undo_adoption(Path("run"))
    assert everything(tmp_path) == {str(mine.relative_to(tmp_path)): b"mine\n"}


def test_every_replaced_file_comes_back_in_turn_and_others_are_left_alone(tmp_path: Path) -> None:
    home = tmp_path / ".claude/skills/dates"
    written(best(), "claude-code", tmp_path)
    (home / "notes.md").write_text("notes\n")
    for text in ("mine\n", "mine too\n"):
        (home / "SKILL.md").write_text(text)
        plan = written(best(), "claude-code", tmp_path)
        assert [one.file.path for one in plan.changes] == [home / "SKILL.md"]
        assert any("notes.md is not part of this skill" in remark for remark in plan.remarks)
    undo_adoption(Path("run"))
    assert (home / "SKILL.md").read_text() == "mine too\n"
    with pytest.raises(UsageError, match="changed since it was adopted"):
        undo_adoption(Path("run"))
    undo_adoption(Path("run"), force=True)
    assert (home / "SKILL.md").read_text() == "mine\n" and (home / "notes.md").read_text() == "notes\n"


def test_what_is_in_the_way_stops_it_before_the_first_file(tmp_path: Path) -> None:
    (tmp_path / ".claude/skills/dates").mkdir(parents=True)
    (tmp_path / ".claude/skills/dates/scripts").write_text("a file where a folder must go")
    with pytest.raises(UsageError, match="in the way"):
        written(best(), "claude-code", tmp_path)
    assert not (tmp_path / ".claude/skills/dates/SKILL.md").exists()


def test_a_file_that_changed_after_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    plan = plan_files(best(), place_for_agent(best(), "codex", tmp_path))
    mine = tmp_path / ".agents/skills/dates/SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    with pytest.raises(UsageError, match=r"appeared since.*run the command again"):
        adopt(plan)
    assert everything(tmp_path) == {".agents/skills/dates/SKILL.md": b"mine\n"}


def test_frontmatter_is_written_where_there_is_none(tmp_path: Path) -> None:
    said = 'Reads "dates": all of them.\nUse it for dates – always.'
    plan = written(best(BARE), "claude-code", tmp_path, name="my-dates", description=said)
    text = plan.skill.read_text(encoding="utf-8")
    assert violations(text, "my-dates") == []
    assert frontmatter_fields(text) == {"name": "my-dates", "description": said}
    assert text.endswith(f"---\n\n{BARE}")
    assert load_skill(plan.skill.parent).name == "my-dates"


def test_a_skill_with_windows_line_ends_gets_such_frontmatter(tmp_path: Path) -> None:
    plan = written(best("\ufeff" + BARE.replace("\n", "\r\n")), "codex", tmp_path, description="Reads dates.")
    text = plan.skill.read_bytes()
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
        written(best(text), "claude-code", tmp_path, **given)
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("name", ["on", "123", "null"])
def test_a_name_that_yaml_would_read_as_something_else_stays_a_name(tmp_path: Path, name: str) -> None:
    plan = written(best(BARE), "codex", tmp_path, name=name, description="Dates.")
    assert f'name: "{name}"' in plan.skill.read_text()


def test_a_zip_holds_the_folder_and_is_the_same_every_time(tmp_path: Path) -> None:
    plan = written(best(), "zip", tmp_path)
    assert plan.skill == tmp_path / "dates.zip"
    with zipfile.ZipFile(plan.skill) as package:
        assert {name: package.read(name) for name in package.namelist()} == {
            "dates/SKILL.md": TEXT.encode(),
            "dates/references/guide.md": b"Guide\r\n\xff",
            "dates/scripts/run.sh": b"#!/bin/sh\n",
        }
        assert package.getinfo("dates/scripts/run.sh").external_attr >> 16 & stat.S_IXUSR
        assert {entry.date_time for entry in package.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert (plan.diff, written(best(), "zip", tmp_path).changes) == ("", [])
    assert "dates.zip is there and differs" in written(best(files=False), "zip", tmp_path).doubts[0]


def test_a_missing_folder_is_refused_and_agents_are_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gone"):
        place_for_agent(best(), "codex", tmp_path / "gone")
    assert {name: targets()[name] for name in ("claude-code", "codex", "cursor", "agents")} == {
        "claude-code": ".claude/skills",
        "codex": ".agents/skills",
        "cursor": ".cursor/skills",
        "agents": ".agents/skills",
    }
    assert "zip" not in targets()


def test_what_is_only_advised_is_a_remark(tmp_path: Path) -> None:
    plan = written(best(TEXT + "more\n" * 600), "codex", tmp_path)
    assert any("fewer than 500 are advised" in remark for remark in plan.remarks)


def test_a_run_without_a_skill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no best_skill\.md yet"):
        read_best(RunReader(tmp_path))


def test_a_run_without_an_end_is_said_to_have_none(tmp_path: Path) -> None:
    for name in ("events.jsonl", "run.db"):
        (tmp_path / name).touch()
    (tmp_path / "best_skill.md").write_text(BARE)
    (tmp_path / "settings.json").write_text('{"env": {"skill_init": "skills/My Dates.md"}}')
    found = read_best(read_run(tmp_path))
    assert (found.text, found.name, found.files) == (Document(BARE).rendered, "my-dates", {})
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
    plan = written(BestSkill(run=Path("run"), text=text, name="demo"), "claude-code", tmp_path)
    assert plan.skill.read_text() == text
    assert any("disable-model-invocation" in remark for remark in plan.remarks)


@pytest.mark.skipif(sys.platform == "win32", reason="forks and kills with SIGKILL")
def test_killed_at_any_rename_each_file_is_old_or_new_and_undo_gives_the_old_ones_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # what a process wrote outlives it anyway
    home = tmp_path / ".agents/skills/dates"
    written(BestSkill(run=Path("earlier"), text=TEXT.replace("year", "day"), name="dates"), "codex", tmp_path)
    before = everything(tmp_path)
    seen, number, ended = set(), 0, -signal.SIGKILL
    while ended:
        number += 1
        child = os.fork()
        if child == 0:
            left = [number]

            def die(event: str, arguments: tuple[object, ...], left: list[int] = left) -> None:
                if event != "os.rename":
                    return
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(die)
            written(best(), "codex", tmp_path)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        held = {name: data for name, data in everything(tmp_path).items() if not name.endswith(".tmp")}
        assert (home / "SKILL.md").read_text() in (TEXT, TEXT.replace("year", "day"))
        seen.add(len(held))
        try:
            undo_adoption(Path("run"))
        except UsageError as error:
            assert "nothing to undo" in str(error)
        assert everything(tmp_path) == before
    assert seen == {1, 2, 3} and number > 10
