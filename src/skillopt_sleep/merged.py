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


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merged text; of each edit its positions in the chain, and the edits that it stands inside of."""

    text: MergedText
    sources: Mapping[int, tuple[int, ...]]
    needs: Mapping[int, tuple[int, ...]]


def merge(texts: Sequence[str], *, newline: str, first: int = 1) -> Merge:
    """Merge a chain of texts, the first as it is. Edits are numbered from `first`, in document order."""
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
    return Merge(text=made, sources=sources, needs=_needs(segments, sources))


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
