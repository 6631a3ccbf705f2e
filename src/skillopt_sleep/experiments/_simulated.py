"""The *simulated* models of the experiments: what the doubles of a persona answer, and how they stand in.

They answer over HTTP on this machine, so that every call passes the same wire, store and budget as a real
model's. Nothing is parsed: requests and rules are looked up whole.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentModels:
    """Who plays which role, and where the doubles are asked."""

    roles: Roles
    address: str

    def double(self, name: str) -> str:
        """The model string of a simulated model."""
        return _string(name, self.address)


@asynccontextmanager
async def models_for(
    answers: Answers | None, *, target: str | None, optimizer: str | None
) -> AsyncIterator[ExperimentModels]:
    """The roles: models as they were named, and simulated ones for those that were not."""
    if answers is None:
        assert target is not None and optimizer is not None, "without doubles both roles are named"
        yield ExperimentModels(roles=Roles(target=target, optimizer=optimizer), address="")
        return
    async with LoopbackProvider(answers) as provider:
        address = provider.base_url
        roles = Roles(
            target=target or _string(TARGET, address), optimizer=optimizer or _string(OPTIMIZER, address)
        )
        yield ExperimentModels(roles=roles, address=address)


def _string(name: str, address: str) -> str:
    return f"compatible:{name}@{address}"


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
