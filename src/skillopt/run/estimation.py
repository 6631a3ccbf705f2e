"""What a training run will cost, before anything is spent: calls, tokens and dollars by stage, as a rule and
at most, and what a budget buys of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillopt.errors import ModelError
from skillopt.evaluation.significance import smallest_gain
from skillopt.harnesses import FIRST_TOKENS, works_alone
from skillopt.messages import Message, Request, Role, Usage
from skillopt.models import PROVIDERS, provider
from skillopt.models.port import Model, ModelSpec
from skillopt.money import Budget, Price, cost
from skillopt.run.calls import FIXED_STAGES, NOTHING, Figure, planned_calls
from skillopt.run.description import format_listed_beside
from skillopt.run.job import Job
from skillopt.run.lengths import AGENT_TOKENS, CHARS_A_TOKEN, Lengths, replies_of
from skillopt.run.models import budget_of, known_price, least_cap
from skillopt.runs.words import spent

_LONG = "\n".join(f"Line {number} of a list that is read and not answered." for number in range(10))
_WRITTEN = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """One stage of the run. `usd` is None where the price is unknown, `seconds` where the speed is."""

    stage: str
    role: Role
    calls: Figure
    tokens: Figure
    usd: Figure | None
    seconds: Figure | None = None
    """Of a model of this machine, whose calls follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The whole run, stage by stage, what the figures assume, and what the budget buys."""

    lines: Sequence[StageCost]
    steps: int
    assumptions: Sequence[str]
    simulated: bool
    budget: Budget = field(default_factory=Budget)
    advice: str = ""
    shows: str = ""
    """Which gain the tasks can show."""
    prices: Mapping[str, str] = field(default_factory=dict)
    """Where each role's price comes from, with its date."""

    @property
    def calls(self) -> Figure:
        return _within(sum((line.calls for line in self.lines), NOTHING), self.budget.calls)

    @property
    def tokens(self) -> Figure:
        return _within(sum((line.tokens for line in self.lines), NOTHING), self.budget.tokens)

    @property
    def usd(self) -> Figure | None:
        """None as soon as one price is unknown: unknown is never zero."""
        known = [line.usd for line in self.lines if line.usd is not None]
        if len(known) < len(self.lines):
            return None
        limit = self.budget.usd
        return _within(sum(known, NOTHING), None if limit is None else float(limit))

    @property
    def seconds(self) -> Figure | None:
        """What the models of this machine take; None where none was measured."""
        known = [line.seconds for line in self.lines if line.seconds is not None]
        return sum(known, NOTHING) if known else None

    def in_words(self) -> str:
        """What is typical and the most, in one line."""
        dollars = None if self.usd is None else self.usd.typical
        typical = spent(round(self.calls.typical), round(self.tokens.typical), dollars)
        most = "" if self.calls.at_most is None else f"; at most {self.calls.at_most:,.0f} calls"
        return f"{'Simulated, typically' if self.simulated else 'Typically'} {typical}{most}"


def estimate(
    job: Job, *, reply_tokens: Mapping[Role, int] | None = None, speeds: Mapping[Role, Speed] | None = None
) -> Estimate:
    """What a run of this job will take. Nothing is sent; task and skill texts are measured as they are.

    `reply_tokens` says how long replies are, where that is known better than by our guess; `speeds` how fast
    models of this machine are (`speeds_of`), so that the time is told too.
    """
    roles = _asked(job)
    prices = {role: known_price(spec) for role, spec in roles.items()}
    texts = Lengths(job, {**replies_of(roles), **(reply_tokens or {})})
    measured = speeds or {}
    made = Estimate(
        lines=[
            _line(stage, role, calls, texts, prices[role], measured.get(role))
            for (stage, role), calls in planned_calls(job, texts.part.shape).items()
        ],
        steps=texts.part.plan.total_steps,
        assumptions=[*_assumptions(job, texts), *_timing(job, measured)],
        simulated=job.simulated,
        budget=budget_of(job.config),
        shows=_shown_by(job),
        prices={
            role: "unknown" if price is None else f"{price.source}, {price.date.isoformat()}"
            for role, price in prices.items()
        },
    )
    return replace(made, advice=advice_on(made, largest_reply(job)))


