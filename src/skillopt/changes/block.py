"""Our lines in a text file of the person's, between two marker lines, with every byte around them kept.

There are two kinds. In a memory file (CLAUDE.md, AGENTS.md ...) nights keep what they *learned*; that block
is found by its markers and rewritten where it stands. An installed plugin adds fixed *lines*; these are found
by their own content, because an agent that writes its settings anew may lose a marker, or put somebody's
lines between them.
"""

from __future__ import annotations

import re
from typing import Literal

from skillopt.errors import SkillError, UsageError
from skillopt.skill.document import newline_of, to_lf
from skillopt.skill.layout import BOM, leaves_fence_open

START = "<!-- SKILLOPT-SLEEP:LEARNED START -->"
END = "<!-- SKILLOPT-SLEEP:LEARNED END -->"
Style = Literal["markdown", "hash"]
"""How a file writes a comment: as Markdown does, or from `#` to the end of the line, as TOML does."""
_ANY = re.compile(r"<!--\s*SKILLOPT-SLEEP:LEARNED\s+(?:START|END)\s*-->", re.IGNORECASE)
_MARKER = re.compile(rf"^[ \t\ufeff]*({START}|{END})[ \t]*\r?$\n?", re.MULTILINE)
_MARKS = {
    "markdown": ("<!-- skillopt plugin: begin -->", "<!-- skillopt plugin: end -->"),
    "hash": ("# skillopt plugin: begin", "# skillopt plugin: end"),
}
_OPEN_END = "ends inside a code block that is never closed, so our block would be code. Close it first"
_LINE_END = r"[ \t]*(?:\r?\n|\Z)"


def learned(text: str) -> str | None:
    """What nights wrote into a memory file, with LF line ends and no blank lines around; None for no block.

    Raises `SkillError` naming the line when the markers do not pair up.
    """
    found = _find(text)
    return None if found is None else to_lf(text[found[0].end() : found[1].start()]).strip("\n")


def with_learned(text: str, content: str) -> str:
    """The memory file with its block set, byte for byte the same elsewhere; blank content removes the block.

    A new block goes to the end of the file. Removing it again gives the first text back. Raises `SkillError`
    for content that could end the block or reach out of it.
    """
    found = _find(text)
    content = to_lf(content).strip("\n") if content.strip() else ""
    if _ANY.search(content):
        raise SkillError(
            "The text for a memory file holds a marker of our block, which would end it. Take that line out."
        )
    if leaves_fence_open(content):
        raise SkillError("The text for a memory file holds a code block that is not closed. Close it.")
    newline = newline_of(text)
    if found is not None:
        begin, end = found
        if not content:
            return _without(text, begin.start(), end.end())
        if to_lf(text[begin.end() : end.start()]).strip("\n") == content:
            return text
        return text[: begin.end()] + content.replace("\n", newline) + newline + text[end.start() :]
    if not content:
        return text
    if leaves_fence_open(text):
        raise SkillError(f"The memory file {_OPEN_END}.")
    return _appended(text, START, content, END)


def with_lines(text: str, content: str, style: Style) -> str:
    """The text with our lines at its end. Raises `UsageError` where they are there or do not fit there."""
    if any(re.search(_pattern(mark), text) for mark in _MARKS[style]):
        raise UsageError(
            "already has a block of ours that reads differently. Take it out, markers included"
            f" ({_MARKS[style][0]})"
        )
    if style == "markdown" and leaves_fence_open(text):
        raise UsageError(_OPEN_END)
    begin, end = _MARKS[style]
    return _appended(text, begin, content.strip("\n"), end)


def has_lines(text: str, content: str) -> bool:
    """Whether our lines are in the text, exactly and once."""
    return len(re.findall(_pattern(content), text)) == 1


def without_lines(text: str, content: str, style: Style) -> str | None:
    """The text without our lines and markers; None where these are gone or were changed."""
    found = re.search(_pattern(content), text)
    if found is None or not has_lines(text, content):
        return None
    before, after = text[: found.start()], text[found.end() :]
    following = re.search(r"(?m)^[ \t]*([^\s#])", after)
    if style == "hash" and following is not None and following[1] != "[":
        return None  # a line that somebody added to our table would become a line of the table before it
    begin, end = map(_pattern, _MARKS[style])
    # The blank line that came with the block goes with it.
    before = re.sub(rf"(?<=\n)\r?\n{re.escape(_MARKS[style][0])}{_LINE_END}\Z", "", before)
    return re.sub(begin, "", before) + re.sub(end, "", re.sub(begin, "", after))


def _appended(text: str, begin: str, content: str, end: str) -> str:
    newline = newline_of(text)
    lines = newline.join((begin, content.replace("\n", newline), end))
    if not text.removeprefix(BOM):
        return text + lines + newline
    # An open last line stays open behind the block, so that taking the block out gives the same bytes back.
    return text + newline + lines + newline if text.endswith("\n") else text + newline + newline + lines


def _find(text: str) -> tuple[re.Match[str], re.Match[str]] | None:
    """The two marker lines of our block. Markers count alone on their line and outside the person's code
    blocks; between ours, everything is content.
    """
    begun: re.Match[str] | None = None
    block: tuple[re.Match[str], re.Match[str]] | None = None
    outside, position = "", 0
    for marker in _MARKER.finditer(text):
        line = text.count("\n", 0, marker.start()) + 1
        if begun is None:
            outside, position = outside + text[position : marker.start()], marker.start()
            if leaves_fence_open(outside):
                continue  # an example in a code block
        if marker[1] == START:
            if begun is not None or block is not None:
                raise _malformed(line, START, "starts our block a second time")
            begun = marker
        elif begun is None:
            raise _malformed(line, END, "ends a block that no start marker begins")
        else:
            block, begun, position = (begun, marker), None, marker.end()
    if begun is not None:
        line = text.count("\n", 0, begun.start()) + 1
        raise _malformed(line, START, "has no end marker after it")
    return block


def _without(text: str, start: int, end: int) -> str:
    before, after = text[:start], text[end:]
    if after or not before.removeprefix(BOM):
        return before + after
    # At the end of the file, also what was put between the person's last line and the block.
    newline = "\r\n" if before.endswith("\r\n") else "\n"
    shorter = before.removesuffix(newline)
    if text.endswith("\n"):
        return shorter if shorter.endswith("\n") else before
    return shorter.removesuffix(newline)


def _malformed(number: int, marker: str, problem: str) -> SkillError:
    return SkillError(
        f"Line {number}: {marker} {problem}. Restore its partner, or take the stray marker line out."
    )


def _pattern(content: str) -> str:
    """A pattern of whole lines, whatever their ends are."""
    lines = map(re.escape, content.strip("\n").split("\n"))
    return r"(?m)(?:^|(?<=\A\ufeff))" + r"\r?\n".join(lines) + _LINE_END
