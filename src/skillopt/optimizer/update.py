"""Stage 5, update: what was selected becomes a candidate, by edits, by a rewrite, or as a whole skill; and
the appendix of reminders that skill-aware reflection writes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel, proposals_section, section
from skillopt.optimizer.replies import CondensedNotes, Edits, Payload, Rewrite, Unusable
from skillopt.optimizer.select import Selection
from skillopt.skill.distinct import distinct
from skillopt.skill.document import Document, problem_with, to_lf
from skillopt.skill.edits import REWRITE, Edit, Outcome, apply
from skillopt.skill.rewrite import with_new_body

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
    """The region's text so far: beside notes it may hold text of the user's own, which stays."""

    @property
    def text(self) -> str:
        """The region's content: new notes behind what is there, a condensed list in place of the old."""
        if not self.notes:
            return self.before
        notes = self.notes if self.consolidated else self.notes[len(self.notes) - self.added :]
        above = self.before
        if self.consolidated:  # what the region says beside its notes
            above = re.sub(r"\n{3,}", "\n\n", _NOTE.sub("", above)).strip("\n")
        bullets = "\n".join(f"- {note}" for note in notes)
        if not above:
            return f"{HEADING}\n\n{bullets}"
        return f"{above}\n{bullets}" if _NOTE.search(above.splitlines()[-1]) else f"{above}\n\n{bullets}"


def notes_of(skill: Document) -> tuple[str, ...]:
    """The notes a skill carries now; indented lines go on with the note above them."""
    return tuple(
        " ".join(match.group()[2:].split()) for match in _NOTE.finditer(skill.region("appendix") or "")
    )


def with_notes(kept: Sequence[str], new: Sequence[str], before: str = "") -> Appendix:
    """The notes so far and those of this step, in order, each once: spelling, spacing and final punctuation
    make no difference.

    `before` is the region as it stands. Where it leaves a code fence open nothing can be added to it.
    """
    seen = {_essence(note) for note in kept}
    notes = list(kept)
    for note in new:
        note = _BULLET.sub("", " ".join(to_lf(note).split()))
        essence = _essence(note)
        if essence and essence not in seen and len(note) <= LONGEST_NOTE and not problem_with(note):
            seen.add(essence)
            notes.append(note)
    if problem_with(before):
        return Appendix(notes=tuple(kept), before=before)
    return Appendix(notes=tuple(notes), added=len(notes) - len(kept), before=before)


async def extend_appendix(model: OptimizerModel, step: Step, new: Sequence[str], threshold: int) -> Appendix:
    """The appendix after a step's notes; above the threshold (0: none) one call may make it shorter."""
    appendix = with_notes(notes_of(step.skill), new, step.skill.region("appendix") or "")
    if not threshold or not appendix.added or len(appendix.notes) <= threshold:
        return appendix
    user = section(f"{len(appendix.notes)} notes", "\n".join(f"- {note}" for note in appendix.notes))
    reply = await model.ask(step, "appendix_consolidate", "0", user, CondensedNotes)
    if isinstance(reply, Unusable):
        return appendix
    shorter = with_notes((), reply.appendix_notes)
    if not shorter.notes or len(shorter.notes) >= len(appendix.notes):
        return appendix
    return Appendix(notes=shorter.notes, added=appendix.added, consolidated=True, before=appendix.before)


_NOTE = re.compile(r"^- .*\S.*(?:\n[ \t]+\S.*)*", re.MULTILINE)
_BULLET = re.compile(r"^(?:[-*+\u2022] +)+")


def _essence(note: str) -> str:
    return re.sub(r"\s+", " ", note).strip().rstrip(" .;:,_-").casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A candidate, the state in which each selected proposal ended, and what else is known of it."""

    document: Document
    outcomes: tuple[Outcome, ...]
    appendix: Appendix | None = None
    """The new appendix, where skill-aware reflection added to it."""
    rewrite: Edit | None = None
    """The whole skill that was written, where one was; its problem says why it cannot be used."""

    @property
    def failed(self) -> bool:
        """True when a rewrite was wanted and there is none."""
        return self.rewrite is not None and bool(self.rewrite.problem)

    @property
    def applied(self) -> list[Edit]:
        """The proposals that are in the candidate."""
        return [outcome.edit for outcome in self.outcomes if outcome.state == "applied"]


def by_edits(skill: Document, patch: Sequence[Edit], appendix: Appendix | None = None) -> Update:
    """A candidate made of edits, in which no line comes twice, and of notes if there are any."""
    kept, repeated = distinct(patch, skill)
    applied = apply(kept, skill)
    return _with_appendix(
        Update(document=applied.document, outcomes=(*applied.outcomes, *repeated)), appendix
    )


def halves(update: Update, skill: Document) -> list[Update]:
    """The two halves of a candidate of several edits, in order, notes last; none where it is one part."""
    edits = update.applied
    parts = len(edits) + (update.appendix is not None)
    if parts < 2 or update.rewrite is not None:
        return []
    cut = math.ceil(parts / 2)
    return [by_edits(skill, edits[:cut]), by_edits(skill, edits[cut:], update.appendix)]


class Updater:
    """Makes the candidate in the way of the update mode; protected parts are kept in every mode."""

    def __init__(self, model: OptimizerModel, payload: type[Payload], consolidate_above: int | None) -> None:
        """Above so many notes an appendix is condensed, 0 is never; None writes none."""
        self._model = model
        self._payload = payload
        self._consolidate_above = consolidate_above

    async def update(self, step: Step, selection: Selection, notes: Sequence[str]) -> Update:
        """The candidate of a step."""
        patch, appendix = selection.patch, None
        if self._consolidate_above is not None and notes:
            written = await extend_appendix(self._model, step, notes, self._consolidate_above)
            appendix = written if written.added else None
        if not patch or issubclass(self._payload, Edits):
            return by_edits(step.skill, patch, appendix)
        rewrite = patch[0] if patch[0].op == REWRITE else await self._rewrite(step, patch)
        return _with_appendix(_by_rewrite(step.skill, patch, rewrite), appendix)

    async def _rewrite(self, step: Step, patch: Sequence[Edit]) -> Edit:
        """The skill that carries out suggestions, written in one call."""
        user = self._model.background(step, step.skill.text)
        user += proposals_section("Suggestions to carry out", patch)
        reply = await self._model.ask(step, "rewrite", "0", user, Rewrite)
        if isinstance(reply, Unusable):
            return Edit(REWRITE, problem=f"cannot be used: {reply}")
        evidence = {"reasoning": reply.reasoning, "change_summary": reply.change_summary}
        return Edit(REWRITE, content=reply.new_skill, evidence=evidence)


def _by_rewrite(skill: Document, patch: Sequence[Edit], rewrite: Edit) -> Update:
    """A candidate that was written anew: what was proposed ends as the text does."""
    document, problem = (None, rewrite.problem) if rewrite.problem else with_new_body(skill, rewrite.content)
    why = "" if document is not None else f"the {'new skill' if rewrite in patch else 'rewrite'} {problem}"
    return Update(
        document=document or skill,
        outcomes=tuple(
            Outcome(edit=edit, state="invalid" if why else "applied", reason=why) for edit in patch
        ),
        rewrite=replace(rewrite, problem=why),
    )


def _with_appendix(update: Update, appendix: Appendix | None) -> Update:
    if appendix is None:
        return update
    document = update.document.with_region("appendix", appendix.text)
    return replace(update, document=document, appendix=appendix)
