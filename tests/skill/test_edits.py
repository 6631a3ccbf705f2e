from __future__ import annotations

from typing import Any

import pytest

from skillopt.skill.document import Document
from skillopt.skill.edits import OPS, Edit, PatchResult, apply, parse_edit

S, E = "<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->"
A, Z = "<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->"
HEAD = "---\nname: demo\n---\n"
FENCED = "before\n```py\ncode one\ncode two\n```\nafter\n"


def states(applied: PatchResult) -> list[str]:
    return [outcome.state for outcome in applied.outcomes]


def run(text: str, *edits: Edit) -> tuple[str, list[str]]:
    applied = apply(edits, Document(text))
    return applied.document.text, states(applied)


def append(content: str) -> Edit:
    return Edit("append", content=content)


def insert(target: str, content: str) -> Edit:
    return Edit("insert_after", target, content)


def replace(target: str, content: str) -> Edit:
    return Edit("replace", target, content)


def delete(target: str) -> Edit:
    return Edit("delete", target)


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a\nb\n", append("c"), "a\nb\nc\n"),
        ("a\nb\n", append("c\n"), "a\nb\nc\n"),
        ("a\nb\n", append("\nc\n\n"), "a\nb\n\nc\n\n"),
        ("a", append("c"), "a\nc"),
        ("a", append("c\n"), "a\nc"),
        ("", append("c"), "c\n"),
        ("\ufeff", append("c"), "\ufeffc\n"),
        (HEAD, append("c"), HEAD + "c\n"),
        (HEAD.rstrip(), append("c"), HEAD + "c"),
        (f"{HEAD}a\n{A}\nn\n{Z}\n{S}\ng\n{E}\n", append("c"), f"{HEAD}a\nc\n{A}\nn\n{Z}\n{S}\ng\n{E}\n"),
        (f"a\n{S}\ng\n{E}\nbehind\n", append("c"), f"a\nc\n{S}\ng\n{E}\nbehind\n"),
        (f"{HEAD}{S}\ng\n{E}", append("c"), f"{HEAD}c\n{S}\ng\n{E}"),
        ("one two\nthree\n", insert("one", "x"), "one two\nx\nthree\n"),
        ("one two\nthree\n", insert("two\n", "x"), "one two\nx\nthree\n"),
        ("one\ntwo\nthree\n", insert("one\ntwo", "x"), "one\ntwo\nx\nthree\n"),
        ("one\ntwo", insert("two", "x\ny"), "one\ntwo\nx\ny"),
        ("one\r\ntwo\r\n", insert("one", "x\ny\r\n"), "one\r\nx\r\ny\r\ntwo\r\n"),
        ("one two three\n", replace("two", "2"), "one 2 three\n"),
        ("one two three\n", replace("two ", ""), "one three\n"),
        ("one\r\ntwo\r\n", replace("one\ntwo", "1\n2"), "1\r\n2\r\n"),
        ("one\ntwo\n", replace("one\r\ntwo", "1\r\n2"), "1\n2\n"),
        ("one\r\ntwo\r\n", delete("\ntwo"), "one\r\n"),
        ("one\r\ntwo\r\nthree\r\n", delete("two\n"), "one\r\nthree\r\n"),
        ("one two\n", delete(" two"), "one\n"),
        ("one\n", replace("one", "one"), "one\n"),
        ("größe 日本 😀\n", replace("日本", "にほん"), "größe にほん 😀\n"),
        ("a\u2028b\x0cc\n", insert("a", "x"), "a\u2028b\x0cc\nx\n"),
        (FENCED, replace("code one", "code 1"), FENCED.replace("code one", "code 1")),
        (FENCED, insert("code one", "x = 1"), FENCED.replace("code one\n", "code one\nx = 1\n")),
        (FENCED, delete("```py\ncode one\ncode two\n```\n"), "before\nafter\n"),
        (FENCED, replace("before\n```py\ncode one\ncode two\n```", "new"), "new\nafter\n"),
        (FENCED, append("```sh\nls\n```"), FENCED + "```sh\nls\n```\n"),
        (FENCED, append("````md\n```\n````"), FENCED + "````md\n```\n````\n"),
        ("```\nnever closed\n", delete("```\n"), "never closed\n"),
    ],
)
def test_an_edit_changes_exactly_its_place(text: str, edit: Edit, expected: str) -> None:
    assert run(text, edit) == (expected, ["applied"])