def noise_cost(job: Job, draws: int, reply_tokens: Mapping[Role, int] | None = None) -> StageCost:
    """What it takes to draw every val task so often."""
    texts = Lengths(job, {**replies_of(_asked(job)), **(reply_tokens or {})})
    rows = draws * len(job.splits.val)
    calls = texts.part.shape.turns.times(rows)
    return _line("noise", "target", calls, texts, known_price(job.target), None)


def _line(
    stage: str, role: Role, calls: Figure, texts: Lengths, price: Price | None, speed: Speed | None
) -> StageCost:
    """A stage with what its calls take."""
    read, written, most_read, most_written = texts.of(stage, role)
    tokens = calls.times(read + written, most_read + most_written)
    usd = None
    if price is not None:
        as_a_rule = Usage(input_tokens=math.ceil(read), output_tokens=math.ceil(written))
        at_most = Usage(input_tokens=most_read, output_tokens=most_written)
        usd = calls.times(float(cost(as_a_rule, price)), float(cost(at_most, price)))
    seconds = None
    if speed is not None:
        seconds = calls.times(
            read / speed.read + written / speed.written, most_read / speed.read + most_written / speed.written
        )
    return StageCost(stage=stage, role=role, calls=calls, tokens=tokens, usd=usd, seconds=seconds)


def _within(figure: Figure, limit: float | None) -> Figure:
    """A run spends no more than its budget."""
    if limit is None:
        return figure
    return replace(figure, at_most=limit if figure.at_most is None else min(figure.at_most, limit))


def _shown_by(job: Job) -> str:
    """Which gain a test on these tasks can show."""
    tasks = len(job.splits.all) if job.division.folds else len(job.splits.test)
    if not tasks:
        return ""
    gain = smallest_gain(tasks)
    are = f"{tasks} {'tasks that are each judged' if job.division.folds else 'test tasks'}"
    if gain is None:
        return f"{are} are too few to show any gain."
    return f"{are} show a true gain of {gain:.2f} with 80 % chance, if nothing that works breaks."


def _assumptions(job: Job, texts: Lengths) -> list[str]:
    """What the figures rest on, for the reader to doubt."""
    lengths = [
        f"a reply of the {role} has {tokens} tokens"
        for role, tokens in texts.replies.items()
        if role != "judge"
    ]
    tasks = [*job.splits.train, *job.splits.val]
    size = sum(len(task.prompt) for task in tasks) / len(tasks)
    told = [
        ", ".join(lengths),
        f"{CHARS_A_TOKEN} characters are a token; tasks have {size:,.0f} characters, the skill grows from"
        f" {len(job.skill.rendered):,} to {texts.grown:,}",
        "at most is all that the plan can ask, each reply up to its cap and the skill up to"
        f" {texts.longest:,} characters (gate.policy size_capped holds it there); calls that fail or are slow"
        " and are sent again come on top",
        "nothing is in a cache",
    ]
    if job.bad_rows:
        told.append(job.bad_rows)
    if folds := job.division.folds:
        told.append(
            f"{len(folds)} folds and the run on all tasks, each in {len(job.division.earlier) + 1} rounds,"
            " which share what they measure"
        )
    if (turns := texts.part.shape.turns).typical > 1:
        own = f", each with {AGENT_TOKENS:,} tokens of the agent's own"
        told.append(f"a rollout takes {turns.typical:g} turns" + own * works_alone(job.target.harness))
    if job.targets:
        told.append(f"each of the {len(job.targets)} targets takes what the first does")
    if job.listing is not None:
        told.append(format_listed_beside(job.listing).removesuffix("."))
    if job.judge is not None:
        told.append(
            f"every answer is judged (equal ones of a task only once), in {texts.replies['judge']} tokens"
        )
    return told


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


