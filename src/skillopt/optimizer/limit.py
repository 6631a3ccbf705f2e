"""The learning rate of a step where the optimizer model sets it: how many of the proposals at hand this step
takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.events.records import LimitRecord
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.render import memory_section, proposals_section, section, skill_section
from skillopt.optimizer.replies import LearningRate, Unusable
from skillopt.skill.edits import Proposal
from skillopt.step import Step
from skillopt.tasks.rollout import Means


class LimitChooser:
    """Asks one question a step; an answer that cannot be used means 0, so that nothing is taken
    on a guess.
    """

    def __init__(self, model: OptimizerModel) -> None:
        self._model = model

    async def choose(self, step: Step, rollouts: Means, proposals: Sequence[Proposal]) -> LimitRecord:
        """The decision in the public words: `learning_rate` lies between 0 and the number of proposals."""
        available = len(proposals)
        if not available:
            why = "nothing was proposed"
            return LimitRecord(
                learning_rate=0, raw_learning_rate=None, available_update_items=0, reasoning=why
            )
        score = (
            "not measured"
            if rollouts.hard is None or rollouts.soft is None
            else f"hard {rollouts.hard:.4f}, soft {rollouts.soft:.4f}"
        )
        user = (
            skill_section(step.skill.whole)
            + section("Advice from earlier epochs", step.meta_skill)
            + memory_section(step.memory, self._model.memory_room)
            + section("This step's rollouts", f"{rollouts.n} rollouts: {score}.")
            + proposals_section(f"{available} changes at hand", proposals)
        )
        reply = await self._model.ask(step, "lr_autonomous", "0", user, LearningRate)
        if isinstance(reply, Unusable):
            return LimitRecord(
                learning_rate=0,
                raw_learning_rate=None,
                available_update_items=available,
                fallback=True,
                error=str(reply),
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
