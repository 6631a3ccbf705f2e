"""A newly written text of a skill: the document that it becomes, and the edits that it amounts to."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from skillopt.errors import SkillError
from skillopt.skill.document import Document, problem_with, to_lf
from skillopt.skill.edits import Edit, apply
from skillopt.skill.layout import BOM, frontmatter_end, leaves_fence_open


def with_new_body(document: Document, text: str) -> tuple[Document | None, str]:
    """The document with a whole new body, or None and why the text cannot be one, as the end of a sentence.

    Frontmatter and regions that the new text brings along are dropped, whatever they say, and those of the
    document are put in their place; the result is read again, and must hold exactly them. A code block around
    the whole text is taken off. Blank lines around the body stay: the same text gives the same document.
    """
    # A lone carriage return is no line end of a document: as one it could make a line of text a marker.
    old = _without_protected(document.text.replace("\r\n", "\n").removeprefix(BOM), document)
    # What the text says itself: without a code block around it, without frontmatter and without regions.
    written = _unwrapped(_BLANK_START.sub("", to_lf(text).removeprefix(BOM)), old)
    try:
        body = _without_protected(_BLANK_START.sub("", written), document)
    except SkillError as error:
        return None, f"is not a readable skill: {error}"
    if not body.strip():
        return None, "has no body"
    if body.strip("\n") == old.strip("\n"):
        return document, ""
    if problem := problem_with(body):
        return None, problem
    newline = document.newline
    head = document.frontmatter or (BOM if document.text.startswith(BOM) else "")
    regions = [document.text[part.start : part.end] for part in document.layout.regions]
    tail = "".join(text if text.endswith("\n") else text + newline for text in regions)
    before, after = _blank_lines(old, newline)
    ending = after or (newline if tail or document.text.endswith("\n") or not document.text else "")
    if head.strip(BOM) and not head.endswith("\n"):
        head += newline
    try:
        result = replace(
            document, text=head + before + body.strip("\n").replace("\n", newline) + ending + tail
        )
    except SkillError:
        return None, "would change how a protected part is read"
    if not _same_protected(document, result):
        return None, "would change how a protected part is read"
    return result, ""


_BLANK_START = re.compile(r"\A(?:[ \t]*\n)+")
_WRAPPER = re.compile(
    r"\A(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>markdown|md|)[ \t]*\n(?P<inside>.*)\n(?P=ticks)\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_FIELD = re.compile(r"^[A-Za-z_][\w-]*[ \t]*:", re.MULTILINE)


def _unwrapped(text: str, old: str) -> str:
    """The text without a code block that models put around all of it; a skill that was one block stays."""
    wrapper = _WRAPPER.match(text)
    if wrapper is None or _WRAPPER.match(_BLANK_START.sub("", old)) is not None:
        return text
    inside, ticks = wrapper["inside"], re.escape(wrapper["ticks"])
    # Without a language the first and the last block of a skill may look like one around it.
    is_one_block = bool(wrapper["info"]) or re.search(rf"^[ \t]*{ticks}", inside, re.MULTILINE) is None
    return inside if is_one_block and not leaves_fence_open(inside) else text


def _without_protected(text: str, document: Document) -> str:
    """The text without frontmatter and regions. Two `---` lines without a `key:` between are text."""
    written = Document(text)
    position = frontmatter_end(text)
    head = text[:position]
    fields = head.partition("\n")[2].rstrip("\n").rpartition("\n")[0]
    is_own = head.rstrip() == to_lf(document.frontmatter).removeprefix(BOM).rstrip()
    if fields.strip() and not _FIELD.search(fields) and not is_own:
        position = 0
    kept = ""
    for region in written.layout.regions:
        kept += text[position : region.start]
        position = region.end
    return kept + text[position:]


def _blank_lines(old: str, newline: str) -> tuple[str, str]:
    """The empty lines before the old body, and its last line end with those after it."""
    if not old.strip():
        return "", ""
    return newline * (len(old) - len(old.lstrip("\n"))), newline * (len(old) - len(old.rstrip("\n")))


def _same_protected(old: Document, new: Document) -> bool:
    heads = [document.frontmatter.rstrip("\r\n") for document in (old, new)]
    regions = [
        [(part.name, document.region(part.name)) for part in document.layout.regions]
        for document in (old, new)
    ]
    return heads[0] == heads[1] and regions[0] == regions[1]


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])[ \t]")
_HEADING = re.compile(r"#{1,6}[ \t]")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})")
SIMILAR = 0.6
"""Share of characters in common from which on a line is another wording of a line that is gone."""
MOST_COMPARED = 4_000
"""Pairs of lines that are compared for that; larger blocks are taken as they are."""


def split(document: Document, text: str) -> tuple[tuple[Edit, ...], str]:
    """The edits that turn the document into a whole new text, or none and why not, as the end of a sentence.

    Frontmatter and regions are the document's (`rewritten`). Applied together the edits give that text byte
    for byte; each can also be applied alone, as changes that only make sense together are one edit. Inserted
    and deleted lines are split into their paragraphs and list items.
    """
    new, problem = with_new_body(document, text)
    if new is None:
        return (), problem
    start, end = _body(document)
    wanted = document.text[:start] + new.text[slice(*_body(new))] + document.text[end:]
    if new is document or wanted == document.text:
        return (), ""
    after = [document.text[low:high] for low, high in _behind(document, end)]
    if "".join(after).strip():
        return (), "cannot be expressed as edits: the skill has text behind a protected region"
    splitter = _Splitter(document, _LINE.findall(document.text[start:end]))
    edits = splitter.edits(_LINE.findall(wanted[start : len(wanted) - len(document.text) + end]), wanted)
    return (edits, "") if edits else ((), "cannot be expressed as edits of the skill")


def _body(document: Document) -> tuple[int, int]:
    """The span that is rewritten: from the frontmatter to the first region."""
    head = [high for low, high in document.protected if low == 0 and high <= document.append_point]
    return (head[0] if head else 0), document.append_point


def _behind(document: Document, end: int) -> Iterator[tuple[int, int]]:
    """Spans behind the first region that no region covers."""
    for region in document.layout.regions:
        yield end, region.start
        end = region.end
    yield end, len(document.text)


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Old lines `first` to `last` become `lines`; nothing between the two is an insertion before `first`."""

    first: int
    last: int
    lines: tuple[str, ...]