@pytest.mark.parametrize(
    ("text", "edit", "state"),
    [
        ("a\n", replace("b", "c"), "unmatched"),
        ("a\n", insert("b", "c"), "unmatched"),
        ("a\n", replace("A", "c"), "unmatched"),
        ("x y x\n", delete("x"), "ambiguous"),
        ("aaa\n", delete("aa"), "ambiguous"),
        (f"rule\n{S}\nrule\n{E}\n", replace("rule", "x"), "ambiguous"),
        ("---\nname: rule\n---\nrule\n", insert("rule", "x"), "ambiguous"),
        ("a\r\nb\na\nb\n", delete("a\nb"), "ambiguous"),
        ("a\n", Edit("add", "a", "b"), "invalid"),
        ("a\n", Edit("Append", "", "b"), "invalid"),
        ("a\n", replace("", "x"), "invalid"),
        ("a\n", delete(""), "invalid"),
        ("a\n", insert("", "x"), "invalid"),
        ("a\n", append(""), "invalid"),
        ("a\n", append(" \n"), "invalid"),
        ("a\n", append(f"x\n{S}\ny"), "invalid"),
        ("a\n", replace("a", f"see {Z}"), "invalid"),
        ("a\n", replace("a", "<!--  slow_update_end-->"), "invalid"),
        ("a\n", append("```py\ncode"), "invalid"),
        ("a\n", append("```\r\ncode\r\n```\r\n~~~"), "invalid"),
        ("a\n", replace("a", "half \ud800"), "invalid"),
        ("", append("---\nname: made-up\n---"), "invalid"),
        (FENCED, insert("code one", "```sh\nls\n```"), "invalid"),
        (HEAD + "a\n", replace("demo", "x"), "protected"),
        (HEAD + "a\n", insert("name: demo", "license: x"), "protected"),
        (HEAD + "a\n", insert("---\na", "x"), "protected"),
        (HEAD + "a\n", delete("---\na"), "protected"),
        ("\ufeffa\n", replace("\ufeffa", "b"), "protected"),
        (f"a\n{S}\nguidance\n{E}\n", delete("guidance"), "protected"),
        (f"a\n{S}\nguidance\n{E}\n", delete(f"a\n{S}\ngui"), "protected"),
        (f"a\n{S}\nguidance\n{E}\n", replace(f"a\n{S}\nguidance\n{E}\n", "b"), "protected"),
        (f"a\n{S}\nguidance\n{E}\n", insert(E, "behind"), "protected"),
        (f"a\n{S}\nguidance\n{E}\n", insert(f"a\n{S}", "inside"), "protected"),
        (f"a\n{S}\nguidance\n{E}\nb\n", delete(f"{E}\nb"), "protected"),
        (f"a\n{S}\nguidance\n{E}\n", replace("a\n", "glued"), "protected"),
        (f"a\n{A}\nnote\n{Z}\n", replace("note", "x"), "protected"),
        (f"x {S}\ny\n{E} z\n", delete("x "), "protected"),
        ("x---\nname: y\n---\n", delete("x"), "protected"),
        (FENCED, delete("before\n```py\ncode"), "protected"),
        (FENCED, delete("two\n```\nafter"), "protected"),
        (FENCED, delete("```\nafter"), "protected"),
        (FENCED, replace("```py", "text"), "protected"),
        (FENCED, replace("```py", "```sh"), "invalid"),
        (FENCED, delete("py\ncode one"), "protected"),
        (FENCED, delete("\ncode one"), "protected"),
        (FENCED, replace("before\n", "glued "), "protected"),
        ("```\na\n```\nmid\n```\nb\n```\n", delete("a\n```\nmid\n```\nb"), "protected"),
        ("x```\nguarded\n", delete("x"), "protected"),
    ],
)
def test_an_edit_that_may_not_happen_ends_in_its_state_and_changes_nothing(
    text: str, edit: Edit, state: str
) -> None:
    applied = apply([edit], Document(text))
    assert states(applied) == [state]
    assert applied.document.text == text
    assert applied.outcomes[0].reason


