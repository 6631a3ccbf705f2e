"""The figures of an estimate: a range for every stage, their sum, and what a budget buys of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillopt.harnesses import FIRST_TOKENS, works_alone
from skillopt.messages import Role
from skillopt.money import Budget
from skillopt.run.estimation.counting import BASELINE, JUDGED_OUTSIDE, TEST
from skillopt.run.job import Job
from skillopt.run.models import least_cap
from skillopt.runs.words import spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What is likely, between what is possible with luck and what is possible without."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(low=self.low + other.low, likely=self.likely + other.likely, high=self.high + other.high)

    def as_json(self) -> dict[str, float]:
        """The three figures for programs."""
        return {name: round(getattr(self, name), 4) for name in ("low", "likely", "high")}


NOTHING = Range(low=0, likely=0, high=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """One stage of the run. `usd` is None where the price is unknown, `seconds` where the speed is."""

    stage: str
    role: Role
    calls: Range
    tokens: Range
    usd: Range | None
    seconds: Range | None = None
    """Of a model of this machine, whose calls follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The whole run, stage by stage, what the figures assume, and what the budget buys."""

    lines: Sequence[StageCost]
    steps: int
    assumptions: Sequence[str]
    simulated: bool
    advice: str = ""
    prices: Mapping[str, str] = field(default_factory=dict)
    """Where each role's price comes from, with its date."""

    @property
    def calls(self) -> Range:
        return sum((line.calls for line in self.lines), NOTHING)

    @property
    def tokens(self) -> Range:
        return sum((line.tokens for line in self.lines), NOTHING)

    @property
    def usd(self) -> Range | None:
        """None as soon as one price is unknown: unknown is never zero."""
        known = [line.usd for line in self.lines if line.usd is not None]
        return sum(known, NOTHING) if len(known) == len(self.lines) else None

    @property
    def seconds(self) -> Range | None:
        """What the models of this machine take; None where none was measured."""
        known = [line.seconds for line in self.lines if line.seconds is not None]
        return sum(known, NOTHING) if known else None

    def in_words(self) -> str:
        """What is likely, in one line."""
        dollars = None if self.usd is None else self.usd.likely
        head = "Simulated, likely" if self.simulated else "Likely"
        return f"{head}: {spent(round(self.calls.likely), round(self.tokens.likely), dollars)}"


def largest_reply(job: Job) -> tuple[int, str]:
    """The most output that one call of a step must set aside, and the key that sets it."""
    config, budget = job.config.model, job.config.budget
    target = (least_cap(job.target), "model.target.max_tokens")
    if works_alone(job.target.harness):  # a rollout is paid as a whole
        target = (budget.per_rollout.tokens or FIRST_TOKENS, "budget.per_rollout.tokens")
    caps = [(least_cap(job.optimizer), "model.optimizer.max_tokens")]
    if job.config.optimizer.skill_update_mode != "patch":  # a reply holds a whole skill
        rewriter = replace(job.optimizer, cap=config.rewrite_max_completion_tokens)
        caps.append((least_cap(rewriter), "model.rewrite_max_completion_tokens"))
    return max(target, *((min(cap, config.optimizer.context_window // 2), key) for cap, key in caps))


def advised(made: Estimate, budget: Budget, largest: tuple[int, str]) -> Estimate:
    """What the budget buys: steps, and whether the test and the largest single call fit in."""
    if not budget.is_limited:
        return made
    shares = []
    in_step = 0.0
    fixed_stages = (BASELINE, TEST, JUDGED_OUTSIDE)
    limits = {"calls": budget.calls, "tokens": budget.tokens, "usd": budget.usd, "seconds": budget.seconds}
    for name, limit in limits.items():
        if limit is None:
            continue
        amounts = {line.stage: getattr(line, name) for line in made.lines}
        if any(amount is None for amount in amounts.values()):
            continue
        fixed = sum(amounts[stage].likely for stage in fixed_stages if stage in amounts)
        a_step = sum(amount.likely for stage, amount in amounts.items() if stage not in fixed_stages) / max(
            1, made.steps
        )
        shares.append((float(limit) - fixed) / a_step if a_step else float(made.steps))
        if name == "tokens":
            in_step = float(limit) - fixed
    if not shares:
        unknown = (
            "a price is unknown"
            if budget.usd is not None
            else "how long a call takes is not known before the first one"
        )
        advice = f"What {budget.describe()} buys cannot be said: {unknown}."
    elif budget.tokens is not None and min(shares) >= 1 and in_step < largest[0]:
        advice = (
            f"{budget.describe()} will not pay for a step: one call sets aside {largest[0]:,} tokens of"
            f" output. Lower {largest[1]}, or raise the budget."
        )
    elif min(shares) >= made.steps:
        advice = f"{budget.describe()} should pay for the whole run."
    elif min(shares) < 1:
        advice = (
            f"{budget.describe()} will hardly pay for baseline and test; a larger budget or fewer val and"
            " test tasks are needed."
        )
    else:
        advice = (
            f"{budget.describe()} should pay for about {math.floor(min(shares))} of {made.steps} steps; a"
            " larger budget goes on from there."
        )
    return replace(made, advice=advice)
