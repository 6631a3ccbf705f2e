from __future__ import annotations

import pytest

from skillopt.skill.spec import frontmatter_fields, new_violations, violations

GOOD = "---\nname: demo\ndescription: Does a thing when asked.\n---\n# Demo\n"


def head(lines: str) -> str:
    return f"---\n{lines}\n---\nbody\n"


def rules(text: str, folder: str | None = None) -> list[str]:
    return [violation.rule for violation in violations(text, folder)]


def test_a_good_skill_breaks_no_rule() -> None:
    full = head(
        "name: demo\ndescription: >\n  Folded: with a colon\nlicense: MIT\ncompatibility: any\n"
        "metadata:\n  version: 1.10\nallowed-tools: Bash(git:*) Read"
    )
    for text in (GOOD, GOOD.replace("\n", "\r\n"), full):
        assert violations(text, "demo") == []


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ("description: d", "name"),
        ("name:\ndescription: d", "name"),
        ("name: [a]\ndescription: d", "name"),
        (f"name: {'a' * 65}\ndescription: d", "name-length"),
        ("name: Demo\ndescription: d", "name-characters"),
        ("name: my_demo\ndescription: d", "name-characters"),
        ("name: my demo\ndescription: d", "name-characters"),
        ("name: -demo\ndescription: d", "name-hyphens"),
        ("name: demo-\ndescription: d", "name-hyphens"),
        ("name: de--mo\ndescription: d", "name-hyphens"),
        ("name: demo", "description"),
        ("name: demo\ndescription: '  '", "description"),
        (f"name: demo\ndescription: {'d' * 1025}", "description-length"),
        ("name: demo\ndescription: d\nlicense: [MIT]", "license"),
        ("name: demo\ndescription: d\ncompatibility: ''", "compatibility"),
        (f"name: demo\ndescription: d\ncompatibility: {'c' * 501}", "compatibility"),
        ("name: demo\ndescription: d\nmetadata: text", "metadata"),
        ("name: demo\ndescription: d\nmetadata:\n  a: [1]", "metadata"),
        ("name: demo\ndescription: d\nallowed-tools: [Bash, Read]", "allowed-tools"),
        ("name: demo\ndescription: d\nversion: 1", "unknown-key:version"),
        ("name: demo\ndescription: d\nwhen_to_use: x", "unknown-key:when_to_use"),
        ("name: demo\ndescription: a: b: c", "yaml"),
        ("just text", "yaml"),
        ("- a list", "yaml"),
        ("x: " + "[" * 3000, "yaml"),
    ],
)
def test_each_rule_of_the_table_can_be_broken(lines: str, rule: str) -> None:
    found = violations(head(lines), None)
    assert [(violation.rule, violation.severity) for violation in found] == [(rule, "error")]
    assert found[0].message


@pytest.mark.parametrize(
    "lines",
    [
        f"name: {'a' * 64}\ndescription: d",
        f"name: a1-b2\ndescription: {'d' * 1024}",
        f"name: 123\ndescription: d\ncompatibility: {'c' * 500}",
    ],
)
def test_the_limits_themselves_are_allowed(lines: str) -> None:
    assert rules(head(lines)) == []


def test_the_name_equals_the_folder() -> None:
    assert rules(GOOD, "other") == ["name-folder"]
    assert rules(head("name: café\ndescription: d"), "cafe\u0301") == ["name-ascii"]


def test_a_skill_folder_needs_frontmatter_and_a_plain_file_is_only_told() -> None:
    assert [v.severity for v in violations("# Body\n", "demo")] == ["error"]
    assert [v.severity for v in violations("# Body\n", None)] == ["advice"]
    assert rules("---\n---\n", "demo") == ["name", "description"]
    assert rules("\ufeff" + GOOD, "demo") == ["byte-order-mark"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (GOOD + "line\n" * 495, "lines"),
        (GOOD + "x" * 20_000, "tokens"),
        (head("name: demo\ndescription: a <b> c"), "description-brackets"),
        (head("name: größe\ndescription: d"), "name-ascii"),
    ],
)
def test_what_clients_only_advise_is_advice(text: str, rule: str) -> None:
    assert [(v.rule, v.severity) for v in violations(text, None)] == [(rule, "advice")]


def test_a_short_skill_is_not_called_long() -> None:
    assert rules(GOOD + "line\n" * 494) == []
    assert rules(GOOD + "x" * 19_000) == []


def test_only_what_a_write_adds_is_new() -> None:
    long = GOOD + "line\n" * 600
    assert new_violations(long, long + "more\n") == []
    assert [v.rule for v in new_violations(GOOD, long)] == ["lines"]
    odd = head("name: Demo\ndescription: d\nversion: 1")
    worse = head("name: Demo\ndescription: d\nversion: 1\nmodel: x")
    assert [v.rule for v in new_violations(odd, worse)] == ["unknown-key:model"]
    assert new_violations(worse, odd, "demo") == []


def test_fields_are_texts_and_unreadable_frontmatter_has_none() -> None:
    assert frontmatter_fields(head("name: 123\nversion: 1.10")) == {"name": "123", "version": "1.10"}
    assert frontmatter_fields(head("a: b: c")) == {}
    assert frontmatter_fields("no frontmatter") == {}
