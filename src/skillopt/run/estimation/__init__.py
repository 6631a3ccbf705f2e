"""What a training run will probably cost, before anything is spent: calls, tokens and dollars per stage, with
a range. The figures come from rehearsing the run in memory.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace

from skillopt.errors import ModelError
from skillopt.evaluation.judge import ATTEMPTS
from skillopt.messages import Message, Request, Role, Usage
from skillopt.models import PROVIDERS, provider
from skillopt.models.port import Model, ModelSpec
from skillopt.money import TEST_STAGE, Price, cost
from skillopt.run.crossfit import fold_of
from skillopt.run.description import format_listed_beside
from skillopt.run.estimation.counting import CHARS_A_TOKEN, Counted, stages_of
from skillopt.run.estimation.figures import NOTHING, Estimate, Range, StageCost, advised, largest_reply
from skillopt.run.estimation.rehearsal import AGENT_TOKENS, LUCKS, Luck, Rehearsal, Rehearsed
from skillopt.run.job import Job
from skillopt.run.models import budget_of, known_price

__all__ = ["NOTHING", "Estimate", "Range", "Speed", "StageCost", "estimate", "speeds_of"]
REPLY_TOKENS: Mapping[Role, int] = {"target": 300, "optimizer": 900, "judge": 120}
"""Replies of real models, where nothing better is known."""
SPREAD = 1.2
_SHORTER, _LONGER = (0.8, 0.5), (1.4, 2.0)
"""Factors on questions and on replies: how much shorter and longer than assumed they may be."""
_LONG = "\n".join(f"Line {number} of a list that is read and not answered." for number in range(10))
_WRITTEN = 48


def estimate(
    job: Job, *, reply_tokens: Mapping[Role, int] | None = None, speeds: Mapping[Role, Speed] | None = None
) -> Estimate:
    """What a run of this job will take. Nothing is sent; task and skill texts are measured as they are.

    `reply_tokens` says how long replies are, where that is known better than by our guess; `speeds` how fast
    models of this machine are (`speeds_of`), so that the time is told too.
    """
    roles = _asked(job)
    prices = {role: known_price(spec) for role, spec in roles.items()}
    guessed = {role: None if spec.provider == "world" else REPLY_TOKENS[role] for role, spec in roles.items()}
    # Of a cross-fitted run one part is rehearsed, the last round of a fold; the others are like it.
    folds = job.division.folds
    part = fold_of(job, folds[0][-1:]) if folds else job
    rehearsal = Rehearsal.of(part, {**guessed, **(reply_tokens or {})})
    # In a thread of its own, as the caller may have an event loop running.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(copy_context().run, asyncio.run, _rehearse(rehearsal)).result()
    by_luck = {luck: _of_all_parts(job, one.stages) for luck, one in found.items()}

    made = Estimate(
        lines=[
            _cost(key, by_luck, prices[key[1]], (speeds or {}).get(key[1]), rehearsal)
            for key in stages_of(by_luck.values())
        ],
        steps=rehearsal.steps,
        assumptions=[*_assumptions(job, rehearsal, found["likely"]), *_timing(job, speeds or {})],
        simulated=job.simulated,
        prices={
            role: "unknown" if price is None else f"{price.source}, {price.date.isoformat()}"
            for role, price in prices.items()
        },
    )
    return advised(made, budget_of(job.config), largest_reply(job))


def _of_all_parts(job: Job, stages: Mapping[tuple[str, Role], Counted]) -> Mapping[tuple[str, Role], Counted]:
    """The counts of one part for all parts of a cross-fitted run; only the last round of a fold is tested."""
    folds = job.division.folds
    if not folds:
        return stages
    parts = (len(job.division.earlier) + 1) * (len(folds) + 1)
    return {key: _times(one, len(folds) if key[0] == TEST_STAGE else parts) for key, one in stages.items()}


async def _rehearse(rehearsal: Rehearsal) -> dict[Luck, Rehearsed]:
    return {luck: await rehearsal.run(luck) for luck in LUCKS}


def _cost(
    key: tuple[str, Role],
    by_luck: Mapping[Luck, Mapping[tuple[str, Role], Counted]],
    price: Price | None,
    speed: Speed | None,
    rehearsal: Rehearsal,
) -> StageCost:
    """A stage between the least and the most of all rehearsals."""
    stage, role = key
    counts = {luck: stages.get(key, Counted()) for luck, stages in by_luck.items()}
    fewest = min(counts.values(), key=lambda one: one.calls)
    most = max(counts.values(), key=lambda one: one.calls)
    if role == "judge":  # equal answers to a task are judged once, and unusable replies asked for again
        fewest = _times(fewest, min(1.0, rehearsal.tasks_judged(stage) / max(1.0, fewest.calls)))
        most = _times(most, ATTEMPTS)
    if most.calls > fewest.calls:  # what varies from one luck to the next varies more in life
        most = _times(most, SPREAD)
    bounds = ((fewest, *_SHORTER), (counts["likely"], 1.0, 1.0), (most, *_LONGER))
    spent = [(one.input_tokens * asked, one.output_tokens * said) for one, asked, said in bounds]
    tokens = Range(low=sum(spent[0]), likely=sum(spent[1]), high=sum(spent[2]))
    usd = None
    if price is not None:
        used = [Usage(input_tokens=math.ceil(asked), output_tokens=math.ceil(said)) for asked, said in spent]
        paid = [float(cost(one, price)) for one in used]
        usd = Range(low=paid[0], likely=paid[1], high=paid[2])
    seconds = None
    if speed is not None:
        reads = (0.0, 1.0, 1.0)  # with luck everything but the first words was read by an earlier call
        took = [
            reads[at] * asked / speed.read + said / speed.written for at, (asked, said) in enumerate(spent)
        ]
        seconds = Range(low=took[0], likely=took[1], high=took[2])
    calls = Range(low=fewest.calls, likely=counts["likely"].calls, high=most.calls)
    return StageCost(stage=stage, role=role, calls=calls, tokens=tokens, usd=usd, seconds=seconds)


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


def _times(one: Counted, factor: float) -> Counted:
    return Counted().plus(one, factor)


def _assumptions(job: Job, rehearsal: Rehearsal, likely: Rehearsed) -> list[str]:
    """What the figures rest on, for the reader to doubt."""
    lengths = [
        f"a reply of the {role} has {tokens} tokens"
        for role, tokens in rehearsal.replies.items()
        if tokens is not None and role != "judge"
    ]
    if None in rehearsal.replies.values():
        lengths.append("the simulated world's replies are short")
    tasks = [*job.splits.train, *job.splits.val]
    size = sum(len(task.prompt) for task in tasks) / len(tasks)
    told = [
        ", ".join(lengths),
        f"{CHARS_A_TOKEN} characters are a token; tasks have {size:,.0f} characters, the skill grows from"
        f" {len(job.skill.rendered):,} to {likely.skill_chars:,}",
        "the run goes as one in the simulated world does: rehearsed with its trainer, once as is likely, and"
        " with more and less luck",
        "nothing is in a cache",
    ]
    if job.bad_rows:
        told.append(job.bad_rows)
    if folds := job.division.folds:
        told.append(
            f"{len(folds)} folds and the run on all tasks, each in {len(job.division.earlier) + 1} rounds,"
            " cost alike"
        )
    if rehearsal.is_sampled:
        told.append("a part of the plan was rehearsed, and its counts scaled")
    if rehearsal.turns > 1:
        told.append(
            f"a rollout takes {rehearsal.turns} turns"
            + (f", each with {AGENT_TOKENS:,} tokens of the agent's own" * rehearsal.in_agent)
        )
    if job.targets:
        told.append(f"each of the {len(job.targets)} targets takes what the first does")
    if job.listing is not None:
        told.append(format_listed_beside(job.listing).removesuffix("."))
    if job.judge is not None:
        judge = rehearsal.replies["judge"]
        told.append(f"every answer is judged (equal ones of a task only once), in {judge} tokens")
    return told


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
