"""Stage 4, clip: no more proposals than the learning rate allows, which the optimizer model may set itself,
and a second chance for edits whose target was misquoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.events import Selected
from skillopt.events.records import LimitRecord, RankingRecord
from skillopt.events.step import Step
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.render import proposals_section, section, skill_section
from skillopt.optimizer.replies import LearningRate, Payload, Ranking, Unusable
from skillopt.skill.edits import Edit, Outcome, Patch, apply
from skillopt.tasks.rollout import Means


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The proposals to take up, and everything of the step that ended before it."""

    patch: Patch = ()
    ended: tuple[Outcome, ...] = ()
    offered: int = 0
    """How many proposals there were to choose from."""
    limit: int | None = None
    """How many of them might be taken; None is all."""
    decision: LimitRecord | None = None
    """How the optimizer model chose the limit, where it did."""


class Selector:
    """Asks for a ranking where there are too many proposals, for a repair where a target is not found."""

    def __init__(self, model: OptimizerModel, payload: type[Payload], *, ranks: bool = True) -> None:
        """Without `ranks` the first proposals are taken: whoever made them put the best first."""
        self._model = model
        self._payload = payload
        self._ranks = ranks

    async def select(
        self, step: Step, merged: Merged, limit: int | None, decision: LimitRecord | None = None
    ) -> Selection:
        """At most `limit` proposals, edits among them with known targets; of whole skills the first."""
        ended = list(merged.ended)
        limit = limit if self._payload.IS_LIMITED else 1
        chosen, ranking = merged.edits, None
        if limit is not None and len(chosen) > limit:
            chosen = merged.edits[:limit]
            if self._payload.IS_LIMITED and limit > 0 and self._ranks:
                chosen, ranking = await self._rank(step, merged.edits, limit)
            kept = {edit.id for edit in chosen}
            ended += [
                Outcome(edit=edit, state="over_limit", reason=f"limit {limit}")
                for edit in merged.edits
                if edit.id not in kept
            ]
        chosen = await self._repair(step, chosen, ended)
        step.emit(
            Selected(
                id=str(step.place.at("select")),
                place=step.place,
                limit=limit,
                ranked=ranking is not None,
                ranking=ranking,
                edits=chosen,
                decision=decision,
            )
        )
        return Selection(
            patch=chosen, ended=tuple(ended), offered=len(merged.edits), limit=limit, decision=decision
        )

    async def _rank(self, step: Step, edits: Patch, limit: int) -> tuple[Patch, RankingRecord]:
        user = (
            self._model.background(step, self._payload.shown(step.skill))
            + proposals_section(f"{len(edits)} {self._payload.NOUN}s, numbered from 0", edits)
            + section("Limit", f"Choose at most {limit}.")
        )
        reply = await self._model.ask(step, "ranking", "0", user, Ranking)
        if isinstance(reply, Unusable):
            return edits[:limit], RankingRecord(fallback=True, error=str(reply))
        known = [index for index in dict.fromkeys(reply.selected_indices) if 0 <= index < len(edits)]
        told = RankingRecord(fallback=False, reasoning=reply.reasoning, selected_indices=known[:limit])
        return tuple(edits[index] for index in known[:limit]), told

    async def _repair(self, step: Step, chosen: Patch, ended: list[Outcome]) -> Patch:
        lost = [outcome for outcome in apply(chosen, step.skill).outcomes if outcome.state == "unmatched"]
        if not lost:
            return chosen
        user = skill_section(self._payload.shown(step.skill)) + proposals_section(
            "Edits whose target was not found", [outcome.edit for outcome in lost]
        )
        reply = await self._model.ask(step, "repair", "0", user, self._payload)
        place = step.place.at("repair", "0")
        repaired = () if isinstance(reply, Unusable) else reply.edits_at(place, len(lost))
        ended += lost
        gone = {outcome.edit.id for outcome in lost}
        return (*(edit for edit in chosen if edit.id not in gone), *repaired)


async def choose_limit(
    model: OptimizerModel, step: Step, rollouts: Means, proposals: Sequence[Edit]
) -> LimitRecord:
    """Ask for the limit of a step, in the public words: `learning_rate` lies between 0 and the number of
    proposals. An answer that cannot be used means 0, so that nothing is taken on a guess.
    """
    available = len(proposals)
    nothing = LimitRecord(learning_rate=0, raw_learning_rate=None, available_update_items=available)
    if not available:
        return nothing.model_copy(update={"reasoning": "nothing was proposed"})
    score = "not measured"
    if rollouts.hard is not None and rollouts.soft is not None:
        score = f"hard {rollouts.hard:.4f}, soft {rollouts.soft:.4f}"
    user = (
        model.background(step, step.skill.whole)
        + section("This step's rollouts", f"{rollouts.n} rollouts: {score}.")
        + proposals_section(f"{available} changes at hand", proposals)
    )
    reply = await model.ask(step, "lr_autonomous", "0", user, LearningRate)
    if isinstance(reply, Unusable):
        return nothing.model_copy(update={"fallback": True, "error": str(reply)})
    chosen = min(reply.learning_rate, available)
    return LimitRecord(
        learning_rate=chosen,
        raw_learning_rate=reply.learning_rate,
        available_update_items=available,
        clamped=chosen != reply.learning_rate,
        reasoning=reply.reasoning,
        confidence=reply.confidence,
        risk_notes=reply.risk_notes,
    )
