"""Which proven edits say the same, and which are taken: copies joined with their evidence added up, lines
that say nearly the same found by a rule of thumb for a trial to decide, and as few edits as cover every fixed
task. Pure functions of what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from skillopt.skill.distinct import MARKS, alike, gist, plain
from skillopt.skill.edits import Edit

_EXAMPLE = re.compile(r"(?:\bfor )?\bexamples?\b|\be\.g\b|->|→", re.IGNORECASE)
_FEWEST = 2
"""Words that a rule must have to be compared without its example."""


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
    return tuple(map(plain, texts))


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


def head(group: Sequence[Proven], whole: Sequence[Proven] = ()) -> Proven:
    """The first of a group, with the evidence of all of it."""
    fixed = tuple(dict.fromkeys(task for one in (whole or group) for task in one.fixed))
    return replace(group[0], fixed=fixed)


def edits_of(chosen: Sequence[Proven]) -> tuple[Edit, ...]:
    """Each of their edits once, saying what it fixed where it stands first."""
    found: dict[str, Edit] = {}
    for one in chosen:
        told = {"support_count": len(one.fixed), "source_type": "failure", "fixed": list(one.fixed)}
        for edit in one.edits:
            found.setdefault(edit.id, replace(edit, evidence={**edit.evidence, **told}))
    return tuple(found.values())


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
