"""The published loop: analysts of failures and successes, merging, a ranking down to the learning rate, one
bundle to the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skillopt.evaluation.stage import Evaluation
from skillopt.events.state import MemoryEntry, State
from skillopt.events.step import Step
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update, halves
from skillopt.train.strategies.port import JudgedCandidate, Parts, essentials, taken

_SAID = {
    "accept": "accepted",
    "accept_new_best": "accepted",
    "force_accept": "taken without a gate",
    "reject": "rejected",
}


class Paper:
    """The six stages as published; a bundle that was clearly worse is tried again as its halves."""

    hands_over = False

    def __init__(self, parts: Parts) -> None:
        self._optimizer = parts.optimizer
        self._gate = parts.gate
        self._attempt = parts.attempt
        self._salvages = parts.config.optimizer.salvage

    async def reflect(self, step: Step, rollouts: Evaluation) -> Reflection:
        """Analysts study minibatches of failures and of successes."""
        return await self._optimizer.reflect(step, rollouts)

    async def aggregate(self, step: Step, reflection: Reflection) -> Merged:
        """The optimizer model merges their patches."""
        return await self._optimizer.aggregate(step, reflection)

    async def select(self, step: Step, reflection: Reflection, merged: Merged) -> Selection:
        """The optimizer model ranks what is beyond the learning rate."""
        return await self._optimizer.select(step, reflection, merged)

    async def update(self, step: Step, reflection: Reflection, selection: Selection) -> Update:
        """The bundle of everything selected."""
        return await self._optimizer.update(step, reflection, selection)

    async def judge(
        self, step: Step, state: State, reflection: Reflection, selection: Selection, update: Update
    ) -> Sequence[JudgedCandidate]:
        """The bundle, then its halves where that is worth it."""
        bundle = await self._attempt(step, state, update, ended=selection.ended)
        if bundle.verdict.action != "reject" or not self._salvages or not self._gate.is_on:
            return [bundle]
        return [bundle, *await step.timed("salvage", self._salvage(step, state, bundle))]

    async def _salvage(self, step: Step, state: State, bundle: JudgedCandidate) -> list[JudgedCandidate]:
        """A bundle that was clearly worse may be a good half and a bad one: each half is tried once, until
        one is accepted.

        Clearly means before half of val was read. A near miss holds nothing worth separating: its halves
        would be accepted by luck alone, and measuring them costs steps (docs/gate.md has the figures). When
        the first half is accepted the second is not tried on top of it: both together are the bundle, and
        that was not even better than the skill before. Notes are no part of the limit and came along
        unchosen, so a bundle with notes is always taken apart.
        """
        update, verdict = bundle.update, bundle.verdict
        if update.appendix is None and 2 * len(verdict.rows) >= verdict.rows_total:
            return []
        tried: list[JudgedCandidate] = []
        for number, half in enumerate(halves(update, step.skill), 1):
            tried.append(await self._attempt(step, state, half, number=number))
            if tried[-1].is_accepted:
                break
        return tried

    def so_far(self) -> None:
        """Nothing: a step has a candidate when it comes to the gate, and not before."""

    def enough(self, state: State) -> str:
        """The plan alone ends it."""
        return ""

    def memories(
        self,
        number: int,
        action: str,
        reflection: Reflection,
        tried: Sequence[JudgedCandidate],
        hide: Callable[[str], str],
    ) -> tuple[MemoryEntry, ...]:
        """The bundle and its verdict; of a bundle that was saved in part, also which part was not."""
        if action not in _SAID:
            return ()
        chosen, bundle = taken(tried), tried[0]
        entry = MemoryEntry(
            step=number,
            action=_SAID[action],
            why=chosen.verdict.why,
            edits=essentials(chosen.update.applied, hide),
            patterns=tuple(reflection.patterns()[:5]),
        )
        if chosen is bundle:
            return (entry,)
        kept = {edit.id for edit in chosen.update.applied}
        rest = MemoryEntry(
            step=number,
            action="rejected",
            why="together with the edits that were then accepted alone, it was not better",
            edits=essentials([edit for edit in bundle.update.applied if edit.id not in kept], hide),
        )
        return (rest, entry)

    def settled(self, reflection: Reflection, tried: Sequence[JudgedCandidate]) -> tuple[str, ...]:
        """Every epoch runs all tasks."""
        return ()


PLUGIN = Paper