def test_the_reason_says_where_an_ambiguous_target_stands() -> None:
    outcome = apply([delete("rule")], Document("rule\n\nrule\nrule\n")).outcomes[0]
    assert outcome.reason == "the target occurs more than once, first in lines 1 and 3"


TEXT = "one two\nthree four\nfive\n"


@pytest.mark.parametrize(
    ("edits", "expected", "ends"),
    [
        # overlapping spans, and spans that only touch
        ([replace("one two", "x"), delete("two\nthree")], "x\nthree four\nfive\n", ["applied", "conflict"]),
        ([delete("two\nthree"), replace("one two", "x")], "one  four\nfive\n", ["applied", "conflict"]),
        ([replace("one", "1"), replace(" two", " 2")], "1 2\nthree four\nfive\n", ["applied", "applied"]),
        # a point strictly inside a span, and one at its edge
        (
            [insert("one", "x"), delete("two\nthree")],
            "one two\nx\nthree four\nfive\n",
            ["applied", "conflict"],
        ),
        ([delete("two\nthree"), insert("one", "x")], "one  four\nfive\n", ["applied", "conflict"]),
        ([delete("three four\n"), insert("two", "x")], "one two\nx\nfive\n", ["applied", "applied"]),
        # an anchor that another edit changes
        ([replace("two", "2"), insert("one two", "x")], "one 2\nthree four\nfive\n", ["applied", "conflict"]),
        (
            [insert("one two", "x"), replace("two", "2")],
            "one two\nx\nthree four\nfive\n",
            ["applied", "conflict"],
        ),
        ([replace("one", "1"), insert("two", "x")], "1 two\nx\nthree four\nfive\n", ["applied", "applied"]),
        # points at the same place keep patch order
        (
            [insert("one", "x"), insert("two", "y")],
            "one two\nx\ny\nthree four\nfive\n",
            ["applied", "applied"],
        ),
        (
            [insert("two", "y"), insert("one", "x")],
            "one two\ny\nx\nthree four\nfive\n",
            ["applied", "applied"],
        ),
        (
            [append("y"), insert("five", "x"), append("z")],
            TEXT + "y\nx\nz\n",
            ["applied", "applied", "applied"],
        ),
        # inserted text stands on its own lines whatever happens beside it
        ([delete("two\n"), insert("one", "x")], "one \nx\nthree four\nfive\n", ["applied", "applied"]),
        ([replace("five\n", "5"), append("x")], "one two\nthree four\n5\nx\n", ["applied", "applied"]),
        # targets are those of the document before the patch
        (
            [replace("one", "five"), replace("five", "six")],
            "five two\nthree four\nsix\n",
            ["applied", "applied"],
        ),
        ([append("fresh"), replace("fresh", "x")], TEXT + "fresh\n", ["applied", "unmatched"]),
        # exact copies, seen through evidence and line ends
        (
            [append("x"), Edit("append", "ignored", "x", {"support_count": 3})],
            TEXT + "x\n",
            ["applied", "duplicate"],
        ),
        (
            [replace("two\nthree", "x\ny"), replace("two\r\nthree", "x\r\ny")],
            "one x\ny four\nfive\n",
            ["applied", "duplicate"],
        ),
        ([delete("nothing"), delete("nothing")], TEXT, ["unmatched", "duplicate"]),
        # an edit that does not happen stands in nobody's way
        ([replace("one two", S), replace("two", "2")], "one 2\nthree four\nfive\n", ["invalid", "applied"]),
    ],
)
def test_the_edits_of_a_patch_meet_each_other(edits: list[Edit], expected: str, ends: list[str]) -> None:
    assert run(TEXT, *edits) == (expected, ends)


