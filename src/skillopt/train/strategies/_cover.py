"""Which proven edits are taken: copies joined with their evidence added up, then as few as cover every fixed
task. Pure functions of what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from skillopt.skill.edits import Edit

_MARKS = re.compile(r"^\s*(?:[-*+>#]|\d+[.)])+\s*", re.MULTILINE)
_AROUND = ".,;:!?\"'`*_"
"""Marks around a word that say nothing; others do, as in =SUM(A1:A9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """Edits that fixed tasks: one edit, or several where only together they did."""

    edits: tuple[Edit, ...]
    fixed: tuple[str, ...]
    """Train tasks, in planned order."""
    copies: tuple[Edit, ...] = ()
    """Edits that say the same, whose fixed tasks are counted here."""

    @property
    def id(self) -> str:
        """That of its first edit."""
        return self.edits[0].id

    def with_copy(self, other: Proven) -> Proven:
        """Both as one, with their evidence added up."""
        fixed = tuple(dict.fromkeys((*self.fixed, *other.fixed)))
        return replace(self, fixed=fixed, copies=(*self.copies, *other.edits, *other.copies))


def wording(edit: Edit) -> tuple[str, ...]:
    """What two edits share that differ in case, blanks, marks around words, list marks or the place of an
    insertion alone.
    """
    inserts = edit.op in ("append", "insert_after")
    texts = ("insert" if inserts else f"{edit.op} {edit.path}", "" if inserts else edit.target, edit.content)
    return tuple(map(_plain, texts))


def copies_of(one: Proven) -> list[list[str]]:
    """Ids of each of its edits that has copies, with theirs."""
    size = len(one.edits)
    of_each = [(edit, one.copies[at::size]) for at, edit in enumerate(one.edits)]
    return [[edit.id, *(copy.id for copy in copies)] for edit, copies in of_each if copies]


def without_copies(proven: Sequence[Proven]) -> list[Proven]:
    """Copies and near-copies joined; the one that fixed most stands for them."""
    found: dict[tuple[tuple[str, ...], ...], Proven] = {}
    for one in by_strength(proven):
        words = tuple(wording(edit) for edit in one.edits)
        found[words] = found[words].with_copy(one) if words in found else one
    return list(found.values())


def by_strength(proven: Sequence[Proven]) -> list[Proven]:
    """Those that fixed most first, else as they were."""
    return sorted(proven, key=lambda one: -len(one.fixed))


def cover(proven: Sequence[Proven], covered: Collection[str] = ()) -> list[Proven]:
    """The one that fixes most tasks which are not covered, then the one that fixes most of the others, until
    none fixes a further task.
    """
    left, covered, chosen = list(proven), set(covered), list[Proven]()
    while left:
        best = max(left, key=lambda one: len(set(one.fixed) - covered))  # the first of equals
        if not set(best.fixed) - covered:
            break
        chosen.append(best)
        covered |= set(best.fixed)
        left.remove(best)
    return chosen


def kept_lines(content: str, known: Collection[str]) -> str:
    """The content without lines that the skill or the content itself has already; lines of code and short
    ones may repeat.
    """
    kept, seen = list[str](), set(known)
    for line, words in _compared(content):
        if words not in seen:
            kept.append(line)
        seen |= {words} - {""}
    return "\n".join(kept).strip("\n")


def repeats(text: str) -> int:
    """How many lines of a text come again that may not."""
    words = [words for _, words in _compared(text) if words]
    return len(words) - len(set(words))


def _compared(text: str) -> Iterator[tuple[str, str]]:
    """Each line, and what it is compared by; that is empty for one that may repeat."""
    in_code = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        in_code ^= fence
        yield line, "" if in_code or fence else line_of(line)


def line_of(line: str) -> str:
    """A line as it is compared; empty for one that may repeat."""
    words = _plain(line)
    return words if len(words) >= 12 else ""


def lines_of(text: str) -> set[str]:
    """All lines of a text that may not come twice."""
    return {line_of(line) for line in text.splitlines()} - {""}


def _plain(text: str) -> str:
    words = (word.strip(_AROUND) for word in _MARKS.sub("", text).casefold().split())
    return " ".join(word for word in words if word)
