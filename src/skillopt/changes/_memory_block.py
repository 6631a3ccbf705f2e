"""Our block of a memory file: decides where it stands, and keeps every byte around it.

A memory file (CLAUDE.md, AGENTS.md, copilot-instructions.md, a Cursor rule) is the person's. Between two
marker lines lies what nights learned, as plain Markdown: nothing of it is parsed into rules, so a rule may
have as many lines as it wants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from skillopt.errors import SkillError
from skillopt.skill.document import to_lf
from skillopt.skill.layout import BOM, leaves_fence_open

START = "<!-- SKILLOPT-SLEEP:LEARNED START -->"
END = "<!-- SKILLOPT-SLEEP:LEARNED END -->"
_NAMES = frozenset(
    {
        "claude.md",
        "claude.local.md",
        "agents.md",
        "agents.override.md",
        "gemini.md",
        "copilot-instructions.md",
        ".cursorrules",
    }
)
_ANY = re.compile(r"<!--\s*SKILLOPT-SLEEP:LEARNED\s+(?:START|END)\s*-->", re.IGNORECASE)
_FENCE = re.compile(r"(?:\A\ufeff)?[ \t]*(`{3,}|~{3,})([^\n]*)")


def is_memory_file(path: PurePath) -> bool:
    """Whether an agent reads this file into every conversation, by its name and place."""
    in_rules = path.parent.name == "rules" and path.parent.parent.name in (".cursor", ".devin")
    instructions = path.parent.name == "instructions" and path.name.endswith(".instructions.md")
    return path.name.casefold() in _NAMES or instructions or (in_rules and path.suffix in (".md", ".mdc"))


def block(text: str) -> str | None:
    """What stands in our block, with LF line ends and without blank lines around it; None when there is no
    block.

    Raises `SkillError` naming the line when the markers do not pair up.
    """
    found = _find(text)
    return None if found is None else to_lf(text[found.inner_start : found.inner_end]).strip("\n")


def with_block(text: str, content: str) -> str:
    """The same file with our block set, byte for byte the same elsewhere; blank content takes the block out.

    A new block goes to the end of the file. Taking it out again gives the first text back. Raises
    `SkillError` for content that could end the block or reach out of it.
    """
    found = _find(text)
    content = to_lf(content).strip("\n") if content.strip() else ""
    if _ANY.search(content):
        raise SkillError(
            "The text for a memory file holds a marker of our block, which would end it early. Take that line"
            " out."
        )
    if leaves_fence_open(content):
        raise SkillError("The text for a memory file holds a code block that is not closed. Close it.")
    newline = "\r\n" if 0 < text.count("\n") <= 2 * text.count("\r\n") else "\n"
    if found is not None:
        if not content:
            return _without(text, found)
        if to_lf(text[found.inner_start : found.inner_end]).strip("\n") == content:
            return text
        return text[: found.inner_start] + content.replace("\n", newline) + newline + text[found.inner_end :]
    if not content:
        return text
    lines = newline.join((START, content.replace("\n", newline), END))
    if not text.removeprefix(BOM):
        return text + lines + newline
    if leaves_fence_open(text):
        raise SkillError(
            "The memory file ends inside a code block that is never closed, so our block would be code. Close"
            " it first."
        )
    # An open last line stays open behind the block, so that taking the block out gives the same bytes back.
    return text + newline + lines + newline if text.endswith("\n") else text + newline + newline + lines


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    start: int
    inner_start: int
    inner_end: int
    end: int


def _find(text: str) -> _Span | None:
    """Markers count alone on their line and outside the person's code blocks; between ours, everything is
    content.
    """
    opened: re.Match[str] | None = None
    span: _Span | None = None
    begun: tuple[int, int, int] | None = None
    offset = 0
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), 1):
        bare = line.strip(" \t\r\n" + BOM)
        fence = _FENCE.match(line) if begun is None else None
        if opened is not None:
            if fence is not None and fence[1].startswith(opened[1]) and not fence[2].strip():
                opened = None
        elif fence is not None and not (fence[1][0] == "`" and "`" in fence[2]):
            opened = fence
        elif bare == START:
            if begun is not None or span is not None:
                raise _malformed(number, START, "starts our block a second time")
            begun = (offset, offset + len(line), number)
        elif bare == END:
            if begun is None:
                raise _malformed(number, END, "ends a block that no start marker begins")
            span = _Span(start=begun[0], inner_start=begun[1], inner_end=offset, end=offset + len(line))
            begun = None
        offset += len(line)
    if begun is not None:
        raise _malformed(begun[2], START, "has no end marker after it")
    return span


def _without(text: str, found: _Span) -> str:
    before, after = text[: found.start], text[found.end :]
    if after or not before.removeprefix(BOM):
        return before + after
    # At the end of the file, also what `with_block` put between the person's last line and the block.
    newline = "\r\n" if before.endswith("\r\n") else "\n"
    shorter = before.removesuffix(newline)
    if text.endswith("\n"):
        return shorter if shorter.endswith("\n") else before
    return shorter.removesuffix(newline)


def _malformed(number: int, marker: str, problem: str) -> SkillError:
    return SkillError(
        f"Line {number}: {marker} {problem}. Restore its partner, or take the stray marker line out."
    )
