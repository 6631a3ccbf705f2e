"""Stage 5, update: what was selected becomes a candidate - by edits, by a rewrite, or as a whole skill."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.events.step import Step
from skillopt.optimizer.appendix import Appendix, extended
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.render import proposals_section
from skillopt.optimizer.replies import Edits, Payload, Rewrite, Unusable
from skillopt.optimizer.select import Selection
from skillopt.skill.distinct import distinct
from skillopt.skill.document import Document
from skillopt.skill.edits import REWRITE, Edit, Outcome, apply
from skillopt.skill.rewrite import rewritten


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
    return _noted(Update(document=applied.document, outcomes=(*applied.outcomes, *repeated)), appendix)


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
            written = await extended(self._model, step, notes, self._consolidate_above)
            appendix = written if written.added else None
        if not patch or issubclass(self._payload, Edits):
            return by_edits(step.skill, patch, appendix)
        rewrite = patch[0] if patch[0].op == REWRITE else await self._rewrite(step, patch)
        return _noted(_by_rewrite(step.skill, patch, rewrite), appendix)

    async def _rewrite(self, step: Step, patch: Sequence[Edit]) -> Edit:
        """The skill that carries out suggestions, written in one call."""
        user = self._model.background(step, step.skill.text)
        user += proposals_section("Suggestions to carry out", patch)
        reply = await self._model.ask(step, "rewrite", "0", user, Rewrite)
        if isinstance(reply, Unusable):
            return Edit(REWRITE, problem=f"cannot be used: {reply}")
        said = {"reasoning": reply.reasoning, "change_summary": reply.change_summary}
        return Edit(REWRITE, content=reply.new_skill, evidence=said)


def _by_rewrite(skill: Document, patch: Sequence[Edit], rewrite: Edit) -> Update:
    """A candidate that was written anew: what was proposed ends as the text does."""
    document, problem = (None, rewrite.problem) if rewrite.problem else rewritten(skill, rewrite.content)
    why = "" if document is not None else f"the {'new skill' if rewrite in patch else 'rewrite'} {problem}"
    return Update(
        document=document or skill,
        outcomes=tuple(Outcome(edit=one, state="invalid" if why else "applied", reason=why) for one in patch),
        rewrite=replace(rewrite, problem=why),
    )


def _noted(update: Update, appendix: Appendix | None) -> Update:
    if appendix is None:
        return update
    document = update.document.with_region("appendix", appendix.text)
    return replace(update, document=document, appendix=appendix)