def test_a_span_that_runs_into_a_region_stands_in_nobodys_way() -> None:
    text = f"a b\n{S}\nguidance\n{E}\n"
    assert run(text, delete(f"b\n{S}\nguid"), replace("b", "c")) == (
        text.replace("b", "c", 1),
        ["protected", "applied"],
    )


def test_two_edits_that_would_make_a_fence_line_together_do_not_both_happen() -> None:
    text = "xy```\nguarded\n"
    for patch in ([delete("x"), delete("y")], [delete("y"), delete("x")]):
        result, ends = run(text, *patch)
        assert result == "y```\nguarded\n"
        assert sorted(ends) == ["applied", "protected"]


def test_two_insertions_behind_a_last_line_without_newline_stand_on_lines_of_their_own() -> None:
    assert run("a", append("x"), append("y\n"))[0] == "a\nx\ny"


def test_an_untouched_document_comes_back_as_it_is() -> None:
    document = Document(TEXT)
    assert apply([], document).document is document
    assert apply([delete("nothing")], document).document is document


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (None, "JSON object"),
        ("append x", "JSON object"),
        (["append"], "JSON object"),
        ({}, "op is missing"),
        ({"op": 3}, "op is int 3"),
        ({"op": ["append"]}, "op is list"),
        ({"op": "appendd", "content": "x"}, "Did you mean 'append'"),
        ({"op": "replace", "target": "a"}, "needs content to be a text, it is missing"),
        ({"op": "replace", "target": None, "content": "x"}, "needs target to be a text"),
        ({"op": "append", "content": ["x"]}, "needs content to be a text, it is list"),
        ({"op": "delete", "target": 5}, "needs target to be a text, it is int 5"),
    ],
)
def test_an_unreadable_proposal_becomes_an_invalid_edit_with_the_reason(obj: Any, word: str) -> None:
    edit = parse_edit(obj, "1/2")
    outcome = apply([edit], Document("a\n")).outcomes[0]
    assert edit.id == "1/2"
    assert outcome.state == "invalid"
    assert word in outcome.reason


def test_extra_keys_are_kept_as_evidence_and_shown_again() -> None:
    obj = {
        "op": "replace",
        "target": "a",
        "content": "",
        "support_count": 2,
        "source_type": "failure",
        "rationale": "r",
    }
    edit = parse_edit(obj, "x")
    assert edit.evidence == {"support_count": 2, "source_type": "failure", "rationale": "r"}
    assert edit.as_json() == obj
    assert parse_edit(edit.as_json(), "x") == edit
    assert not edit.problem


@pytest.mark.parametrize("op", OPS)
def test_prompts_show_only_the_fields_an_op_has(op: str) -> None:
    shown = parse_edit({"op": op, "target": "t", "content": "c"}, "").as_json()
    assert ("target" in shown) == (op != "append")
    assert ("content" in shown) == (op != "delete")


def test_null_fields_an_op_does_not_need_are_fine() -> None:
    assert not parse_edit({"op": "append", "target": None, "content": "x"}, "").problem
    assert not parse_edit({"op": "delete", "target": "x", "content": None}, "").problem


@pytest.mark.slow
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.timeout(30)
def test_fifty_edits_on_a_megabyte_are_applied(newline: str) -> None:
    text = HEAD.replace("\n", newline) + "".join(
        f"- rule {i:05} about größe 日本 and other things{newline}" for i in range(22_000)
    )
    assert len(text.encode()) > 1_000_000
    document = Document(text)
    patch = [replace(f"rule {i * 400:05}", f"RULE {i * 400:05}") for i in range(25)]
    patch += [insert(f"rule {i * 400 + 7:05}", f"- new {i}") for i in range(25)]
    applied = apply(patch, document)
    assert states(applied) == ["applied"] * 50
    back = applied.document.text.replace("RULE", "rule")
    for i in range(25):
        back = back.replace(f"- new {i}{newline}", "")
    assert back == text
