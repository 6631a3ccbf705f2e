"""The learning rate of a step where the optimizer model sets it: how many of the proposals at hand this step
takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.events.records import LimitRecord
from skillopt.events.state import MemoryEntry
from skillopt.optimizer._ask import Asker
from skillopt.optimizer._render import memory_section, proposals_section, section, skill_section
from skillopt.optimizer._replies import LearningRate, Unusable
from skillopt.place import Place
from skillopt.skill.edits import Proposal
from skillopt.tasks.rollout import Means


class Pacer:
    """Asks one question a step; an answer that cannot be used means 0, so that nothing is taken
    on a guess.
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def decide(
        self,
        place: Place,
        skill: str,
        memory: Sequence[MemoryEntry],
        meta_skill: str,
        rollouts: Means,
        proposals: Sequence[Proposal],
    ) -> LimitRecord:
        """The decision in the public words: `learning_rate` lies between 0 and the number of proposals."""
        available = len(proposals)
        if not available:
            return LimitRecord(learning_rate=0, available_update_items=0, reasoning="nothing was proposed")
        score = (
            "not measured"
            if rollouts.hard is None or rollouts.soft is None
            else f"hard {rollouts.hard:.4f}, soft {rollouts.soft:.4f}"
        )
        user = (
            skill_section(skill)
            + section("Advice from earlier epochs", meta_skill)
            + memory_section(memory, self._asker.memory_room)
            + section("This step's rollouts", f"{rollouts.n} rollouts: {score}.")
            + proposals_section(f"{available} changes at hand", proposals)
        )
        reply = await self._asker.ask("lr_autonomous", place, "0", user, LearningRate)
        if isinstance(reply, Unusable):
            return LimitRecord(
                learning_rate=0, available_update_items=available, fallback=True, error=str(reply)
            )
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
