"""How fast a model of this machine reads and writes: its calls cost no money, but time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from skillopt.build.job import Job
from skillopt.config import RoleSpec
from skillopt.errors import ModelError
from skillopt.messages import Message, Request, Role, Usage
from skillopt.models import PROVIDERS, provider
from skillopt.models.port import Model

_LONG = "\n".join(f"Line {number} of a list that is read and not answered." for number in range(10))
_WRITTEN = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens a second of one call at a time."""

    read: float
    written: float


def local_roles(job: Job) -> dict[Role, RoleSpec]:
    """The roles whose model works on this machine, one call after the other."""
    roles: dict[Role, RoleSpec | None] = {
        "target": job.target,
        "optimizer": job.optimizer,
        "judge": job.judge,
    }
    return {
        role: spec
        for role, spec in roles.items()
        if spec is not None
        and spec.model.provider in PROVIDERS.names()
        and provider(spec.model.provider).on_this_machine
    }


async def speeds_of(job: Job, clock: Callable[[], float] = time.perf_counter) -> Mapping[Role, Speed]:
    """Three short calls to each model of this machine; the first loads it and is not timed."""
    found: dict[Role, Speed] = {}
    for role, spec in local_roles(job).items():
        model = provider(spec.model.provider)(spec.model)
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
