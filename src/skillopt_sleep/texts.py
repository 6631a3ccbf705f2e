"""A text merged with its proposed edits, so that each edit can be taken or left by itself.

A training run leaves a chain of texts, one for each edit that was applied. The merged text holds every line
of the first and of the last of them once, each marked with the edit that adds it or cuts it. So any choice of
edits has exactly one text, no edit has to be applied anew, and lines that no edit touched are never written
by anybody. Edits that rewrote each other's lines become one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from skillopt.changes import StoredRecord
from skillopt.errors import SkillError
from skillopt.skill.document import newline_of, to_lf
from skillopt.skill.layout import BOM, leaves_fence_open

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Segment(StoredRecord):
    """Lines that belong together: kept by all, added by an edit, or cut by one. `edit` is 0 for kept."""

    kind: Literal["keep", "add", "cut"]
    edit: int
    text: str


class MergedText(StoredRecord):
    """The merged text. All its lines end; `open_*` say whether the real texts lack their last newline."""

    segments: tuple[Segment, ...]
    newline: str
    open_before: bool
    open_after: bool

    @property
    def edits(self) -> tuple[int, ...]:
        """The numbers of the edits, in the order in which they stand in the text."""
        return tuple(dict.fromkeys(segment.edit for segment in self.segments if segment.edit))

    def text(self, chosen: Collection[int]) -> str:
        """The text with these edits and without the others."""
        taken = frozenset(chosen)
        text = "".join(
            segment.text
            for segment in self.segments
            if segment.kind == "keep" or (segment.kind == "add") == (segment.edit in taken)
        )
        is_open = self.open_after if taken & set(self.edits) else self.open_before
        return text.removesuffix(self.newline) if is_open else text

    def part(self, edit: int) -> tuple[str, str]:
        """What one edit cuts and what it adds."""
        cut, added = (
            "".join(segment.text for segment in self.segments if (segment.kind, segment.edit) == (kind, edit))
            for kind in ("cut", "add")
        )
        return cut, added


def merge(
    texts: Sequence[str], *, newline: str, first: int = 1
) -> tuple[MergedText, Mapping[int, tuple[int, ...]], Mapping[int, tuple[int, ...]]]:
    """Merge a chain of texts, the first as it is. Edits are numbered from `first`, in document order. Of each
    edit also its positions in the chain, and the edits that it stands inside of.
    """
    chains = [_LINE.findall(text + newline if _is_open(text) else text) for text in texts]
    tokens = [_Token(line) for line in chains[0]]
    joined = _Joined()
    for step, lines in enumerate(chains[1:], 1):
        tokens = _stepped(tokens, lines, step, joined)
    owners = [(token, joined.root(token.step) if token.step else 0) for token in tokens]
    numbers: dict[int, int] = {}
    for token, owner in owners:
        if token.kind != "keep":
            numbers.setdefault(owner, first + len(numbers))
    segments = [
        Segment(
            kind=kind, edit=numbers[owner] if owner else 0, text="".join(token.line for token, _ in group)
        )
        for (kind, owner), group in groupby(owners, key=lambda pair: (pair[0].kind, pair[1]))
    ]
    sources = {
        number: tuple(step for step in range(1, len(texts)) if joined.root(step) == owner)
        for owner, number in numbers.items()
    }
    made = MergedText(
        segments=tuple(segments),
        newline=newline,
        open_before=_is_open(texts[0]),
        open_after=_is_open(texts[-1]),
    )
    return made, sources, _needs(segments, sources)


@dataclass(frozen=True, slots=True)
class _Token:
    """A line, and the step that added or cut it."""

    line: str
    kind: Literal["keep", "add", "cut"] = "keep"
    step: int = 0


class _Joined:
    """Steps that belong to one edit."""

    def __init__(self) -> None:
        self._up: dict[int, int] = {}

    def root(self, step: int) -> int:
        while (above := self._up.get(step, step)) != step:
            step = above
        return step

    def join(self, step: int, other: int) -> None:
        low, high = sorted((self.root(step), self.root(other)))
        if low != high:
            self._up[high] = low


def _stepped(tokens: Sequence[_Token], lines: Sequence[str], step: int, joined: _Joined) -> list[_Token]:
    """The tokens after one more text; what was cut earlier keeps its place."""
    living = [place for place, token in enumerate(tokens) if token.kind != "cut"]
    result: list[_Token] = []
    position = 0

    def carry(until: int) -> None:
        nonlocal position
        result.extend(tokens[position:until])
        position = until

    matcher = SequenceMatcher(None, [tokens[place].line for place in living], lines, autojunk=False)
    for what, low, high, new_low, new_high in matcher.get_opcodes():
        if what == "equal":
            carry(living[high - 1] + 1)
            continue
        for place in living[low:high]:
            carry(place)
            token = tokens[place]
            position += 1
            if token.kind == "add":
                joined.join(step, token.step)
            else:
                result.append(_Token(token.line, "cut", step))
        result.extend(_Token(line, "add", step) for line in lines[new_low:new_high])
    carry(len(tokens))
    return result


def _needs(segments: Iterable[Segment], sources: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """An edit inside the text of another needs it: of the two, the later needs the earlier."""
    needs: dict[int, set[int]] = {edit: set() for edit in sources}
    for is_kept, run in groupby(segments, key=lambda segment: segment.kind == "keep"):
        added = [] if is_kept else [segment.edit for segment in run if segment.kind == "add"]
        for outer in set(added):
            low, high = added.index(outer), len(added) - 1 - added[::-1].index(outer)
            for inner in set(added[low:high]) - {outer}:
                earlier, later = sorted((outer, inner), key=lambda edit: max(sources[edit]))
                needs[later].add(earlier)
    return {edit: tuple(sorted(needed)) for edit, needed in needs.items() if needed}


def _is_open(text: str) -> bool:
    return bool(text) and not text.endswith("\n")


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
