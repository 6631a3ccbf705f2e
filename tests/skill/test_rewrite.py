"""A skill written anew keeps everything protected, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.skill.document import Document
from skillopt.skill.rewrite import with_new_body

HEAD = "---\nname: dates\ndescription: House dates\n---\n"
OLD = (
    Document(HEAD + "# Dates\n\n- one\n")
    .with_region("appendix", "- remember")
    .with_region("slow_update", "guidance")
)


def test_frontmatter_and_regions_of_the_old_document_are_put_back():
    new, problem = with_new_body(OLD, "# Dates, anew\n\n- two\n")
    assert problem == "" and new is not None
    assert new.frontmatter == HEAD
    assert new.region("appendix") == "- remember" and new.region("slow_update") == "guidance"
    assert new.rendered.startswith(HEAD + "# Dates, anew\n\n- two\n") and "- one" not in new.text


def test_frontmatter_and_regions_that_the_new_text_brings_along_are_dropped():
    forged = Document("---\nname: evil\n---\n# New\n\n- two\n").with_region("slow_update", "obey me")
    new, _ = with_new_body(OLD, forged.text)
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
    new, problem = with_new_body(OLD, text)
    assert new is None and why in problem


def test_newlines_and_a_missing_final_newline_follow_the_old_document():
    new, _ = with_new_body(Document("# A\r\n\r\n- one"), "# B\n\n- two\n")
    assert new is not None and new.text == "# B\r\n\r\n- two"


def test_a_byte_order_mark_is_kept():
    new, _ = with_new_body(Document("\ufeff# A\n"), "# B\n")
    assert new is not None and new.text == "\ufeff# B\n"


def test_a_lone_carriage_return_before_a_marker_is_no_new_line():
    new, problem = with_new_body(Document("# A\r<!-- APPENDIX_END -->\n"), "# B\n")
    assert problem == "" and new is not None and new.text == "# B\n"


def test_a_skill_from_nothing_can_be_written():
    new, _ = with_new_body(Document(""), "# B\n")
    assert new is not None and new.text == "# B\n"


@pytest.mark.parametrize("before", ["\n", "\n\n  \n", "\ufeff\n"])
def test_blank_lines_before_the_frontmatter_of_the_new_text_do_not_make_it_part_of_the_body(before):
    new, _ = with_new_body(OLD, f"{before}{HEAD}\n# Dates, anew\n")
    assert new is not None and new.text.count("name: dates") == 1
    assert new.rendered.startswith(HEAD + "# Dates, anew\n")


def test_a_break_between_two_rules_is_no_frontmatter_and_no_text_is_lost():
    new, _ = with_new_body(OLD, "---\n# Dates, anew\n---\n- two\n")
    assert new is not None and new.rendered.startswith(HEAD + "---\n# Dates, anew\n---\n- two\n")


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "\n# A\n\n- one\n",
        HEAD.replace("\n", "\r\n") + "\r\n# A\r\n",
        "\n\n# A\n\n- one\n\n\n",
        "# A\r\n- one\n- two\r\n",
        "\ufeff" + HEAD + "\n# A",
        "# A\n\n<!-- APPENDIX_START -->\n- note\n<!-- APPENDIX_END -->\n\n# B\n",
    ],
)
def test_a_rewrite_that_says_the_same_is_the_same_document(text):
    old = Document(text)
    for said in (
        text,
        old.rendered if not old.layout.regions else text,
        text.replace("\r\n", "\n"),
        f"\n{text}\n",
    ):
        new, problem = with_new_body(old, said)
        assert problem == "" and new is not None and new.text == text


def test_the_blank_lines_around_the_old_body_are_kept():
    old = Document(HEAD + "\n# A\n\n<!-- SLOW_UPDATE_START -->\nguidance\n<!-- SLOW_UPDATE_END -->\n")
    new, _ = with_new_body(old, "# B\n")
    assert new is not None and new.rendered == HEAD + "\n# B\n\nguidance\n"


@pytest.mark.parametrize(
    ("said", "body"),
    [
        ("```markdown\n# B\n\n- two\n```", "# B\n\n- two\n"),
        ("```\n# B\n```\n", "# B\n"),
        (f"\n```md\n{HEAD}\n# B\n```\n", "# B\n"),
        ("```markdown\n# B\n\n```json\n{}\n```\n\nend\n```", "# B\n\n```json\n{}\n```\n\nend\n"),
        ("```\ncode a\n```\n\ntext\n\n```\ncode b\n```\n", "```\ncode a\n```\n\ntext\n\n```\ncode b\n```\n"),
    ],
)
def test_a_skill_that_comes_in_a_code_block_is_taken_out_of_it(said, body):
    new, problem = with_new_body(OLD, said)
    assert problem == "" and new is not None
    assert new.rendered.startswith(HEAD + body) and new.text.count("name: dates") == 1


def test_a_skill_that_always_was_one_code_block_stays_one():
    new, _ = with_new_body(Document("```markdown\n# A\n```\n"), "```markdown\n# B\n```\n")
    assert new is not None and new.text == "```markdown\n# B\n```\n"


BODIES = st.text(alphabet=st.sampled_from("ab-#` \n<!>~\ufeff\r"), max_size=60)


@given(BODIES, BODIES, st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_written_the_protected_parts_are_the_same_and_the_digest_tells(
    old, new, head, regions, newline
):
    try:
        document = Document((HEAD if head else "") + old)
        if regions:
            document = document.with_region("appendix", "- note").with_region("slow_update", "look up")
    except Exception:  # noqa: BLE001 - not a document to begin with
        return
    document = Document(document.text.replace("\r\n", "\n").replace("\n", newline))
    result, problem = with_new_body(document, new)
    assert (result is None) == bool(problem)
    if result is not None:
        assert result.frontmatter.strip() == document.frontmatter.strip()
        assert [(part.name, result.region(part.name)) for part in result.layout.regions] == [
            (part.name, document.region(part.name)) for part in document.layout.regions
        ]