def advice_on(made: Estimate, largest: tuple[int, str]) -> str:
    """What the budget buys: steps, and whether the test and the largest single call fit in."""
    budget = made.budget
    if not budget.is_limited:
        return ""
    shares = []
    in_step = 0.0
    limits = {"calls": budget.calls, "tokens": budget.tokens, "usd": budget.usd, "seconds": budget.seconds}
    for name, limit in limits.items():
        amounts = [(line.stage, getattr(line, name)) for line in made.lines]
        if limit is None or any(amount is None for _, amount in amounts):
            continue
        fixed = sum(amount.typical for stage, amount in amounts if stage in FIXED_STAGES)
        in_steps = sum(amount.typical for stage, amount in amounts if stage not in FIXED_STAGES)
        left = float(limit) - fixed
        shares.append(left / in_steps * made.steps if in_steps else float(made.steps))
        if name == "tokens":
            in_step = left
    if not shares:
        unknown = (
            "a price is unknown"
            if budget.usd is not None
            else "how long a call takes is not known before the first one"
        )
        return f"What {budget.describe()} buys cannot be said: {unknown}."
    if budget.tokens is not None and min(shares) >= 1 and in_step < largest[0]:
        return (
            f"{budget.describe()} will not pay for a step: one call sets aside {largest[0]:,} tokens of"
            f" output. Lower {largest[1]}, or raise the budget."
        )
    if min(shares) >= made.steps:
        return f"{budget.describe()} should pay for the whole run."
    if min(shares) < 1:
        return (
            f"{budget.describe()} will hardly pay for baseline and test; a larger budget or fewer val and"
            " test tasks are needed."
        )
    return (
        f"{budget.describe()} should pay for about {math.floor(min(shares))} of {made.steps} steps; a"
        " larger budget goes on from there."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens a second of one call at a time."""

    read: float
    written: float


def local_roles(job: Job) -> dict[Role, ModelSpec]:
    """The roles whose model works on this machine, one call after the other."""
    return {
        role: spec
        for role, spec in _asked(job).items()
        if spec.provider in PROVIDERS.names() and provider(spec.provider).on_this_machine
    }


def _asked(job: Job) -> dict[Role, ModelSpec]:
    """The roles whose calls are counted; an agent that proposes is the optimizer."""
    return {role: spec for role, spec in job.roles.items() if role != "proposer"}


def _timing(job: Job, speeds: Mapping[Role, Speed]) -> list[str]:
    """What is known of the time that models of this machine take."""
    if not (local := local_roles(job)):
        return []
    if not speeds:
        what = f"{' and '.join(local)} {'work' if len(local) > 1 else 'works'} on this machine"
        return [f"{what}, and how fast is not known before a first call: --measure makes three short ones"]
    return [
        f"the {role} reads {one.read:,.0f} and writes {one.written:,.1f} tokens a second, as just measured"
        for role, one in speeds.items()
    ]


async def speeds_of(job: Job, clock: Callable[[], float] = time.perf_counter) -> Mapping[Role, Speed]:
    """Three short calls to each model of this machine; the first loads it and is not timed."""
    found: dict[Role, Speed] = {}
    for role, spec in local_roles(job).items():
        model = provider(spec.provider)(spec)
        try:
            found[role] = await _speed(model, role, clock)
        finally:
            await model.close()
    return found


async def _speed(model: Model, role: Role, clock: Callable[[], float]) -> Speed:
    first = Request(
        messages=(Message(role="user", content="Say yes."),),
        max_tokens=1,
        role=role,
        stage="estimate",
        place=f"estimate/{role}",
    )
    await model.complete(first)
    long = replace(first, messages=(Message(role="user", content=_LONG),))
    asked, took = await _timed(model, long, clock)
    read = asked.input_tokens / took
    tell = Message(role="user", content="Tell a long story about a lighthouse.")
    said, took = await _timed(model, replace(first, messages=(tell,), max_tokens=_WRITTEN), clock)
    writing = max(took - said.input_tokens / read, took / 10)
    return Speed(read=read, written=said.output_tokens / writing)


async def _timed(model: Model, request: Request, clock: Callable[[], float]) -> tuple[Usage, float]:
    began = clock()
    reply = await model.complete(request)
    if reply.usage is None or not reply.usage.output_tokens:
        raise ModelError("contract", f"{model.endpoint} does not say how many tokens it read and wrote")
    return reply.usage, max(clock() - began, 1e-6)
