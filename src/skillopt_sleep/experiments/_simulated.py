"""The *simulated* models of the experiments: what the doubles of a persona answer, and how they stand in.

They answer over HTTP on this machine, so that every call passes the same wire, store and budget as a real
model's. Nothing is parsed: requests and rules are looked up whole.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

from skillopt.build import Job
from skillopt.config import RoleSpec
from skillopt.night import Roles
from skillopt.testing import Call, LoopbackProvider
from skillopt_sleep.experiments._persona import Persona

Answers: TypeAlias = Callable[[Call], str]
TARGET, OPTIMIZER, TWIN, STUBBORN = (
    "simulated-target",
    "simulated-optimizer",
    "simulated-twin",
    "simulated-stubborn",
)
"""Names of simulated models. The twin does as the target does; the stubborn one reads no skill."""


def of_persona(persona: Persona) -> Answers:
    """The simulated target and optimizer of a persona.

    The target follows a rule where the skill or the request states it. The optimizer is tempted by the
    harmful edit until it stands in what it is shown - in the skill, or among the edits that were tried - and
    then proposes the rules that failed requests lack.
    """

    def target(call: Call) -> str:
        request = next(request for request in persona.requests if request.prompt in call.text)
        skill = "" if call.body["model"] == STUBBORN else call.text
        follows = {
            name for name, rule in persona.rules.items() if name not in request.missing or rule in skill
        }
        return persona.write(request.facts, frozenset(follows), persona.harmful in skill)

    def propose(call: Call) -> Sequence[str]:
        if persona.tempted and persona.harmful not in call.text:
            return [persona.harmful]
        lacking = {
            name for request in persona.requests if request.prompt in call.text for name in request.missing
        }
        return [rule for name, rule in persona.rules.items() if name in lacking and rule not in call.text]

    return answers_of(target, propose)


@asynccontextmanager
async def models_for(
    answers: Answers | None, *, target: str | None, optimizer: str | None
) -> AsyncIterator[tuple[Roles, Callable[[str], str]]]:
    """The roles - models as they were named, and simulated ones for those that were not - and what makes a
    model string of the name of any simulated model.
    """
    if answers is None:
        assert target is not None and optimizer is not None, "without doubles both roles are named"
        yield Roles(target=target, optimizer=optimizer), str
        return
    async with LoopbackProvider(answers) as provider:

        def double(name: str) -> str:
            return f"compatible:{name}@{provider.base_url}"

        yield Roles(target=target or double(TARGET), optimizer=optimizer or double(OPTIMIZER)), double


def without_ports(job: Job) -> Job:
    """The job with its simulated models at no address: theirs has a new port each time, and they are the
    same.
    """

    def still(spec: RoleSpec) -> RoleSpec:
        return spec.at("") if spec.model.name in (TARGET, OPTIMIZER, TWIN, STUBBORN) else spec

    judge = None if job.judge is None else still(job.judge)
    return replace(job, target=still(job.target), optimizer=still(job.optimizer), judge=judge)


def answers_of(target: Answers, propose: Callable[[Call], Sequence[str]]) -> Answers:
    """A simulated target, and an optimizer that proposes these rules where it is shown failures."""

    def answer(call: Call) -> str:
        place = call.place or ""
        if place.startswith("rollout/"):
            return target(call)
        rules = propose(call) if "/analyst_failure/" in place else ()
        edits = [{"op": "append", "content": rule, "rationale": "simulated"} for rule in rules]
        return json.dumps(
            {
                "batch_size": 1,
                "failure_summary": [],
                "success_patterns": [],
                "patch": {"reasoning": "simulated", "edits": edits},
            }
        )

    return answer