class _Splitter:
    """Makes edits of hunks; hunks that cannot stand alone are joined with their neighbours."""

    def __init__(self, document: Document, old: Sequence[str]) -> None:
        self._document = document
        self._old = old
        self._text = document.text.replace("\r\n", "\n")
        self._applies: dict[tuple[str, ...], bool] = {}

    def edits(self, new: Sequence[str], wanted: str) -> tuple[Edit, ...]:
        """The edits whose application gives `wanted`; none where there are no such edits."""
        matcher = difflib.SequenceMatcher(None, self._old, new, autojunk=False)
        changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
        hunks = [one for _, a, b, low, high in changed for one in _refined(self._old, a, b, new[low:high])]
        everything = [_Hunk(0, len(self._old), tuple(new))]
        while True:
            edits, stuck = self._edits_of(hunks)
            if stuck is None and apply(edits, self._document).document.text == wanted:
                return tuple(edits)
            if hunks == everything:
                return ()
            if stuck is None or len(hunks) == 1:
                hunks = everything
            else:
                at = min(stuck, len(hunks) - 2)
                hunks[at : at + 2] = [self._joined(hunks[at], hunks[at + 1])]

    def _edits_of(self, hunks: Sequence[_Hunk]) -> tuple[list[Edit], int | None]:
        """Each hunk as an edit, or the number of the first one that cannot be one by itself."""
        edits: list[Edit] = []
        lines = _Lines(changed={line for one in hunks for line in range(one.first, one.last)})
        for number, hunk in enumerate(hunks):
            edit = self._inserting(hunk, lines) or self._replacing(hunk, lines)
            if edit is None or not self._stands_alone(edit):
                return edits, number
            edits.append(edit)
        return edits, None

    def _joined(self, first: _Hunk, other: _Hunk) -> _Hunk:
        between = tuple(self._old[first.last : other.first])
        return _Hunk(first.first, other.last, (*first.lines, *between, *other.lines))

    def _stands_alone(self, edit: Edit) -> bool:
        if edit.identity not in self._applies:
            state = apply([edit], self._document).outcomes[0].state
            self._applies[edit.identity] = state == "applied"
        return self._applies[edit.identity]

    def _inserting(self, hunk: _Hunk, lines: _Lines) -> Edit | None:
        """An insertion at the end, or behind the shortest unique text that no other edit changes."""
        content = "".join(hunk.lines)
        if hunk.first < hunk.last or not content.strip():
            return None
        if hunk.first == len(self._old):
            return Edit(op="append", content=content)
        for first in range(hunk.first - 1, -1, -1):
            if first in lines.changed:
                break
            target = "".join(self._old[first : hunk.first])
            bare = _bare(target)
            for anchor in (bare, target) if bare.rpartition("\n")[2].strip() else (target,):
                if self._is_unique(anchor):
                    lines.anchors |= set(range(first, hunk.first))
                    return Edit(op="insert_after", target=anchor, content=content)
        return None

    def _replacing(self, hunk: _Hunk, lines: _Lines) -> Edit | None:
        """A replacement or deletion with as many unchanged lines around it as make its target unique."""
        first, last, new = hunk.first, hunk.last, hunk.lines
        while (edit := self._exchanged("".join(self._old[first:last]), "".join(new))) is None:
            if first > 0 and first - 1 not in lines.changed | lines.anchors:
                first, new = first - 1, (self._old[first - 1], *new)
            elif last < len(self._old) and last not in lines.changed | lines.anchors:
                new, last = (*new, self._old[last]), last + 1
            else:
                return None
        lines.changed |= set(range(first, last))
        return edit

    def _exchanged(self, target: str, content: str) -> Edit | None:
        bare = _bare(target)
        if content.endswith("\n") and bare != target and bare.strip() and self._is_unique(bare):
            return Edit(op="replace", target=bare, content=_bare(content))
        if not target or not self._is_unique(target):
            return None
        return Edit(op="replace" if content else "delete", target=target, content=content)

    def _is_unique(self, target: str) -> bool:
        target = target.replace("\r\n", "\n")
        first = self._text.find(target)
        return self._text.find(target, first + 1) < 0


