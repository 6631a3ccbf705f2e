from __future__ import annotations

import hashlib

import pytest

from skillopt.errors import SkillError, UnknownName
from skillopt.skill.document import Document, problem_with

S, E = "<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->"
A, Z = "<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->"
HEAD = "---\nname: demo\ndescription: >\n  folded\n---\n"


@pytest.mark.parametrize(
    ("text", "frontmatter"),
    [
        (HEAD + "# Body\n", HEAD),
        (HEAD.replace("\n", "\r\n") + "# Body\r\n", HEAD.replace("\n", "\r\n")),
        ("\ufeff" + HEAD + "x", "\ufeff" + HEAD),
        ("---\nname: x\n---", "---\nname: x\n---"),
        ("---  \nname: x\n--- \nbody", "---  \nname: x\n--- \n"),
        ("---\n---\nbody", "---\n---\n"),
        ("---\nnever closed\n", ""),
        ("---\nkey: |\n  ---\n  still inside\n---\nbody", "---\nkey: |\n  ---\n  still inside\n---\n"),
        ("\n---\nname: x\n---\n", ""),
        ("----\nname: x\n----\n", ""),
        ("# Only a body\n---\nx\n---\n", ""),
        ("", ""),
    ],
)
def test_frontmatter_is_what_stands_between_delimiter_lines_at_the_very_start(
    text: str, frontmatter: str
) -> None:
    document = Document(text)
    assert document.frontmatter == frontmatter
    assert document.frontmatter + document.body == text
    assert document.rendered == text


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        ("", "\n"),
        ("a", "\n"),
        ("a\nb\n", "\n"),
        ("a\r\nb\r\n", "\r\n"),
        ("a\r\nb\nc\n", "\n"),
        ("a\r\nb\n", "\r\n"),
    ],
)
def test_the_newline_is_the_one_most_lines_use(text: str, newline: str) -> None:
    assert Document(text).newline == newline


def test_the_target_gets_the_text_without_marker_lines() -> None:
    document = Document(f"{HEAD}# Body\n{A}\n## Notes\n- n\n{Z}\n{S}\nguidance\n{E}\n")
    assert document.rendered == f"{HEAD}# Body\n## Notes\n- n\nguidance\n"
    assert document.digest == hashlib.sha256(document.rendered.encode()).hexdigest()
    assert document.region("appendix") == "## Notes\n- n"
    assert document.region("slow_update") == "guidance"


@pytest.mark.parametrize("inner", ["", "\n", "  \n\n"])
@pytest.mark.parametrize("body", ["# Body\n", HEAD, "", HEAD + "x\n\n"])
def test_an_empty_region_leaves_no_trace_in_what_the_target_gets(body: str, inner: str) -> None:
    document = Document(f"{body}{S}\n{inner}{E}\n")
    assert document.rendered == body
    assert document.digest == Document(body).digest
    assert document.region("slow_update") == ""
    assert document.with_region("slow_update", "").text == body


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_empty_region_behind_a_last_line_without_newline_leaves_no_trace(newline: str) -> None:
    assert Document(f"a{newline}b{newline}{S}{newline}{E}").rendered == f"a{newline}b"


def test_protected_are_frontmatter_and_regions_with_their_markers() -> None:
    text = f"{HEAD}# Body\n{A}\nn\n{Z}\ntext between\n{S}\ng\n{E}"
    document = Document(text)
    assert [text[start:end] for start, end in document.protected] == [HEAD, f"{A}\nn\n{Z}\n", f"{S}\ng\n{E}"]
    assert Document("plain").protected == ()
    assert Document("\ufeffplain").protected == ((0, 1),)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff",
        "a",
        "a\n",
        HEAD,
        HEAD + "body",
        HEAD.rstrip(),
        "\ufeff" + HEAD + "ü\n\n",
        "```\nnever closed",
    ],
)
def test_setting_and_removing_a_region_gives_the_first_text_back(text: str, newline: str) -> None:
    first = Document(text.replace("\n", newline))
    content = "line one\n\n```py\ncode\n```\nline ü"
    slow = first.with_region("slow_update", content)
    assert slow.region("slow_update") == content
    assert slow.with_region("slow_update", " \n").text == first.text
    both = slow.with_region("appendix", "- note")
    assert both.region("slow_update") == content and both.region("appendix") == "- note"
    assert both.text.index(Z) < both.text.index(S), "the slow update stands at the tail"
    assert both.with_region("appendix", "").text == slow.text
    other_way_round = first.with_region("appendix", "- note").with_region("slow_update", content)
    assert other_way_round.rendered == both.rendered
    assert other_way_round.with_region("slow_update", "").with_region("appendix", "").text == first.text


