"""Decides what a training run will probably cost, before anything is spent: calls, tokens and dollars per
stage, with a range.
"""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.build.job import Job
from skillopt.build.money import budget_of, known_price
from skillopt.config import RoleSpec
from skillopt.estimation.advice import advised
from skillopt.estimation.figures import NOTHING, Estimate, Line, Range, Role
from skillopt.estimation.plan import REPLY_TOKENS, SIMULATED_REPLY_TOKENS, Plan
from skillopt.models.prices import Price

__all__ = ["NOTHING", "Estimate", "Line", "Range", "estimate"]


def estimate(job: Job, *, reply_tokens: Mapping[Role, int] | None = None) -> Estimate:
    """What a run of this job will take. Nothing is sent; task and skill texts are measured as they are.

    `reply_tokens` says how long replies are, where that is known better than by our guess.
    """
    roles: dict[Role, RoleSpec] = {"target": job.target, "optimizer": job.optimizer}
    if job.judge is not None:
        roles["judge"] = job.judge
    prices = {role: known_price(spec) for role, spec in roles.items()}
    guessed = {
        role: (SIMULATED_REPLY_TOKENS if spec.model.provider == "world" else REPLY_TOKENS)[role]
        for role, spec in roles.items()
    }
    plan = Plan(job, {**guessed, **(reply_tokens or {})})
    lines = [
        plan.line(stage, role, calls, size, prices[role])
        for stage, role, calls, size in plan.stages()
        if calls.high
    ]
    made = Estimate(
        lines=lines,
        steps=plan.steps,
        assumptions=plan.assumptions(),
        simulated=job.simulated,
        prices={role: _told(price) for role, price in prices.items()},
    )
    return advised(made, budget_of(job.config), plan.largest_reply())


def _told(price: Price | None) -> str:
    return "unknown" if price is None else f"{price.source}, {price.date.isoformat()}"
