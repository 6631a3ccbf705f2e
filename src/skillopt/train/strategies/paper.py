"""The published loop: analysts of failures and successes, merging, a ranking down to the learning rate, one
bundle to the gate.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from skillopt.optimizer.update import halves
from skillopt.train.strategies.port import JudgedCandidate, StepFindings, Strategy, StrategyContext


class Paper(Strategy):
    """The six stages as published; a bundle that was clearly worse is tried again as its halves."""

    def __init__(self, context: StrategyContext) -> None:
        self._optimizer = context.optimizer
        self._gate = context.gate
        self._attempt = context.attempt
        self._salvages = context.config.optimizer.salvage

    async def stages(self, findings: StepFindings) -> AsyncGenerator[str, None]:
        step = findings.step
        findings.reflection = await self._optimizer.reflect(step, findings.rollouts)
        yield "reflect"
        merged = await self._optimizer.aggregate(step, findings.reflection)
        yield "aggregate"
        findings.selection = await self._optimizer.select(step, findings.reflection, merged)
        yield "select"
        update = await self._optimizer.update(step, findings.reflection, findings.selection)
        yield "update"
        bundle = await self._attempt(findings, update)
        if bundle.verdict.action == "reject" and self._salvages and self._gate.is_on:
            await step.timed("salvage", self._salvage(findings, bundle))
        yield "evaluate"

    async def _salvage(self, findings: StepFindings, bundle: JudgedCandidate) -> None:
        """A bundle that was clearly worse may be a good half and a bad one: each half is tried once, until
        one is accepted.

        Clearly means before half of val was read. A near miss holds nothing worth separating: its halves
        would be accepted by luck alone, and measuring them costs steps (figures: docs/decisions/065). When
        the first half is accepted the second is not tried on top of it: both together are the bundle, and
        that was not even better than the skill before. Notes are no part of the limit and came along
        unchosen, so a bundle with notes is always taken apart.
        """
        update, verdict = bundle.update, bundle.verdict
        if update.appendix is None and 2 * len(verdict.rows) >= verdict.rows_total:
            return
        for half in halves(update, findings.step.skill):
            if (await self._attempt(findings, half)).is_accepted:
                return


PLUGIN = Paper
