"""Puts changes into a document's text, and decides whether it still reads the same around them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.errors import SkillError
from skillopt.skill.document import Document
from skillopt.skill.layout import BOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A span of the old text with its new content; `inserts`: a point, where that has own lines."""

    index: int
    start: int
    end: int
    content: str
    inserts: bool = False
    anchor: tuple[int, int] | None = None
    """The span of text an insertion is placed by."""

    @property
    def order(self) -> tuple[int, int, int]:
        """Document order; points at one place keep patch order and come before a span that begins there."""
        return (self.start, self.end, self.index)

    def conflicts_with(self, other: Change) -> bool:
        """True when the spans overlap, or one is a point inside the other's span or anchored in it."""
        if self.inserts and other.inserts:
            return False
        if not self.inserts and not other.inserts:
            return self.start < other.end and other.start < self.end
        point, span = (self, other) if self.inserts else (other, self)
        anchored = point.anchor is not None and point.anchor[0] < span.end and span.start < point.anchor[1]
        return anchored or span.start < point.start < span.end


def rebuild(document: Document, changes: Sequence[Change]) -> Document | None:
    """The document with these changes, given in document order.

    None when frontmatter, a region or a fence line outside the changed spans would no longer mean what it
    meant: an edit beside a fence line can glue text to it, and two harmless ones can make a new one.
    """
    text, resumes = _assemble(document, changes)
    if text == document.text:
        return document
    try:
        new = replace(document, text=text)
    except SkillError:
        return None
    return new if _same_protected(document, new) and _same_fences(document, new, changes, resumes) else None


def _assemble(document: Document, changes: Sequence[Change]) -> tuple[str, list[tuple[int, int]]]:
    """The new text, and for each change where the old text goes on: (old offset, new offset)."""
    text, newline = document.text, document.newline
    pieces: list[str] = []
    resumes: list[tuple[int, int]] = []
    position = length = 0
    last = ""

    def emit(piece: str) -> None:
        nonlocal length, last
        if piece:
            pieces.append(piece)
            length += len(piece)
            last = piece

    # A document without a final newline keeps having none when something is added behind its last line.
    is_open_ended = not text.endswith("\n") and text not in ("", BOM)
    for change in changes:
        emit(text[position : change.start])
        if change.inserts:
            if last and not last.endswith("\n") and (last, length) != (BOM, 1):
                emit(newline)
            emit(change.content.removesuffix(newline))
            if not (is_open_ended and change.start == len(text)):
                emit(newline)
        else:
            emit(change.content)
        position = change.end
        resumes.append((change.end, length))
    emit(text[position:])
    return "".join(pieces), resumes


def _same_protected(old: Document, new: Document) -> bool:
    heads = {old.frontmatter}
    if old.frontmatter and not old.body:
        # Text behind a closing `---` without a newline needs one.
        heads.add(old.frontmatter + old.newline)
    regions = [
        [(part.name, side.text[part.start : part.end]) for part in side.layout.regions] for side in (old, new)
    ]
    return new.frontmatter in heads and regions[0] == regions[1]


def _same_fences(
    old: Document, new: Document, changes: Sequence[Change], resumes: Sequence[tuple[int, int]]
) -> bool:
    if new.layout.unclosed is not None and old.layout.unclosed is None:
        return False
    starts = [change.start for change in changes]
    ends = [end for end, _ in resumes]
    roles = {(line.start, line.opens) for line in new.layout.fences}
    for line in old.layout.fences:
        before = bisect_right(starts, line.start) - 1
        if before >= 0 and changes[before].end > line.start:
            continue  # the line is inside a span that goes
        resumed = bisect_right(ends, line.start) - 1
        moved = line.start if resumed < 0 else resumes[resumed][1] + line.start - resumes[resumed][0]
        if (moved, line.opens) not in roles:
            return False
    return True
