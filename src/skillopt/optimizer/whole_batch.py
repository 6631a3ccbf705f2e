"""One proposer for a whole batch in the place of analysts: stage 2 of `paper`, and the lanes of `proof`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillopt.aio import together
from skillopt.evaluation.stage import Evaluation
from skillopt.events import Reflected
from skillopt.models.reading import Unusable
from skillopt.optimizer.minibatches import Studied, all_studied
from skillopt.optimizer.proof import DeadEdit
from skillopt.optimizer.proposers.port import Evidence, Proposer
from skillopt.optimizer.reflect import Minibatch, Reflection, patch_fact
from skillopt.skill.edits import Edit
from skillopt.step import Step


class WholeBatch:
    """The batch of one step as a proposer is shown it. `limit` is how many edits the step may take."""

    varies = False
    """Whether another look asks another question, also where nothing new is known."""

    def __init__(
        self, proposer: Proposer, rollouts: Evaluation, *, failure_only: bool, limit: int | None = None
    ) -> None:
        self._proposer = proposer
        self._rollouts = rollouts
        self._failure_only = failure_only
        self._limit = limit

    async def reflect(self, step: Step) -> Reflection:
        """Wait for the batch, and ask once."""
        found: list[Any] = await together(self._rollouts.close(), all_studied(self._rollouts))
        failed = [one for one in found[1] if one.side == "failure"]
        asks = failed or (found[1] and not self._failure_only)
        looks = (await self.study(step, "0", failed),) if asks else ()
        step.emit(
            Reflected(
                id=str(step.place.at("reflect")), place=step.place, patches=[patch_fact(one) for one in looks]
            )
        )
        return Reflection(rollouts=found[0], minibatches=looks)

    async def study(
        self,
        step: Step,
        item: str,
        chunk: Sequence[Studied],
        *,
        dead: Sequence[DeadEdit] = (),
        harmful: Sequence[Edit] = (),
        kinds: Mapping[str, int] | None = None,
    ) -> Minibatch:
        """Edits for these failures, beside everything that passed."""
        everything = [] if self._failure_only else await all_studied(self._rollouts)
        evidence = Evidence(
            failed=tuple(chunk),
            passed=tuple(one for one in everything if one.side == "success"),
            limit=self._limit,
            dead=tuple(dead),
            harmful=tuple(harmful),
            kinds=kinds or {},
        )
        tasks = tuple(one.task.id for one in chunk)
        try:
            edits = await self._proposer.propose(step, item, evidence)
        except Unusable as error:
            return Minibatch(kind="failure", index=0, tasks=tasks, dropped=str(error))
        support = {"support_count": max(1, len(chunk)), "source_type": "failure"}
        counted = tuple(replace(edit, evidence={**support, **edit.evidence}) for edit in edits)
        return Minibatch(kind="failure", index=0, tasks=tasks, edits=counted)
