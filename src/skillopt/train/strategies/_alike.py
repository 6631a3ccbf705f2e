"""Whether two lines of a skill say nearly the same: a rule of thumb that finds what a trial then decides."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKS = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])*\s*")
_EXAMPLE = re.compile(r"(?:\bfor )?\bexamples?\b|\be\.g\b|->|→", re.IGNORECASE)
_AROUND = ".,;:!?\"'`*_()"
_FILLER = re.compile(
    "a|an|the|this|that|these|its|it|you|your|please|always|must|should|shall|be|is|are|been|being|to|of|and"
    "|also|do|does|make|sure|given|give|write|use|just|for|as"
)
"""Words that change nothing where all others are the same; a test holds what may not be among them."""
_ONE_WORD = {"never": "not", "don't": "not", "each": "every", "all": "every", "whole": "entire"}
_FEWEST = 2
"""Words that a rule must have to be compared without its example."""


def alike(one: str, other: str) -> bool:
    """Whether two lines have the same words in the same order, but for fillers and endings. Numbers, names,
    negations and examples are words like others.
    """
    words = _told(one)
    return len(words) >= _FEWEST and words == _told(other)


def alike_groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of texts whose rules, without their examples, have the same words in any order: only a trial
    can tell which of them say the same.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, text in enumerate(texts):
        rule = _told(_EXAMPLE.split(text, maxsplit=1)[0])
        groups.setdefault(tuple(sorted(rule if len(rule) >= _FEWEST else _told(text))), []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def in_its_place(content: str, text: str) -> tuple[str, str] | None:
    """The line of a text that content of one line says nearly again, and what would stand in its place."""
    said = content.strip()
    line = next((line for line in text.splitlines() if alike(line, said)), None) if "\n" not in said else None
    if line is None:
        return None
    mark = _MARKS.match(line)
    return line, (mark.group() if mark else "") + _MARKS.sub("", said)


def _told(text: str) -> list[str]:
    words = (word.strip(_AROUND) for word in _MARKS.sub("", text).casefold().split())
    return [_stem(_ONE_WORD.get(word, word)) for word in words if word and not _FILLER.fullmatch(word)]


def _stem(word: str) -> str:
    """Without the ending of a plural or a participle; what holds a digit or a sign stays as it is."""
    if not word.isalpha() or len(word) < 5:
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word.removesuffix(ending).removesuffix("e")
    return word.removesuffix("e")
