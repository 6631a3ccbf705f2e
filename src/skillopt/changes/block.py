"""The block of a memory file (CLAUDE.md, AGENTS.md ...) in which nights keep what they learned."""

from __future__ import annotations

import re

from skillopt.errors import SkillError
from skillopt.skill.document import newline_of, to_lf
from skillopt.skill.layout import BOM, leaves_fence_open

START = "<!-- SKILLOPT-SLEEP:LEARNED START -->"
END = "<!-- SKILLOPT-SLEEP:LEARNED END -->"
_ANY = re.compile(r"<!--\s*SKILLOPT-SLEEP:LEARNED\s+(?:START|END)\s*-->", re.IGNORECASE)
_MARKER = re.compile(rf"^[ \t\ufeff]*({START}|{END})[ \t]*\r?$\n?", re.MULTILINE)


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
        raise SkillError(
            "The memory file ends inside a code block that is never closed, so our block would be code. Close"
            " it first."
        )
    return _appended(text, START, content, END)


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