@dataclass(slots=True, kw_only=True)
class _Lines:
    """Old lines that edits change, with the context they take along, and those that insertions stand by."""

    changed: set[int]
    anchors: set[int] = field(default_factory=set)


def _refined(old: Sequence[str], first: int, last: int, lines: Sequence[str]) -> Iterator[_Hunk]:
    """A changed block as its parts: reworded lines one by one, the others by paragraphs and list items."""
    gone = old[first:last]
    if (pair := _most_alike(gone, lines)) is not None:
        at, to = pair
        yield from _refined(old, first, first + at, lines[:to])
        if gone[at] != lines[to]:
            yield _Hunk(first + at, first + at + 1, (lines[to],))
        yield from _refined(old, first + at + 1, last, lines[to + 1 :])
        return
    added, removed = _pieces(lines), _pieces(gone)
    if len(added) == len(removed) == 1:
        yield _Hunk(first, last, tuple(lines))
        return
    for piece in added:
        yield _Hunk(first, first, tuple(piece))
    for piece in removed:
        yield _Hunk(first, first + len(piece), ())
        first += len(piece)


def _most_alike(gone: Sequence[str], lines: Sequence[str]) -> tuple[int, int] | None:
    """The old and the new line that say most nearly the same."""
    if not gone or not lines or len(gone) * len(lines) > MOST_COMPARED:
        return None
    best, pair = SIMILAR, None
    matcher = difflib.SequenceMatcher(autojunk=False)
    for to, line in enumerate(lines):
        matcher.set_seq2(line)
        for at, other in enumerate(gone):
            matcher.set_seq1(other)
            if (
                line.strip()
                and matcher.real_quick_ratio() > best
                and matcher.quick_ratio() > best
                and matcher.ratio() > best
            ):
                best, pair = matcher.ratio(), (at, to)
    return pair


def _pieces(lines: Sequence[str]) -> list[list[str]]:
    """Paragraphs and list items; blank lines go with what follows, a heading with its first item."""
    pieces: list[list[str]] = []
    in_code = after_blank = False
    for line in lines:
        begins = not in_code and bool(line.strip()) and (after_blank or bool(_ITEM.match(line)))
        begins = begins or (not in_code and not after_blank and bool(_HEADING.match(line)))
        only_heading = bool(pieces) and _is_open(pieces[-1])
        if not pieces or (begins and not only_heading and not line[:1].isspace()):
            blank: list[str] = []
            while pieces and pieces[-1] and not pieces[-1][-1].strip() and not _is_open(pieces[-1]):
                blank.insert(0, pieces[-1].pop())
            pieces.append([*blank, line])
        else:
            pieces[-1].append(line)
        in_code ^= bool(_FENCE.match(line))
        after_blank = not in_code and not line.strip()
    return [piece for piece in pieces if piece]


def _is_open(piece: Sequence[str]) -> bool:
    """Whether a piece holds nothing yet but headings and blank lines."""
    return all(not line.strip() or _HEADING.match(line) for line in piece)


def _bare(text: str) -> str:
    """A text without its last line end."""
    return text.removesuffix("\n").removesuffix("\r")
