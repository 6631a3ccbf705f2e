"""Stages 3 and 4: the edits of all analysts become one list, no longer than the learning rate allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.events import Aggregated, Selected
from skillopt.events.records import LimitRecord, RankingRecord
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel, proposals_section, section, skill_section
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.replies import LearningRate, Payload, Ranking, Unusable
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit, Outcome, Patch, apply
from skillopt.tasks.rollout import Means


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedEdits:
    """The edits that go on, and those that ended here with their state."""

    edits: Patch
    ended: tuple[Outcome, ...]
    calls: int


class Aggregator:
    """Merges `merge_batch_size` patches a call, level by level: failures beside successes, then both."""

    def __init__(self, model: OptimizerModel, payload: type[Payload], *, merge_batch_size: int) -> None:
        self._model = model
        self._payload = payload
        self._size = max(2, merge_batch_size)

    async def aggregate(self, step: Step, reflection: Reflection) -> MergedEdits:
        """One list of edits. A patch alone passes through without a call; invalid edits end here."""
        advice = section("Advice from earlier epochs", step.meta_skill)
        fixed = skill_section(self._payload.shown(step.skill)) + advice
        ended: list[Outcome] = []
        groups = []
        for kind in ("failure", "success"):
            patches = [self._usable(patch, ended) for patch in reflection.edits(kind)]
            groups.append(self._reduce(step, kind, fixed, [patch for patch in patches if patch]))
        failure, success = await together(*groups)
        final = await self._reduce(
            step, "final", fixed, [merged.edits for merged in (failure, success) if merged.edits]
        )
        ended += [*failure.ended, *success.ended, *final.ended]
        calls = failure.calls + success.calls + final.calls
        id = str(step.place.at("aggregate"))
        step.emit(Aggregated(id=id, place=step.place, merges=calls, edits=final.edits))
        return MergedEdits(edits=final.edits, ended=tuple(ended), calls=calls)

    async def _reduce(self, step: Step, kind: str, fixed: str, patches: Sequence[Patch]) -> MergedEdits:
        ended: list[Outcome] = []
        level, depth, calls = list(patches), 0, 0
        while len(level) > 1:
            chunks = self._chunks(fixed, level)
            merged = await together(
                *(self._merge(step, f"{kind}-{depth}-{at}", fixed, chunk) for at, chunk in enumerate(chunks))
            )
            ended += [outcome for part in merged for outcome in part.ended]
            calls += sum(part.calls for part in merged)
            level = [part.edits for part in merged if part.edits]
            depth += 1
        return MergedEdits(edits=level[0] if level else (), ended=tuple(ended), calls=calls)

    def _chunks(self, fixed: str, patches: Sequence[Patch]) -> list[list[Patch]]:
        """Neighbours to merge in one call: as many as wanted and the window holds, and two at least."""
        room = self._model.room(fixed, "merge")
        chunks: list[list[Patch]] = [[]]
        used = 0
        for patch in patches:
            size = len(proposals_section("merged", patch))
            if len(chunks[-1]) == self._size or (len(chunks[-1]) >= 2 and used + size > room):
                chunks.append([])
                used = 0
            chunks[-1].append(patch)
            used += size
        return chunks

    async def _merge(self, step: Step, index: str, fixed: str, patches: Sequence[Patch]) -> MergedEdits:
        if len(patches) == 1:
            return MergedEdits(edits=patches[0], ended=(), calls=0)
        unique, ended = _without_copies([edit for patch in patches for edit in patch])
        proposals = proposals_section(
            f"{self._payload.NOUN.capitalize()}s proposed by {len(patches)} analysts", unique
        )
        # Two whole skills beside this one may be too long.
        is_too_long = not self._payload.IS_LIMITED and len(proposals) > self._model.room(fixed, "merge")
        if len(unique) == 1 or is_too_long:
            return MergedEdits(edits=tuple(unique), ended=tuple(ended), calls=0)
        reply = await self._model.ask(step, "merge", index, fixed + proposals, self._payload)
        if isinstance(reply, Unusable):  # the inputs stay what they are; selection clips them
            return MergedEdits(edits=tuple(unique), ended=tuple(ended), calls=1)
        into = step.place.at("merge", index)
        ended += [Outcome(edit=edit, state="merged", reason=f"into {into}") for edit in unique]
        return MergedEdits(edits=self._usable(reply.edits_at(into), ended), ended=tuple(ended), calls=1)

    def _usable(self, edits: Patch, ended: list[Outcome]) -> Patch:
        ended += [Outcome(edit=edit, state="invalid", reason=edit.problem) for edit in edits if edit.problem]
        return tuple(edit for edit in edits if not edit.problem)


def _without_copies(edits: Sequence[Edit]) -> tuple[list[Edit], list[Outcome]]:
    seen: set[tuple[str, ...]] = set()
    unique: list[Edit] = []
    ended: list[Outcome] = []
    for edit in edits:
        if edit.identity in seen:
            ended.append(Outcome(edit=edit, state="duplicate", reason="the same was proposed before"))
        else:
            seen.add(edit.identity)
            unique.append(edit)
    return unique, ended


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
        self, step: Step, merged: MergedEdits, limit: int | None, decision: LimitRecord | None = None
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
        record = RankingRecord(fallback=False, reasoning=reply.reasoning, selected_indices=known[:limit])
        return tuple(edits[index] for index in known[:limit]), record

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
