"""No line comes twice in a skill that edits write, whatever is proposed: in another case, with other marks or
blanks or fillers, twice in one edit, by replacing a word, in another file of the skill.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillopt.optimizer.update import by_edits
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit

RULES = ["round every amount to two", "round every amount to three", "dates are written as day month year"]
SEED = Document(
    f"# House rules\n\n- {RULES[0]}\n- name the currency before the amount\n\nAnswer in one word.\n"
)
FORMS = ("- {}", "* {}", "1. {}.", "  {}", "{}!", "- **{}**", "> {}")
TARGETS = (f"- {RULES[0]}", "two", "- name the currency before the amount", "Answer in one word.", "nowhere")

written = st.tuples(
    st.sampled_from([*RULES, "name the currency before the amount"]),
    st.sampled_from(FORMS),
    st.sampled_from([str, str.upper, str.title, lambda text: text.replace(" ", "  ")]),
).map(lambda parts: parts[1].format(parts[2](parts[0])))
contents = st.lists(st.one_of(written, st.sampled_from(["two", "three", ""])), min_size=1, max_size=4)
edits = st.builds(
    Edit,
    op=st.sampled_from(["append", "insert_after", "replace", "delete"]),
    target=st.sampled_from(TARGETS),
    content=contents.map("\n".join),
    path=st.sampled_from(["SKILL.md", "SKILL.md", "references/more.md"]),
)


def lines(skill: Document) -> Counter[str]:
    """The lines of all files by their letters alone; short ones may repeat."""
    plain = ("".join(filter(str.isalnum, line)).casefold() for line in skill.whole.splitlines())
    return Counter(line.removeprefix("1") for line in plain if len(line) >= 16)


@pytest.mark.slow
@given(st.lists(edits, max_size=6))
@example([Edit(op="append", content=f"- {RULES[2]}\n* {RULES[2].upper()}.")])
@example([Edit(op="append", content=f"- {RULES[1]}"), Edit(op="replace", target="two", content="three")])
@example([Edit(op="replace", target="Answer in one word.", content=f"1. {RULES[0]}!")])
def test_no_line_comes_twice_whatever_is_proposed(patch):
    named = [Edit(**{**_fields(one), "id": str(at)}) for at, one in enumerate(patch)]
    update = by_edits(SEED, named)
    assert [line for line, count in lines(update.document).items() if count > 1] == []


RULED = "# Mail\n\n## Rules\n\n- Be brief.\n- Answer in one word.\n- Do not add a greeting.\n- Take at most 3 items.\n"
TABLE = "# M\n\n| a | b |\n|---|---|\n| x | 1 |\n"
CODE = "# M\n\n```python\nreturn value\n```\n"
LISTS = "# M\n\nAsk for:\n- the invoice number\n\nTo sort:\n1. Open the workbook first.\n"
ONE = "- Answer in one word."


@pytest.mark.parametrize(
    ("skill", "content"),
    [
        *(
            (RULED, line)
            for line in (ONE, "* Answer in one word", "1. Answer in one word.", "Answer in one word")
        ),
        *((RULED, line) for line in ("-   answer in  ONE word!", "- **Answer in one word.**", "- Be brief.")),
        (RULED, "- Please always answer in one word."),
        (RULED, f"## Form of the answer\n\n{ONE}"),
        (RULED, "## Rules"),
        (TABLE, "| x | 1 |"),
        (TABLE, "| a | b |\n|---|---|\n| x | 1 |"),
        (CODE, "```python\nreturn value\n```"),
        (LISTS, "- the invoice number"),
        (LISTS, "Ask for:\n- the invoice number"),
    ],
)
def test_an_edit_that_says_only_what_the_skill_says_is_a_duplicate(skill, content):
    update = by_edits(Document(skill), [Edit(op="append", content=content, id="a")])
    assert [(one.state, one.edit.content) for one in update.outcomes] == [("duplicate", content)]
    assert "already has its lines" in update.outcomes[0].reason and update.document.text == skill


@pytest.mark.parametrize(
    ("skill", "content"),
    [
        *(
            (RULED, line)
            for line in ("- Take at most 5 items.", "- Add a greeting.", "- Answer in one word of Latin.")
        ),
        ("# M\n\n## Answer in one word\n\nText.\n", "- Answer in one word"),
        (RULED, "## Rules\n\n- Sort by price."),
        ("# M\n\n3.5 metres are the limit.\n", "4.5 metres are the limit."),
        (TABLE, "| x | 2 |"),
        (TABLE, "| a | c |\n|---|---|\n| x | 1 |"),
        (CODE, "```python\nother = 1\nreturn value\n```"),
        (CODE, "Say `x`.\n\n```python\nreturn value\nreturn value\n```"),
        (LISTS, "Return:\n- the invoice number"),
        (LISTS, "To filter:\n1. Open the workbook first.\n2. Hide what is not asked for."),
    ],
)
def test_what_differs_in_a_word_that_counts_or_stands_elsewhere_is_added_whole(skill, content):
    update = by_edits(Document(skill), [Edit(op="append", content=content, id="a")])
    assert [one.state for one in update.outcomes] == ["applied"] and content in update.document.text


def test_of_several_lines_the_new_ones_are_added():
    known = "* round every amount to two!"
    content = f"{known}\n- name the unit of every number\n```\nx = 1\nx = 1\n```"
    update = by_edits(SEED, [Edit(op="append", content=content, id="a")])
    (told,) = update.outcomes
    assert isinstance(told.edit, Edit) and told.state == "applied"
    assert told.edit.content == content.removeprefix(f"{known}\n")


def test_a_line_inside_a_code_block_may_be_inserted_again():
    skill = Document("# M\n\n```python\nopen_the_file(first)\nclose_the_file()\n```\n")
    again = Edit(op="insert_after", target="close_the_file()", content="close_the_file()", id="a")
    assert by_edits(skill, [again]).document.text.count("close_the_file()") == 2


def test_a_line_may_be_moved():
    moved = [
        Edit(op="insert_after", target="# Mail", content=ONE, id="a"),
        Edit(op="delete", target=f"{ONE}\n", id="b"),
    ]
    text = by_edits(Document(RULED), moved).document.text
    assert text.count(ONE) == 1 and text.index(ONE) < text.index("## Rules")


def test_the_other_edits_of_a_bundle_stay():
    patch = [
        Edit(op="append", content=line, id=line) for line in ("- Sort by price.", ONE, "- sort by price")
    ]
    update = by_edits(Document(RULED), [*patch, Edit(op="append", content=" ", id="d")])
    assert {one.edit.id: one.state for one in update.outcomes} == {
        "- Sort by price.": "applied",
        ONE: "duplicate",
        "- sort by price": "duplicate",
        "d": "invalid",
    }


def _fields(edit: Edit) -> dict[str, str]:
    return {name: getattr(edit, name) for name in ("op", "target", "content", "path")}
