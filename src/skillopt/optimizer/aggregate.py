"""Stage 3, reduce: the edits of all analysts become one list, merged where there is more than one patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.events import Aggregated
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.render import proposals_section, section, skill_section
from skillopt.optimizer.replies import Payload, Unusable
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit, Outcome, Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
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

    async def aggregate(self, step: Step, reflection: Reflection) -> Merged:
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
        return Merged(edits=final.edits, ended=tuple(ended), calls=calls)

    async def _reduce(self, step: Step, kind: str, fixed: str, patches: Sequence[Patch]) -> Merged:
        ended: list[Outcome] = []
        level, depth, calls = list(patches), 0, 0
        while len(level) > 1:
            chunks = self._chunks(fixed, level)
            merged = await together(
                *(self._merge(step, f"{kind}-{depth}-{at}", fixed, chunk) for at, chunk in enumerate(chunks))
            )
            ended += [outcome for one in merged for outcome in one.ended]
            calls += sum(one.calls for one in merged)
            level = [one.edits for one in merged if one.edits]
            depth += 1
        return Merged(edits=level[0] if level else (), ended=tuple(ended), calls=calls)

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

    async def _merge(self, step: Step, index: str, fixed: str, patches: Sequence[Patch]) -> Merged:
        if len(patches) == 1:
            return Merged(edits=patches[0], ended=(), calls=0)
        unique, ended = _without_copies([edit for patch in patches for edit in patch])
        told = proposals_section(
            f"{self._payload.NOUN.capitalize()}s proposed by {len(patches)} analysts", unique
        )
        # Two whole skills beside this one may be too long.
        is_too_long = not self._payload.IS_LIMITED and len(told) > self._model.room(fixed, "merge")
        if len(unique) == 1 or is_too_long:
            return Merged(edits=tuple(unique), ended=tuple(ended), calls=0)
        reply = await self._model.ask(step, "merge", index, fixed + told, self._payload)
        if isinstance(reply, Unusable):  # the inputs stay what they are; selection clips them
            return Merged(edits=tuple(unique), ended=tuple(ended), calls=1)
        into = step.place.at("merge", index)
        ended += [Outcome(edit=edit, state="merged", reason=f"into {into}") for edit in unique]
        return Merged(edits=self._usable(reply.edits_at(into), ended), ended=tuple(ended), calls=1)

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
