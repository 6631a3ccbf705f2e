"""Our block of a text file goes in and out without moving anything of the person's."""

from __future__ import annotations

import pytest

from skillopt.changes.block import has_lines, with_lines, without_lines
from skillopt.errors import UsageError

OURS = '[mcp_servers.skillopt]\ncommand = "x"'


@pytest.mark.parametrize("text", ["", "\ufeff", "one\n", "one", "one\r\ntwo\r\n", "one\n\n\n", "ünï\r\n\r\n"])
@pytest.mark.parametrize("style", ["markdown", "hash"])
def test_the_block_stands_alone_at_the_end_and_comes_out(text: str, style: str) -> None:
    after = with_lines(text, OURS, style)  # type: ignore[arg-type]
    assert after.startswith(text)
    assert has_lines(after, OURS)
    assert ("\r\n" in after) == ("\r\n" in text)
    left = without_lines(after, OURS, style)  # type: ignore[arg-type]
    assert left in (text, f"{text}\n")  # a last line that was open is closed


def test_what_others_wrote_around_and_between_the_markers_stays() -> None:
    after = with_lines("one = 1\n", OURS, "hash")
    end = "# skillopt plugin: end\n"
    mixed = after.replace(end, '\n[mcp_servers.theirs]\ncommand = "y"\n' + end) + "[later]\n"
    assert without_lines(mixed, OURS, "hash") == 'one = 1\n\n[mcp_servers.theirs]\ncommand = "y"\n[later]\n'


def test_our_lines_are_found_without_a_marker() -> None:
    """Codex itself loses the first one when it adds a server."""
    text = f'[mcp_servers.theirs]\ncommand = "y"\n\n{OURS}\n\n[other]\n# skillopt plugin: end\n'
    assert has_lines(text, OURS)
    assert without_lines(text, OURS, "hash") == '[mcp_servers.theirs]\ncommand = "y"\n\n\n[other]\n'


def test_lines_of_ours_that_were_changed_or_built_upon_are_not_taken_out() -> None:
    after = with_lines("one = 1\n", OURS, "hash")
    assert without_lines(after.replace('"x"', '"z"'), OURS, "hash") is None
    assert (
        without_lines(after.replace("# skillopt plugin: end", "startup_timeout_sec = 9"), OURS, "hash")
        is None
    )
    assert without_lines("one = 1\n", OURS, "hash") is None
    assert without_lines(after + after, OURS, "hash") is None


@pytest.mark.parametrize(
    "text",
    [
        "<!-- skillopt plugin: begin -->\n",
        "<!-- skillopt plugin: end -->\n<!-- skillopt plugin: begin -->\n",
        "<!-- skillopt plugin: begin -->\nother\n<!-- skillopt plugin: end -->\n",
        "# Code\n\n```sh\nnever closed\n",
    ],
)
def test_where_a_block_would_not_be_one_it_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        with_lines(text, OURS, "markdown")
