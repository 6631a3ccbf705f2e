"""Lines of edits that say nearly the same: a rule of thumb that finds what a trial then decides."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skillopt.skill.distinct import MARKS, alike, gist, plain

_EXAMPLE = re.compile(r"(?:\bfor )?\bexamples?\b|\be\.g\b|->|→", re.IGNORECASE)
_FEWEST = 2
"""Words that a rule must have to be compared without its example."""


def alike_groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of texts whose rules, without their examples, have the same words in any order: only a trial
    can tell which of them say the same.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, text in enumerate(texts):
        rule = gist(_EXAMPLE.split(text, maxsplit=1)[0])
        groups.setdefault(tuple(sorted(rule if len(rule) >= _FEWEST else gist(text))), []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def in_its_place(content: str, text: str) -> tuple[str, str] | None:
    """The line of a text that content of one line says nearly again, and what would stand in its place; None
    where a line has the very words.
    """
    said = content.strip()
    if "\n" in said or plain(said) in map(plain, text.splitlines()):
        return None
    line = next((line for line in text.splitlines() if alike(line, said)), None)
    if line is None:
        return None
    mark = MARKS.match(line)
    return line, (mark.group() if mark else "") + MARKS.sub("", said)
