"""Decides what a whole rollout reserves and what it cost, where an agent CLI makes the model calls itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from skillopt.errors import ConfigError, Fault, ModelError
from skillopt.executors.port import WorkerLost
from skillopt.messages import Role, Usage
from skillopt.money import MARGIN, Amount, Budget, Entry, Ledger, Price, cost
from skillopt.process.waiting import to_the_end

if TYPE_CHECKING:
    from skillopt.programs.port import AgentReport

FIRST_TOKENS = 60_000
"""What a rollout takes before any has been seen; an agent's system prompt alone is 10,000 tokens a turn."""
FIRST_USD = Fraction(1, 2)
_NOT_WORKED_ON = ("spawn", "auth", "contract")


def reservation(allowance: Budget, most: Amount, price: Price | None) -> Amount:
    """What a rollout sets aside: its allowance, or 1.3 x `most`, the dearest one seen; first a guess."""
    seen = most.times(MARGIN)
    tokens = allowance.tokens or seen.tokens or FIRST_TOKENS
    usd = allowance.usd or seen.usd
    if not usd:
        usd = FIRST_USD if price is None else cost(Usage(input_tokens=tokens, output_tokens=0), price)
    return Amount(calls=max(1, math.ceil(seen.calls)), tokens=tokens, usd=usd)


@dataclass(eq=False, slots=True)
class RolloutBudget:
    """Pays for rollouts: reserves the allowance or 1.3 x the dearest one seen, settles what was reported."""

    ledger: Ledger
    price: Price | None
    allowance: Budget = field(default_factory=Budget)
    """What the user lets one rollout use, in tokens and dollars."""
    role: Role = field(default="target", kw_only=True)
    most: Amount = field(default=Amount(), init=False)
    """The dearest rollout so far."""

    def require_allowance(self, who: str) -> None:
        """An agent that reports no usage can only be held to a budget by an allowance for each rollout."""
        budget, allowance = self.ledger.budget, self.allowance
        for unit, limit, allowed in (
            ("tokens", budget.tokens, allowance.tokens),
            ("usd", budget.usd, allowance.usd),
        ):
            if limit is not None and allowed is None:
                raise ConfigError(
                    f"{who} reports no usage, so a budget in {unit} needs budget.per_rollout.{unit}. Set it."
                )

    async def pay(
        self,
        stage: str,
        place: str,
        work: Callable[[], Coroutine[Any, Any, AgentReport]],
        *,
        background: bool,
        trusts_cost: bool,
    ) -> AgentReport:
        """Run paid work. Once started it runs to its end, so that what is paid is kept, whoever waits.

        `trusts_cost`: the dollars reported are those of the bill, as the CLI talks to its own service.
        """
        need = reservation(self.allowance, self.most, self.price)
        if self.ledger.budget.usd is None and not (self.allowance.usd or self.most.usd or self.price):
            need = replace(need, usd=None)  # a guess holds a budget; as a cost it would be made up
        entry = await self.ledger.reserve(self.role, stage, place, need, background=background)
        return await to_the_end(asyncio.ensure_future(self._run(work, entry, trusts_cost)))

    async def _run(
        self, work: Callable[[], Coroutine[Any, Any, AgentReport]], entry: Entry, trusts_cost: bool
    ) -> AgentReport:
        try:
            report = await work()
        except Fault as fault:
            is_refused = isinstance(fault, ModelError) and fault.refused
            if is_refused or (fault.kind in _NOT_WORKED_ON and not isinstance(fault, WorkerLost)):
                self.ledger.refuse(entry)
            else:
                self.ledger.settle(entry, None, None)
            raise
        except BaseException:  # a bug or a dying loop: it was started, so it stays charged
            self.ledger.settle(entry, None, None)
            raise
        charged = self._charge(report, entry, trusts_cost)
        self.ledger.settle(entry, report.usage, charged)
        if charged is not None:
            self.most = Amount(
                calls=max(self.most.calls, charged.calls),
                tokens=max(self.most.tokens, charged.tokens),
                usd=max(self.most.usd or Fraction(0), charged.usd or Fraction(0)),
            )
        return report

    def _charge(self, report: AgentReport, entry: Entry, trusts_cost: bool) -> Amount | None:
        """What the report says it cost; None where it says nothing, so that the reservation stays charged."""
        usage = report.usage
        if usage is not None and not usage.credible(said_something=bool(report.answer)):
            usage = None
        usd = report.usd if trusts_cost and report.usd else None
        if self.price is not None and usage is not None:
            usd = cost(usage, self.price)
        if usage is None and usd is None:
            return None
        if usd is None:
            usd = self.allowance.usd  # unknown would never fit a dollar budget again
        tokens = entry.reserved if usage is None else usage.total
        return Amount(calls=report.calls, tokens=tokens, usd=usd)
