"""What holds for every text: a choice of edits has exactly one text, and nothing outside our block ever
changes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import SkillError
from skillopt.skill.document import to_lf
from skillopt_sleep.texts import END, START, learned, merge, with_learned

LINES = st.sampled_from(["", "a", "b", "- rule", "  indented", "```py\n\n\ncode\n```", "日本", "x\r"])
TEXTS = st.builds(
    lambda lines, end, crlf: (
        "".join(f"{line}\n" for line in lines)
        .removesuffix("" if end else "\n")
        .replace("\n", "\r\n" if crlf else "\n")
    ),
    st.lists(LINES, max_size=8),
    st.booleans(),
    st.booleans(),
)


@given(texts=st.lists(TEXTS, min_size=2, max_size=5), newline=st.sampled_from(["\n", "\r\n"]))
def test_no_edit_gives_the_first_text_and_all_edits_the_last(texts: list[str], newline: str) -> None:
    merged, _, _ = merge(texts, newline=newline, first=5)
    assert merged.text(()) == texts[0]
    assert merged.text(merged.edits) == texts[-1] or not merged.edits
    assert merged.edits == tuple(range(5, 5 + len(merged.edits)))


@given(texts=st.lists(TEXTS, min_size=2, max_size=5), pick=st.sets(st.integers(1, 5)))
def test_a_choice_of_edits_holds_only_lines_of_the_texts(texts: list[str], pick: set[int]) -> None:
    merged, _, _ = merge(texts, newline="\n")
    lines = {line for text in texts for line in (text if text.endswith("\n") else f"{text}\n").split("\n")}
    assert set(merged.text(pick).split("\n")) <= lines | {""}


def test_edits_that_touch_different_places_are_apart_and_those_that_rewrite_each_other_are_one() -> None:
    texts = ["a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\nd\n", "a\nB\nc\nD\n"]
    merged, sources, _ = merge(texts, newline="\n")
    assert sources == {1: (1,), 2: (2, 3)}
    assert (merged.text({1}), merged.text({2})) == ("a\nB\nc\n", "a\nb\nc\nD\n")


def test_rules_added_behind_a_last_line_without_newline_can_be_taken_apart() -> None:
    merged, _, _ = merge(["a", "a\nb", "a\nb\nc"], newline="\n")
    assert [merged.text(pick) for pick in ((), {1}, {2}, {1, 2})] == ["a", "a\nb", "a\nc", "a\nb\nc"]


def test_an_edit_wrapped_around_another_needs_it_and_not_the_other_way_round() -> None:
    _, sources, needs = merge(["a\n", "a\nx\n", "a\n<\nx\n>\n"], newline="\n")
    later = next(number for number, steps in sources.items() if steps == (2,))
    earlier = next(number for number, steps in sources.items() if steps == (1,))
    assert needs == {later: (earlier,)}


@given(text=TEXTS, content=TEXTS, other=TEXTS)
def test_only_our_block_changes_and_taking_it_out_gives_the_first_bytes_back(
    text: str, content: str, other: str
) -> None:
    once = with_learned(text, content)
    if content.strip():
        assert once.startswith(text) and learned(once) == to_lf(content).strip("\n")
    else:
        assert once == text
    assert with_learned(once, "") == text
    if content.strip() and other.strip():
        assert with_learned(with_learned(once, other), content) == once
    assert with_learned(with_learned(once, other), "") == text


@given(before=TEXTS, after=TEXTS, old=TEXTS, new=TEXTS)
def test_a_block_in_the_middle_of_the_persons_text_is_changed_where_it_stands(
    before: str, after: str, old: str, new: str
) -> None:
    before = before if before.endswith("\n") or not before else f"{before}\n"
    new = new if new.strip() else "- new"
    text = f"{before}{START}\n{old}\n{END}\n{after}"
    changed = with_learned(text, new)
    assert changed.startswith(f"{before}{START}\n") and changed.endswith(f"{END}\n{after}")
    assert learned(changed) == to_lf(new).strip("\n")


def test_a_rule_of_many_lines_survives_every_night() -> None:
    rule = "- First line\n\n  - --no-verify is never used\n\n  ```sh\n  make   test\n\n\n  ```\n- Second"
    text = with_learned("# Mine\n", rule)
    for night in range(3):
        inner = learned(text)
        assert inner is not None and inner.startswith(rule)
        text = with_learned(text, f"{inner}\n- night {night}")
    assert learned(text) == f"{rule}\n- night 0\n- night 1\n- night 2"


@pytest.mark.parametrize(
    "text", [f"{START}\n", f"a\n{END}\n", f"{START}\n{START}\n{END}\n", f"{START}\n{END}\n{START}\n{END}\n"]
)
def test_markers_that_do_not_pair_up_are_named_and_nothing_is_guessed(text: str) -> None:
    with pytest.raises(SkillError, match=r"Line \d"):
        with_learned(text, "x")


def test_a_marker_in_a_code_block_of_the_person_is_text() -> None:
    text = f"see:\n```\n{START}\n{END}\n```\n"
    assert learned(text) is None
    assert with_learned(with_learned(text, "- x"), "") == text