def test_a_thematic_break_before_a_region_and_one_inside_it_are_no_frontmatter() -> None:
    document = Document("---\nintro").with_region("slow_update", "---\nguidance")
    assert document.frontmatter == ""
    assert document.region("slow_update") == "---\nguidance"


def test_setting_a_region_replaces_it_where_it_stands() -> None:
    document = Document(f"before\n\n{S}\nold\n{E}\nafter")
    assert document.with_region("slow_update", "new\n").text == f"before\n\n{S}\nnew\n{E}\nafter"
    assert document.with_region("slow_update", "old") is document
    assert document.with_region("slow_update", "").text == "before\n\nafter"


def test_a_region_takes_the_documents_newline() -> None:
    text = Document("a\r\n").with_region("slow_update", "x\ny\r\nz").text
    assert text.count("\n") == text.count("\r\n") == 6


@pytest.mark.parametrize(
    "content", [f"x {E}", "<!--appendix_start-->", "```\nopen", "~~~\n```", "half \ud800"]
)
def test_text_that_would_break_the_document_is_refused_as_a_region(content: str) -> None:
    assert problem_with(content)
    with pytest.raises(SkillError, match="slow_update"):
        Document("a\n").with_region("slow_update", content)


def test_an_unknown_region_is_named() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'slow_update'"):
        Document("").region("slow_updat")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a\n{S}\nb\n", rf"Line 2: {S} has no {E}"),
        (f"a\nb\n{E}\n", rf"Line 3: {E} ends a region that no"),
        (f"{S}\n{A}\n{Z}\n{E}\n", rf"Line 2: {A} stands inside the region that line 1 starts"),
        (f"{S}\n{S}\n{E}\n{E}\n", rf"Line 2: {S} stands inside"),
        (f"{S}\n{E}\n\n{S}\n{E}\n", rf"Line 4: {S} starts the same region a second time"),
        (f"{S}\n{Z}\n", rf"Line 2: {Z} stands inside"),
        (f"```\nnever closed\n{S}\n", rf"Line 3: {S} has no"),
    ],
)
def test_markers_that_do_not_pair_up_are_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(SkillError, match=message):
        Document(text)


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{S}\nshown\n{E}\n```\n",
        f"1. Step\n\n    ~~~md\n    {S}\n    ~~~\n",
        f"```\n{S}\n```\nand\n```\n{E}\n```\n",
        f"```\n{E}\n```\n",
        f"The `{S}` line starts a region; {E} ends it.\n",
        f"```\n{S}\n{S}\n{A}\n```\n",
    ],
)
def test_an_example_of_a_marker_is_text(text: str) -> None:
    document = Document(text)
    assert document.protected == ()
    assert document.rendered == text
    grown = document.with_region("slow_update", "real")
    assert grown.region("slow_update") == "real"
    assert grown.rendered.startswith(text)


def test_a_fence_that_is_never_closed_hides_no_region() -> None:
    document = Document(f"```\ncode\n{A}\nnote\n{Z}\n{S}\n```py\nx\n```\n{E}\n")
    assert document.region("appendix") == "note"
    assert document.region("slow_update") == "```py\nx\n```"


def test_a_text_that_utf8_cannot_hold_is_refused() -> None:
    with pytest.raises(SkillError, match="surrogate"):
        Document("half \udc00")


@pytest.mark.parametrize(
    "text",
    [
        "```\n" * 60_000,
        "```py\n" * 60_000,
        f"```\n{S}\n```\n" * 20_000,
        f"```\n{'x'.join([S + chr(10)] * 20_000)}```\n",
        " " * 1_000_000,
        "``` " * 250_000,
    ],
)
@pytest.mark.timeout(30)
def test_strange_large_documents_are_read_in_linear_time(text: str) -> None:
    assert Document(text).rendered == text
