"""Our block of a text file: decides where it stands between its two marker lines, and keeps every byte around
it.

The markers are for people. What is taken out is found by our own lines: a program that writes the file anew
may lose a marker, or put somebody's lines between them.
"""

from __future__ import annotations

import re
from typing import Literal

from skillopt.errors import UsageError
from skillopt.skill.layout import BOM, leaves_fence_open

Style = Literal["markdown", "hash"]
"""How the file writes a comment: as Markdown does, or from `#` to the end of the line, as TOML does."""
_MARKS = {
    "markdown": ("<!-- skillopt plugin: begin -->", "<!-- skillopt plugin: end -->"),
    "hash": ("# skillopt plugin: begin", "# skillopt plugin: end"),
}
_END = r"[ \t]*(?:\r?\n|\Z)"
_START = r"(?m)(?:^|(?<=\A\ufeff))"


def with_block(text: str, content: str, style: Style) -> str:
    """The text with our block at its end. Raises `UsageError` where one is there already or the end of the
    file is no place for it.
    """
    if any(re.search(_line(mark), text) for mark in _MARKS[style]):
        raise UsageError(
            "already has a block of ours that reads differently. Take it out, markers included"
            f" ({_MARKS[style][0]})"
        )
    if style == "markdown" and leaves_fence_open(text):
        raise UsageError(
            "ends inside a code block that is never closed, so our block would be code. Close it first"
        )
    begin, end = _MARKS[style]
    newline = "\r\n" if 0 < text.count("\n") <= 2 * text.count("\r\n") else "\n"
    lines = newline.join((begin, content.strip("\n").replace("\n", newline), end)) + newline
    if not text.removeprefix(BOM):
        return text + lines
    return text + ("" if text.endswith("\n") else newline) + newline + lines


def has_block(text: str, content: str) -> bool:
    """Whether our lines are in the text, exactly and once."""
    return len(re.findall(_line(content), text)) == 1


def without_block(text: str, content: str, style: Style) -> str | None:
    """The text without our lines and markers; None where our lines are gone or changed, so that nothing can
    be taken out safely.
    """
    found = re.search(_line(content), text)
    if found is None or not has_block(text, content):
        return None
    before, after = text[: found.start()], text[found.end() :]
    following = re.search(r"(?m)^[ \t]*([^\s#])", after)
    if style == "hash" and following is not None and following[1] != "[":
        return None  # a line that somebody added to our table would become a line of the table before it
    begin, end = map(_line, _MARKS[style])
    # The blank line that came with the block goes with it.
    before = re.sub(rf"(?<=\n)\r?\n{re.escape(_MARKS[style][0])}{_END}\Z", "", before)
    return re.sub(begin, "", before) + re.sub(end, "", re.sub(begin, "", after))


def _line(content: str) -> str:
    """A pattern of whole lines, whatever their ends are."""
    return _START + r"\r?\n".join(map(re.escape, content.strip("\n").split("\n"))) + _END
