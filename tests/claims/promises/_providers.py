"""Providers that fall ill on purpose: which calls go wrong, how, and for how long; and small runs against
them.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claims._product import (
    SEED_SKILL,
    Call,
    LoopbackProvider,
    Misbehaviour,
    Retry,
    Sink,
    WorldRules,
    api,
    open_run,
    world_answers,
)
from claims.promises._runs import QUICK, make_job, verdicts

SIZES = ("env.train_cases=16", "env.val_cases=12", "env.test_cases=12", "evaluation.repeats=1")
PLAN = ("train.batch_size=16", "train.num_epochs=2", "gradient.minibatch_size=4")
CAPS = ("model.target.max_tokens=64", "model.optimizer.max_tokens=1000")
QUIET = WorldRules(noise=0.0, seed=6)
"""A world without noise: an answer depends on the skill and the case, not on the number of the attempt.

The seed is one with which both steps are accepted and the slow update is rejected; the tests' undisturbed
runs check that it still is.
"""
SEED_TEXT = f"## Skill\n\n{SEED_SKILL.strip()}\n\nAnswer with the code"
"""How the prompt of a rollout with the seed reads, and of no other: a trained skill may begin with the whole
seed.
"""
STAGES = ("baseline", "rollout", "analyst_failure", "merge", "gate", "slow_update", "test")
_CASE = re.compile(r"\bW00(\d)\d{3}\b")


def stage_of(call: Call) -> str:
    """Where in a run of the simulated world a call belongs, read from what a provider can see."""
    place = call.place or ""
    if not place.startswith("rollout/"):
        return place.rsplit("/", 3)[1]
    group = int(_CASE.findall(call.text)[-1])
    if group == 6:
        return "test"
    if group != 3:
        return "rollout"
    return "baseline" if SEED_TEXT in call.text else "gate"


def case_of(call: Call) -> str:
    """The case a rollout is about."""
    found = re.findall(r"\bW\d{6}\b", call.text)
    return found[-1] if (call.place or "").startswith("rollout/") and found else ""


def hash_of(call: Call) -> int:
    """A number that depends on the question alone."""
    return zlib.crc32(f"{call.place};{call.draw}".encode())


@dataclass
class Outage:
    """Goes wrong for the calls that `strikes` picks, until it is `over`; notes which calls were spared."""

    wrong: Misbehaviour | Callable[[Call], Misbehaviour]
    strikes: Callable[[Call], bool]
    over: bool = False
    hits: int = 0
    spared: set[tuple[str | None, int | None]] = field(default_factory=set)

    def __call__(self, call: Call) -> Misbehaviour | None:
        if self.over or not self.strikes(call):
            self.spared.add((call.place, call.draw))
            return None
        self.hits += 1
        return self.wrong if isinstance(self.wrong, Misbehaviour) else self.wrong(call)


def at(stage: str) -> Callable[[Call], bool]:
    """Every call of a stage."""
    return lambda call: stage_of(call) == stage


def on(*cases: str) -> Callable[[Call], bool]:
    """Every rollout of these cases."""
    return lambda call: case_of(call) in cases


def options(provider: LoopbackProvider, *more: str) -> tuple[str, ...]:
    """A small run of both roles against a provider."""
    model = f"compatible:m@{provider.base_url}"
    return (f"model.target={model}", f"model.optimizer={model}", *SIZES, *PLAN, *CAPS, *more)


async def train(
    provider: LoopbackProvider, folder: Path, *more: str, retry: Retry = QUICK, sinks: Sequence[Sink] = ()
) -> tuple[api.Result, dict[str, Any]]:
    """Run, or go on, in a folder; the result and the ledger's view of the spending."""
    async with open_run(make_job(options(provider, *more)), folder, retry=retry, sinks=sinks) as opened:
        result = await api.train(opened)
        return result, opened.spending()


def provider_of(
    behave: Callable[[Call], Misbehaviour | None] | None = None,
    *,
    answer: Callable[[Call], Any] | None = None,
    **more: Any,
) -> LoopbackProvider:
    """The quiet world behind a provider."""
    return LoopbackProvider(answer or world_answers(QUIET), behave=behave, **more)


def asked(provider: LoopbackProvider, since: int = 0) -> set[tuple[str | None, int | None]]:
    """Place and draw of every request from the `since`-th on."""
    return {(entry.place, entry.draw) for entry in provider.log[since:]}


def repeated(places: Iterable[tuple[str | None, int | None]], kept: set[tuple[str, int]]) -> set[Any]:
    """Questions that were asked although their answer had been kept."""
    return {place for place in places if place in kept}


def quiet_run(folder: Path) -> Path:
    """A whole run of the quiet world, which the disturbed ones are compared with."""

    async def go() -> None:
        async with provider_of() as provider:
            await train(provider, folder)

    asyncio.run(go())
    assert [verdict["action"] for verdict in verdicts(folder)] == ["accept", "accept", "reject"], (
        "choose another seed for QUIET"
    )
    return folder
