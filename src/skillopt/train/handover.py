"""What a run hands over when the budget ends it inside a step: what the step had found, judged by the gate.

The step stays open, and a larger budget goes on with it as if nothing had been handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from skillopt.errors import BudgetSpent
from skillopt.evaluation.stage import fact
from skillopt.events import HandedOver
from skillopt.events.state import State
from skillopt.gate.gate import Verdict
from skillopt.skill.store import SkillStore
from skillopt.train.log import Log
from skillopt.train.strategies.port import Strategy


@dataclass(eq=False)
class Handover:
    """Judges what the strategy has so far, from the share of the budget that was set aside for a gate."""

    strategy: Strategy
    judge: Callable[..., Coroutine[Any, Any, Verdict]]
    log: Log
    skills: SkillStore

    async def best(self, state: State) -> State:
        """The state with the better of its best skill and what an unfinished step hands over."""
        earlier = self.log.handed_over()
        found = await self._judged(state)
        if found is not None and (earlier is None or found.score > earlier.score):
            self.log.emit(found)
            earlier = found
        return state if earlier is None else earlier.onto(state)

    async def _judged(self, state: State) -> HandedOver | None:
        """What the step under way has found, if the gate accepts it and the budget pays for the gate."""
        found = self.strategy.so_far()
        if found is None or found.step.place.step <= state.step:  # that step is closed
            return None
        step = found.step.at(found.step.place, holds=True)  # the step will tell its own verdicts
        try:
            verdict = await self.judge(step, state, found.update.document, policy=found.policy)
        except BudgetSpent:
            return None
        measured = verdict.candidate
        if verdict.action != "accept" or measured is None or measured.score <= state.best_score:
            return None
        return HandedOver(
            place=step.place,
            skill=self.skills.keep(found.update.document),
            score=measured.score,
            incumbent=state.best_score,
            rows=[fact(row) for row in verdict.rows],
            edits=[edit.id for edit in found.update.applied],
            why=verdict.why,
        )
