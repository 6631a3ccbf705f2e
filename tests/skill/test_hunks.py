"""A rewritten skill is told as edits: all of them give the new text, each of them can stand alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skillopt.errors import SkillError
from skillopt.skill.document import Document
from skillopt.skill.edits import apply
from skillopt.skill.rewrite import split, with_new_body

HEAD = "---\nname: house\ndescription: House rules\n---\n"
BODY = "# House\n\n- Write dates as DD.MM.\n- Use UTC.\n\n## Money\n\n- Round to cents.\n"
SKILL = Document(HEAD + BODY).with_region("slow_update", "- Use UTC.")
WORDS = ["a", "ab", "- rule", "- a", "1. first", "# Title", "", "  more", "日本", "> a b", "| a |", "---"]
FENCED = ["```\na\n```", "~~~py\n- a\n\n~~~"]
PARTS = st.lists(st.sampled_from([*WORDS, *FENCED, *(f"- rule {n}" for n in range(6))]), max_size=12)


def told(document: Document, text: str) -> list[tuple[str, str, str]]:
    edits, problem = split(document, text)
    assert problem == ""
    return [(edit.op, edit.target, edit.content) for edit in edits]


def test_every_new_paragraph_and_list_item_is_an_edit_and_a_heading_goes_with_its_first():
    text = BODY.replace("- Use UTC.\n", "- Use UTC.\n- Weeks start on Monday.\n- Quarters are Q1 to Q4.\n")
    text += "- In euros.\n\n## Names\n\nFamily name first.\n\nNo initials.\n"
    assert told(SKILL, text) == [
        ("insert_after", "- Write dates as DD.MM.\n- Use UTC.", "- Weeks start on Monday.\n"),
        ("insert_after", "- Write dates as DD.MM.\n- Use UTC.", "- Quarters are Q1 to Q4.\n"),
        ("append", "", "- In euros.\n"),
        ("append", "", "\n## Names\n\nFamily name first.\n"),
        ("append", "", "\nNo initials.\n"),
    ]


def test_a_reworded_line_is_replaced_beside_new_ones_and_lines_that_go_are_deleted_one_by_one():
    text = BODY.replace(
        "- Write dates as DD.MM.\n- Use UTC.\n", "- Write dates as YYYY-MM-DD.\n- Never guess.\n"
    )
    assert told(SKILL, text) == [
        ("replace", "- Write dates as DD.MM.", "- Write dates as YYYY-MM-DD."),
        ("replace", "- Use UTC.\n\n", "- Never guess.\n\n"),  # its target is also in the region
    ]
    assert told(Document(BODY), BODY.replace("- Write dates as DD.MM.\n- Use UTC.\n", "")) == [
        ("delete", "- Write dates as DD.MM.\n", ""),
        ("delete", "- Use UTC.\n", ""),
    ]


def test_code_is_one_edit_and_two_changes_that_need_each_other_are_joined():
    block = "```py\nx = 1\n\ny = 2\n```\n"
    assert told(Document("# A\n"), f"# A\n\nSee:\n\n{block}") == [
        ("append", "", "\nSee:\n"),
        ("append", "", f"\n{block}"),
    ]
    (one,), _ = split(Document("# A\n\nx = 1\n\ny = 2\n"), "# A\n\n```\nx = 1\n\ny = 2\n```\n")
    assert one.content.count("```") == 2 and "# A" not in one.target


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "no body"), ("# A\n\n```\nopen\n", "fence"), ("# A\n<!-- SLOW_UPDATE_END -->\n", "not a readable")],
)
def test_a_text_that_is_no_skill_gives_no_edits_and_the_reason(text, why):
    edits, problem = split(SKILL, text)
    assert edits == () and why in problem


def test_the_same_text_gives_no_edits_whatever_it_says_of_protected_parts():
    assert split(SKILL, BODY) == ((), "")
    assert split(SKILL, "---\nname: evil\n---\n" + BODY) == ((), "")


def test_text_behind_a_region_is_not_moved():
    behind = Document(SKILL.text + "\nAfterwards.\n")
    assert split(behind, BODY + "- More.\n")[1].endswith("text behind a protected region")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(PARTS, PARTS, st.integers(0, 2**32), st.sampled_from(["", HEAD]), st.booleans(), st.booleans())
def test_all_edits_give_the_rewritten_text_and_each_can_be_applied_alone(old, new, seed, head, region, crlf):
    kept = [part for part in old if random.Random(f"{seed}{part}").random() < 0.7]
    at = seed % (len(kept) + 1)
    before, after = "\n".join(old) + "\n", "\n".join([*kept[:at], *new, *kept[at:]]) + "\n"
    try:
        document = Document((head + before).replace("\n", "\r\n" if crlf else "\n"))
        document = document.with_region("slow_update", "kept") if region else document
    except SkillError:
        assume(False)
    edits, problem = split(document, after)
    wanted, no_skill = with_new_body(document, after)
    assert bool(problem) >= bool(no_skill)
    # The whole body can be too short to be told from other text of the document: then there is no edit of it.
    assume(not problem)
    assert wanted is not None
    done = apply(edits, document)
    assert [outcome.state for outcome in done.outcomes] == ["applied"] * len(edits)
    assert done.document.text == wanted.text
    assert all(apply([edit], document).outcomes[0].state == "applied" for edit in edits)
