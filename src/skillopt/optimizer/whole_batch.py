"""One proposer for a whole batch in the place of analysts: stage 2 of `paper`, and the lanes of `proof`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from skillopt.evaluation.stage import Evaluation
from skillopt.events import Reflected
from skillopt.events.step import Step
from skillopt.models.reading import Unusable
from skillopt.optimizer.minibatches import all_studied
from skillopt.optimizer.proposers.port import Evidence, Proposer
from skillopt.optimizer.reflect import Minibatch, Reflection, patch_fact
from skillopt.process.waiting import together


@dataclass(frozen=True, kw_only=True)
class WholeBatch:
    """The batch of one step as a proposer is shown it."""

    varies: ClassVar[bool] = False
    """Whether another look asks another question, also where nothing new is known."""
    proposer: Proposer
    rollouts: Evaluation
    failure_only: bool
    limit: int | None = None
    """How many edits the step may take."""

    async def reflect(self, step: Step) -> Reflection:
        """Wait for the batch, and ask once."""
        found: list[Any] = await together(self.rollouts.close(), all_studied(self.rollouts))
        failed = [one for one in found[1] if one.side == "failure"]
        asks = failed or (found[1] and not self.failure_only)
        looks = (await self.study(step, "0", Evidence(failed=tuple(failed))),) if asks else ()
        step.emit(
            Reflected(
                id=str(step.place.at("reflect")), place=step.place, patches=[patch_fact(one) for one in looks]
            )
        )
        return Reflection(rollouts=found[0], minibatches=looks)

    async def study(self, step: Step, item: str, evidence: Evidence) -> Minibatch:
        """Edits for these failures, beside everything that passed."""
        failed = evidence.failed
        everything = [] if self.failure_only else await all_studied(self.rollouts)
        passed = tuple(one for one in everything if one.side == "success")
        try:
            edits = await self.proposer.propose(
                step, item, replace(evidence, passed=passed, limit=self.limit)
            )
        except Unusable as error:
            return Minibatch.of_lane(failed, error)
        support = {"support_count": max(1, len(failed)), "source_type": "failure"}
        return Minibatch.of_lane(
            failed, [replace(edit, evidence={**support, **edit.evidence}) for edit in edits]
        )
