"""Decides what stands in the appendix of a skill: reminders of rules the agent knew and did not follow, each once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.optimizer._ask import Asker
from skillopt.optimizer._render import section
from skillopt.optimizer._replies import Consolidated, Unusable
from skillopt.skill.document import Document, problem_with, to_lf

HEADING = "## Execution Notes Appendix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Appendix:
    """The notes a skill should carry, and how they came about."""

    notes: tuple[str, ...]
    added: int = 0
    consolidated: bool = False

    @property
    def text(self) -> str:
        """The region's content; empty without notes."""
        return "\n".join([HEADING, "", *(f"- {note}" for note in self.notes)]) if self.notes else ""


def notes_of(skill: Document) -> tuple[str, ...]:
    """The notes a skill carries now."""
    lines = (skill.region("appendix") or "").splitlines()
    return tuple(line[2:].strip() for line in lines if line.startswith("- ") and line[2:].strip())


def with_notes(kept: Sequence[str], new: Sequence[str]) -> Appendix:
    """The notes so far and those of this step, in order, each once: spelling, spacing and final punctuation make no difference."""
    seen = {_essence(note) for note in kept}
    found = list(kept)
    for note in new:
        note = " ".join(to_lf(note).split())
        essence = _essence(note)
        if essence and essence not in seen and not problem_with(note):
            seen.add(essence)
            found.append(note)
    return Appendix(notes=tuple(found), added=len(found) - len(kept))


class Archivist:
    """Keeps the appendix short: above a threshold one call condenses it, and only a strictly shorter list is taken."""

    def __init__(self, asker: Asker, *, threshold: int) -> None:
        self._asker = asker
        self._threshold = threshold

    async def extend(self, place: str, skill: Document, new: Sequence[str]) -> Appendix:
        """The appendix after a step's notes."""
        found = with_notes(notes_of(skill), new)
        if not self._threshold or not found.added or len(found.notes) <= self._threshold:
            return found
        user = section(f"{len(found.notes)} notes", "\n".join(f"- {note}" for note in found.notes))
        reply = await self._asker.ask("appendix_consolidate", place, "0", user, Consolidated)
        if isinstance(reply, Unusable):
            return found
        shorter = with_notes((), reply.appendix_notes)
        if not shorter.notes or len(shorter.notes) >= len(found.notes):
            return found
        return Appendix(notes=shorter.notes, added=found.added, consolidated=True)


def _essence(note: str) -> str:
    return re.sub(r"\s+", " ", note).strip().rstrip(" .;:,_-").casefold()
