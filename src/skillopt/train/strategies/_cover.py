"""Which proven edits are taken: copies joined with their evidence added up, then as few as cover every fixed
task. Pure functions of what was measured.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from skillopt.skill.distinct import plain
from skillopt.skill.edits import Edit


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
