"""The appendix of a skill: reminders of rules that the agent knew and did not follow, each once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.render import section
from skillopt.optimizer.replies import Consolidated, Unusable
from skillopt.skill.document import Document, problem_with, to_lf

HEADING = "## Execution Notes Appendix"
LONGEST_NOTE = 500
"""Characters; a longer one is no reminder and is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appendix:
    """The notes a skill should carry, and how they came about."""

    notes: tuple[str, ...]
    added: int = 0
    consolidated: bool = False
    before: str = ""
    """What the region said so far: beside notes it may hold text of the user's own, which stays."""

    @property
    def text(self) -> str:
        """The region's content: new notes behind what is there, a condensed list in place of the old."""
        if not self.notes:
            return self.before
        told = self.notes if self.consolidated else self.notes[len(self.notes) - self.added :]
        above = self.before
        if self.consolidated:  # what the region says beside its notes
            above = re.sub(r"\n{3,}", "\n\n", _NOTE.sub("", above)).strip("\n")
        bullets = "\n".join(f"- {note}" for note in told)
        if not above:
            return f"{HEADING}\n\n{bullets}"
        return f"{above}\n{bullets}" if _NOTE.search(above.splitlines()[-1]) else f"{above}\n\n{bullets}"


def notes_of(skill: Document) -> tuple[str, ...]:
    """The notes a skill carries now; indented lines go on with the note above them."""
    return tuple(" ".join(one.group()[2:].split()) for one in _NOTE.finditer(skill.region("appendix") or ""))


def with_notes(kept: Sequence[str], new: Sequence[str], before: str = "") -> Appendix:
    """The notes so far and those of this step, in order, each once: spelling, spacing and final punctuation
    make no difference.

    `before` is the region as it stands. Where it leaves a code fence open nothing can be added to it.
    """
    seen = {_essence(note) for note in kept}
    found = list(kept)
    for note in new:
        note = _BULLET.sub("", " ".join(to_lf(note).split()))
        essence = _essence(note)
        if essence and essence not in seen and len(note) <= LONGEST_NOTE and not problem_with(note):
            seen.add(essence)
            found.append(note)
    if problem_with(before):
        return Appendix(notes=tuple(kept), before=before)
    return Appendix(notes=tuple(found), added=len(found) - len(kept), before=before)


async def extended(model: OptimizerModel, step: Step, new: Sequence[str], threshold: int) -> Appendix:
    """The appendix after a step's notes; above the threshold (0: none) one call may make it shorter."""
    found = with_notes(notes_of(step.skill), new, step.skill.region("appendix") or "")
    if not threshold or not found.added or len(found.notes) <= threshold:
        return found
    user = section(f"{len(found.notes)} notes", "\n".join(f"- {note}" for note in found.notes))
    reply = await model.ask(step, "appendix_consolidate", "0", user, Consolidated)
    if isinstance(reply, Unusable):
        return found
    shorter = with_notes((), reply.appendix_notes)
    if not shorter.notes or len(shorter.notes) >= len(found.notes):
        return found
    return Appendix(notes=shorter.notes, added=found.added, consolidated=True, before=found.before)


_NOTE = re.compile(r"^- .*\S.*(?:\n[ \t]+\S.*)*", re.MULTILINE)
_BULLET = re.compile(r"^(?:[-*+\u2022] +)+")


def _essence(note: str) -> str:
    return re.sub(r"\s+", " ", note).strip().rstrip(" .;:,_-").casefold()
