"""What holds for every document and every patch."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skillopt.errors import SkillError
from skillopt.skill.assembly import Change
from skillopt.skill.document import Document, problem_with
from skillopt.skill.edits import Edit, _Finder, apply, parse_edit
from skillopt.skill.layout import RegionName

EXAMPLES = 300
PROSE = [
    "",
    "a",
    "ab",
    "- rule ü",
    "日本 😀",
    "  indented",
    "---",
    "name: x",
    "# Title",
    "a b a",
    "\u2028",
    "\r",
]
FENCES = ["```", "```py", "~~~", "````", "x```", "  ```"]
MARKERS = [f"<!-- {name}_{side} -->" for name in ("SLOW_UPDATE", "APPENDIX") for side in ("START", "END")]
LINES = st.sampled_from([*PROSE, *FENCES, *MARKERS, "x <!-- APPENDIX_START -->"])
TEXTS = st.one_of(st.lists(LINES, max_size=8).map("\n".join), st.text(alphabet="ab`~-\n\r é", max_size=20))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Any mixture of frontmatter, body, fences and regions; LF or CRLF, with or without BOM and final
    newline.
    """
    text = draw(st.sampled_from(["", "---\nname: x\n---\n", "---\na: |\n  ```\n---\n"])) + draw(TEXTS)
    text = draw(st.sampled_from(["", "\n", "\n\n"])).join([text, ""])
    if draw(st.booleans()):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        document = Document(draw(st.sampled_from(["", "\ufeff"])) + text)
        names: list[RegionName] = ["slow_update", "appendix"]
        for name in draw(st.permutations(names)):
            if document.region(name) is None and draw(st.booleans()):
                document = document.with_region(
                    name, draw(st.sampled_from(["guidance", "- n\n\n```py\nx\n```\n- m", "a"]))
                )
    except SkillError:
        assume(False)
        raise
    return document


@st.composite
def edits(draw: st.DrawFn, document: Document) -> Edit:
    """Mostly edits whose target is really a slice of the document."""
    text = document.text
    start = draw(st.integers(0, max(0, len(text) - 1)))
    target = draw(st.one_of(st.just(text[start : start + draw(st.integers(0, 12))]), TEXTS))
    if draw(st.booleans()):
        target = target.replace("\r\n", "\n")
    return Edit(
        draw(st.sampled_from(["append", "insert_after", "replace", "delete", "add"])), target, draw(TEXTS)
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Document, list[Edit]]:
    document = draw(documents())
    return document, draw(st.lists(edits(document), max_size=6))


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(cases())
def test_no_patch_ever_touches_protected_bytes(case: tuple[Document, list[Edit]]) -> None:
    before, patch = case
    after = apply(patch, before).document
    assert after.frontmatter in (
        before.frontmatter,
        before.frontmatter + before.newline if not before.body else before.frontmatter,
    )
    assert after.text.startswith("\ufeff") or not before.text.startswith("\ufeff")
    shown = [[(r.name, d.text[r.start : r.end]) for r in d.layout.regions] for d in (before, after)]
    assert shown[0] == shown[1]
    for name in ("slow_update", "appendix"):
        assert after.region(name) == before.region(name)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(cases())
def test_every_edit_ends_in_one_state_and_only_applied_ones_change_the_text(
    case: tuple[Document, list[Edit]],
) -> None:
    document, patch = case
    applied = apply(patch, document)
    assert [outcome.edit for outcome in applied.outcomes] == patch
    assert all(bool(outcome.reason) == (outcome.state != "applied") for outcome in applied.outcomes)
    if not any(outcome.state == "applied" for outcome in applied.outcomes):
        assert applied.document.text == document.text
    assert apply(patch, document) == applied, "the same patch twice gives the same result"
    assert document.layout.unclosed is not None or applied.document.layout.unclosed is None, (
        "no fence is left open"
    )


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(cases())
def test_text_outside_the_applied_edits_stays_byte_for_byte(case: tuple[Document, list[Edit]]) -> None:
    before, patch = case
    applied = apply(patch, before)
    finder = _Finder(before)
    changes = [finder.resolve(i, o.edit) for i, o in enumerate(applied.outcomes) if o.state == "applied"]
    position = search = 0
    for change in sorted(
        (change for change in changes if isinstance(change, Change)), key=lambda change: change.order
    ):
        kept = before.text[position : change.start]
        assert applied.document.text.startswith(kept, search)
        # An insertion may get a newline before it; what follows it is part of the next comparison.
        content = change.content.removesuffix(before.newline) if change.inserts else change.content
        search = applied.document.text.index(content, search + len(kept)) + len(content)
        if (
            change.inserts
            and applied.document.text.startswith(before.newline, search)
            and change.start < len(before.text)
        ):
            search += len(before.newline)
        position = change.end
    assert applied.document.text.endswith(before.text[position:])


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_the_order_of_a_patch_does_not_matter_where_edits_do_not_meet(data: st.DataObject) -> None:
    document, patch = data.draw(cases())
    first = apply(patch, document)
    states = [outcome.state for outcome in first.outcomes]
    assume("conflict" not in states and "duplicate" not in states)
    finder = _Finder(document)
    points = [
        change.start
        for edit in patch
        if isinstance(change := finder.resolve(0, edit), Change) and change.inserts
    ]
    assume(len(points) == len(set(points)))
    order = data.draw(st.permutations(range(len(patch))))
    second = apply([patch[index] for index in order], document)
    assert second.document == first.document
    assert [outcome.state for outcome in second.outcomes] == [states[index] for index in order]


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(documents(), st.sampled_from(["slow_update", "appendix"]), TEXTS)
def test_a_region_can_be_set_read_and_removed(document: Document, name: RegionName, content: str) -> None:
    assume(not problem_with(content.replace("\r\n", "\n").replace("\r", "\n")))
    bare = document.with_region(name, "")
    # A carriage return as the very last byte cannot be told from half of the newline that a region needs
    # before it.
    assume(not bare.text.endswith("\r"))
    grown = bare.with_region(name, content)
    expected = content.replace("\r\n", "\n").replace("\r", "\n")
    assert (grown.region(name) or "") == (expected.strip("\n") if expected.strip() else "")
    assert grown.with_region(name, "") == bare
    other: RegionName = "appendix" if name == "slow_update" else "slow_update"
    assert grown.region(other) == document.region(other)
    assert grown.frontmatter.rstrip() == document.frontmatter.rstrip()


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(documents())
def test_rendering_drops_nothing_but_markers(document: Document) -> None:
    if not document.layout.regions:
        assert document.rendered == document.text
    head = document.append_point
    assert document.rendered.startswith(document.text[:head].removesuffix("\n").removesuffix("\r"))
    assert Document(document.text) == document
    assert document.text.encode().decode() == document.text


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.text(),
)
def test_no_proposal_is_too_strange_to_be_read(obj: object, op: str) -> None:
    for proposal in (
        obj,
        {"op": op, "target": obj, "content": obj},
        {"op": "replace", "target": "a", "content": obj},
    ):
        assert apply([parse_edit(proposal, "i")], Document("a b\n")).outcomes[0].edit.id == "i"
