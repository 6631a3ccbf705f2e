"""The description of a skill: read, replaced without touching anything else, and checked by the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.errors import SkillError
from skillopt.skill.document import Document
from skillopt.skill.folder import Skill
from skillopt.skill.install import (
    ListedSkill,
    description_of,
    listed_in,
    problem_with,
    with_description,
)
from skillopt.skill.spec import frontmatter_fields

HEADS = {
    "plain": "description: Makes tables. # see below\n",
    "double quoted": 'description: "Makes: \\"tables\\"."\n',
    "single quoted": "description: 'Makes: tables.'\n",
    "folded": "description: >\n  Makes\n  tables.\n\n",
    "literal, kept": "description: |+\n  Makes tables.\n  Twice.\n\n",
    "over two lines": "description: Makes tables\n  of all kinds.\n",
    "a colon without quotes": "description: Makes tables: many kinds.\n",
    "below its key": "description:\n  Makes tables.\n",
}
NEW = (
    "Draws charts.",
    "Draws: charts - for # 'all' \"people\".",
    "yes",
    "Zeichnet Größen.\nUnd mehr.",
    "2026-02-30",
    "!!int x",
    "!!timestamp x",
    "!!bool maybe",
)


def _skill(text: str) -> Skill:
    return Skill(path=None, name="tables", document=Document(text))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("wanted", NEW)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_description_is_replaced_and_everything_else_stays(head: str, wanted: str, newline: str) -> None:
    before, after = "---\nname: tables\n", "license: MIT # kept\n---\n\n# Body\n<!-- here: > -->\n"
    text = (before + head + after).replace("\n", newline)
    changed = with_description(text, wanted)
    assert description_of(_skill(changed)) == " ".join(wanted.split())
    assert changed.startswith(before.replace("\n", newline))
    assert changed.endswith(after.replace("\n", newline))
    assert frontmatter_fields(changed)["license"] == "MIT"


def test_a_description_replaced_by_itself_reads_the_same() -> None:
    text = "---\ndescription: Makes tables.\nname: tables\n---\nBody"
    assert with_description(text, "Makes  tables.") == text


@pytest.mark.parametrize(
    "text", ["# No frontmatter\n", "---\nname: a\n---\nB\n", "---\ndescription: ''\n---\n"]
)
def test_a_skill_without_a_description_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(SkillError, match="has no description: an agent would never load it"):
        description_of(_skill(text))


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ("  \n", "may not be empty"),
        ("a" * 1025, "1025 characters; 1024 are allowed"),
        ("Use <when> asked", "may not hold < or >"),
        ("a" * 1024, ""),
    ],
)
def test_the_rules_of_a_description(description: str, said: str) -> None:
    found = problem_with(description)
    assert said in found and bool(said) is bool(found)


def test_listed_skills_are_those_an_agent_would_list_each_once(tmp_path: Path) -> None:
    for folder, name, text in (
        ("project", "b", "---\nname: b\ndescription: >\n  The project's\n  own.\n---\n"),
        ("home", "b", "---\nname: b\ndescription: The person's.\n---\n"),
        ("home", "a", "---\nname: a\ndescription: First: one.\n---\n"),
        ("home", "c", "# no frontmatter\n"),
    ):
        (tmp_path / folder / name).mkdir(parents=True)
        (tmp_path / folder / name / "SKILL.md").write_text(text)
    (tmp_path / "home" / "d").mkdir()
    (tmp_path / "home" / "d" / "SKILL.md").write_bytes(b"\xff\xfe")
    found = list(listed_in([tmp_path / "project", tmp_path / "home", tmp_path / "nowhere"]))
    assert found == [
        ListedSkill(name="a", description="First: one."),
        ListedSkill(name="b", description="The project's own."),
    ]
