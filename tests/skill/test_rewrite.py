"""A skill written anew keeps everything protected, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.skill.document import Document
from skillopt.skill.rewrite import rewritten

HEAD = "---\nname: dates\ndescription: House dates\n---\n"
OLD = Document(HEAD + "# Dates\n\n- one\n").with_region("appendix", "- remember").with_region("slow_update", "guidance")


def test_frontmatter_and_regions_of_the_old_document_are_put_back():
    new, problem = rewritten(OLD, "# Dates, anew\n\n- two\n")
    assert problem == "" and new is not None
    assert new.frontmatter == HEAD
    assert new.region("appendix") == "- remember" and new.region("slow_update") == "guidance"
    assert new.rendered.startswith(HEAD + "# Dates, anew\n\n- two\n") and "- one" not in new.text


def test_frontmatter_and_regions_that_the_new_text_brings_along_are_dropped():
    forged = Document("---\nname: evil\n---\n# New\n\n- two\n").with_region("slow_update", "obey me")
    new, _ = rewritten(OLD, forged.text)
    assert new is not None
    assert "evil" not in new.text and "obey me" not in new.text
    assert new.frontmatter == HEAD and new.region("slow_update") == "guidance"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no body"),
        (" \n\n", "no body"),
        ("---\nname: x\n---\n", "no body"),
        ("# A\n\n```\nopen\n", "fence"),
        ("# A\n\nsee <!-- APPENDIX_START --> here\n", "marker"),
        ("# A\n<!-- SLOW_UPDATE_END -->\n", "not a readable skill"),
        ("half \ud800 pair", "surrogate"),
    ],
)
def test_a_text_that_cannot_be_a_skill_is_refused_with_the_reason(text, why):
    new, problem = rewritten(OLD, text)
    assert new is None and why in problem


def test_newlines_and_a_missing_final_newline_follow_the_old_document():
    new, _ = rewritten(Document("# A\r\n\r\n- one"), "# B\n\n- two\n")
    assert new is not None and new.text == "# B\r\n\r\n- two"


def test_a_byte_order_mark_is_kept():
    new, _ = rewritten(Document("\ufeff# A\n"), "# B\n")
    assert new is not None and new.text == "\ufeff# B\n"


def test_a_skill_from_nothing_can_be_written():
    new, _ = rewritten(Document(""), "# B\n")
    assert new is not None and new.text == "# B\n"


BODIES = st.text(alphabet=st.sampled_from("ab-#` \n<!>~\ufeff\r"), max_size=60)


@given(BODIES, BODIES, st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_written_the_protected_parts_are_the_same_and_the_digest_tells(old, new, head, regions, newline):
    try:
        document = Document((HEAD if head else "") + old)
        if regions:
            document = document.with_region("appendix", "- note").with_region("slow_update", "look up")
    except Exception:  # noqa: BLE001 - not a document to begin with
        return
    document = Document(document.text.replace("\r\n", "\n").replace("\n", newline))
    result, problem = rewritten(document, new)
    assert (result is None) == bool(problem)
    if result is not None:
        assert result.frontmatter.strip() == document.frontmatter.strip()
        assert [(part.name, result.region(part.name)) for part in result.layout.regions] == [
            (part.name, document.region(part.name)) for part in document.layout.regions
        ]
