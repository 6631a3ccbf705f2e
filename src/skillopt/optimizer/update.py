"""Stage 5, update: what was selected becomes a candidate - by edits, by a rewrite, or as a whole skill."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.events.records import RewriteRecord
from skillopt.events.step import Step
from skillopt.optimizer.appendix import Appendix, extended
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.forms import Candidate, Form
from skillopt.optimizer.render import proposals_section
from skillopt.optimizer.replies import Rewrite, Unusable
from skillopt.optimizer.select import Selection
from skillopt.skill.distinct import distinct
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, Outcome, Proposal, apply
from skillopt.skill.rewrite import rewritten


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A candidate, the state in which each selected proposal ended, and what else is known of it."""

    document: Document
    outcomes: tuple[Outcome, ...]
    appendix: Appendix | None = None
    """The new appendix, where skill-aware reflection added to it."""
    rewrite: RewriteRecord | None = None
    """What the writer said of a rewrite."""
    failed: bool = False
    """True when a rewrite was wanted and there is none."""

    @property
    def applied(self) -> list[Proposal]:
        """The proposals that are in the candidate."""
        return [outcome.edit for outcome in self.outcomes if outcome.state == "applied"]


def by_edits(skill: Document, patch: Sequence[Proposal], appendix: Appendix | None = None) -> Update:
    """A candidate made of edits, in which no line comes twice, and of notes if there are any."""
    kept, repeated = distinct([edit for edit in patch if isinstance(edit, Edit)], skill)
    applied = apply(kept, skill)
    return _noted(Update(document=applied.document, outcomes=(*applied.outcomes, *repeated)), appendix)


def halves(update: Update, skill: Document) -> list[Update]:
    """The two halves of a candidate of several edits, in order, notes last; none where it is one part."""
    edits = [edit for edit in update.applied if isinstance(edit, Edit)]
    parts = len(edits) + (update.appendix is not None)
    if parts < 2 or len(edits) < len(update.applied):
        return []
    cut = math.ceil(parts / 2)
    return [by_edits(skill, edits[:cut]), by_edits(skill, edits[cut:], update.appendix)]


class Updater:
    """Makes the candidate in the way of the update mode; protected parts are kept in every mode."""

    def __init__(self, model: OptimizerModel, form: Form, consolidate_above: int | None) -> None:
        """Above so many notes an appendix is condensed, 0 is never; None writes none."""
        self._model = model
        self._form = form
        self._consolidate_above = consolidate_above

    async def update(self, step: Step, selection: Selection, notes: Sequence[str]) -> Update:
        """The candidate of a step."""
        skill, appendix = step.skill, None
        if self._consolidate_above is not None and notes:
            written = await extended(self._model, step, notes, self._consolidate_above)
            appendix = written if written.added else None
        if self._form.mode == "patch":
            return by_edits(skill, selection.patch, appendix)
        if not selection.patch:
            return _noted(Update(document=skill, outcomes=()), appendix)
        if self._form.mode == "full_rewrite_minibatch":
            return _first(skill, selection.patch)
        return _noted(await self._rewrite(step, selection.patch), appendix)

    async def _rewrite(self, step: Step, patch: Sequence[Proposal]) -> Update:
        skill = step.skill
        user = self._model.background(step, skill.text) + proposals_section("Suggestions to carry out", patch)
        reply = await self._model.ask(step, "rewrite", "0", user, Rewrite)
        if isinstance(reply, Unusable):
            return _without(skill, patch, f"the rewrite cannot be used: {reply}")
        document, problem = rewritten(skill, reply.new_skill)
        said = RewriteRecord(
            reasoning=reply.reasoning, change_summary=reply.change_summary, new_skill=reply.new_skill
        )
        if document is None:
            return _without(skill, patch, f"the rewrite {problem}", said)
        return Update(
            document=document,
            outcomes=tuple(Outcome(edit=one, state="applied") for one in patch),
            rewrite=said,
        )


def _first(skill: Document, patch: Sequence[Proposal]) -> Update:
    """The first whole skill of the selection."""
    candidate = patch[0]
    assert isinstance(candidate, Candidate)
    document, problem = rewritten(skill, candidate.new_skill)
    said = RewriteRecord(
        title=candidate.title,
        change_summary=candidate.change_summary,
        new_skill=candidate.new_skill,
        evidence=candidate.evidence or None,
    )
    if document is None:
        return _without(skill, patch, f"the new skill {problem}", said)
    return Update(document=document, outcomes=(Outcome(edit=candidate, state="applied"),), rewrite=said)


def _without(
    skill: Document, patch: Sequence[Proposal], why: str, said: RewriteRecord | None = None
) -> Update:
    ended = tuple(Outcome(edit=one, state="invalid", reason=why) for one in patch)
    rewrite = (said or RewriteRecord()).model_copy(update={"problem": why})
    return Update(document=skill, outcomes=ended, rewrite=rewrite, failed=True)


def _noted(update: Update, appendix: Appendix | None) -> Update:
    if appendix is None:
        return update
    document = update.document.with_region("appendix", appendix.text)
    return replace(update, document=document, appendix=appendix)
