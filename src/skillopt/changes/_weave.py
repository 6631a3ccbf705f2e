"""A text with the changes proposed for it, woven into one: decides which changes can be taken apart, and what
any choice of them gives.

A training run leaves a chain of texts, one for each edit that was applied. The weave holds every line of the
first and of the last of them once, each marked with the change that adds it or cuts it. So any choice of
changes has exactly one text, no edit has to be applied anew, and lines that no edit touched are never written
by anybody. Edits that rewrote each other's lines are one change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from pydantic import BaseModel, ConfigDict

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Thread(BaseModel):
    """Lines of a weave that belong together: kept by all, added by a change, or cut by one. `edit` is the
    change's number, 0 for kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["keep", "add", "cut"]
    edit: int
    text: str


class Weave(BaseModel):
    """The woven text. All lines in it end; `open_before` and `open_after` say whether the real texts lack
    their last newline.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: tuple[Thread, ...]
    newline: str
    open_before: bool
    open_after: bool

    @property
    def edits(self) -> tuple[int, ...]:
        """The numbers of the changes, in the order in which they stand in the text."""
        return tuple(dict.fromkeys(thread.edit for thread in self.threads if thread.edit))

    def text(self, chosen: Collection[int]) -> str:
        """The text with these changes and without the others."""
        taken = frozenset(chosen)
        text = "".join(
            thread.text
            for thread in self.threads
            if thread.kind == "keep" or (thread.kind == "add") == (thread.edit in taken)
        )
        is_open = self.open_after if taken & set(self.edits) else self.open_before
        return text.removesuffix(self.newline) if is_open else text

    def part(self, edit: int) -> tuple[str, str]:
        """What one change cuts and what it adds."""
        cut, added = (
            "".join(thread.text for thread in self.threads if (thread.kind, thread.edit) == (kind, edit))
            for kind in ("cut", "add")
        )
        return cut, added


@dataclass(frozen=True, slots=True, kw_only=True)
class Woven:
    """A weave, and for each change in it the places in the chain of the edits it is made of, and the changes
    it stands inside of.
    """

    weave: Weave
    sources: Mapping[int, tuple[int, ...]]
    needs: Mapping[int, tuple[int, ...]]


def weave(texts: Sequence[str], *, newline: str, first: int = 1) -> Woven:
    """Weave a chain of texts, the first of them the text as it is. Changes are numbered from `first` on, in
    document order.
    """
    chains = [_lines(text, newline) for text in texts]
    tokens = [_Token(line) for line in chains[0]]
    joined = _Joined()
    for step, lines in enumerate(chains[1:], 1):
        tokens = _stepped(tokens, lines, step, joined)
    owners = [(token, joined.root(token.step) if token.step else 0) for token in tokens]
    numbers: dict[int, int] = {}
    for token, owner in owners:
        if token.kind != "keep":
            numbers.setdefault(owner, first + len(numbers))
    threads = [
        Thread(kind=kind, edit=numbers[owner] if owner else 0, text="".join(token.line for token, _ in group))
        for (kind, owner), group in groupby(owners, key=lambda pair: (pair[0].kind, pair[1]))
    ]
    sources = {
        number: tuple(step for step in range(1, len(texts)) if joined.root(step) == owner)
        for owner, number in numbers.items()
    }
    made = Weave(
        threads=tuple(threads),
        newline=newline,
        open_before=_is_open(texts[0]),
        open_after=_is_open(texts[-1]),
    )
    return Woven(weave=made, sources=sources, needs=_needs(threads, sources))


@dataclass(frozen=True, slots=True)
class _Token:
    """A line, and the step that added or cut it."""

    line: str
    kind: Literal["keep", "add", "cut"] = "keep"
    step: int = 0


class _Joined:
    """Steps that belong to one change."""

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


def _needs(threads: Iterable[Thread], sources: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """A change that stands inside the text of another one needs it: of the two, the later needs
    the earlier.
    """
    needs: dict[int, set[int]] = {edit: set() for edit in sources}
    for is_kept, run in groupby(threads, key=lambda thread: thread.kind == "keep"):
        added = [] if is_kept else [thread.edit for thread in run if thread.kind == "add"]
        for outer in set(added):
            low, high = added.index(outer), len(added) - 1 - added[::-1].index(outer)
            for inner in set(added[low:high]) - {outer}:
                earlier, later = sorted((outer, inner), key=lambda edit: max(sources[edit]))
                needs[later].add(earlier)
    return {edit: tuple(sorted(needed)) for edit, needed in needs.items() if needed}


def _lines(text: str, newline: str) -> list[str]:
    return _LINE.findall(text + newline if _is_open(text) else text)


def _is_open(text: str) -> bool:
    return bool(text) and not text.endswith("\n")
