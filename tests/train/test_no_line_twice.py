"""No line comes twice in a skill that `proof` writes, whatever is proposed: in another case, with other marks or
blanks, twice in one edit, by replacing a word, in another file of the skill.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from skillopt.optimizer.update import by_edits
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit
from skillopt.train.strategies.proof import distinct

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


@given(st.lists(edits, max_size=6))
@example([Edit(op="append", content=f"- {RULES[2]}\n* {RULES[2].upper()}.")])
@example([Edit(op="append", content=f"- {RULES[1]}"), Edit(op="replace", target="two", content="three")])
@example([Edit(op="replace", target="Answer in one word.", content=f"1. {RULES[0]}!")])
def test_no_line_comes_twice_whatever_is_proposed(patch):
    named = [Edit(**{**_fields(one), "id": str(at)}) for at, one in enumerate(patch)]
    update = by_edits(SEED, distinct(named, SEED))
    assert [line for line, count in lines(update.document).items() if count > 1] == []


def test_new_lines_are_all_there_and_code_may_repeat():
    fence = "```\nprint(total_amount)\nprint(total_amount)\n```"
    patch = [Edit(op="append", content=f"- {RULES[1]}", id="a"), Edit(op="append", content=fence, id="b")]
    skill = by_edits(SEED, distinct(patch, SEED)).document.whole
    assert RULES[1] in skill and skill.count("print(total_amount)") == 2


def _fields(edit: Edit) -> dict[str, str]:
    return {name: getattr(edit, name) for name in ("op", "target", "content", "path")}
