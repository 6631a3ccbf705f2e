"""The *simulated* models of the experiments: what the doubles of a persona answer, and how they stand in.

Every call of them passes the same store and budget as a real model's. Nothing is parsed: requests and rules
are looked up whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from _persona import Persona

from skillopt.models import PROVIDERS, ModelSpec, Provider
from skillopt.testing import FunctionModel
from skillopt_sleep import Roles

DOUBLE = "double"
"""Name of their provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A question to one of them: where in the run it is asked, and all that it says."""

    model: str
    place: str
    text: str


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
        skill = "" if call.model == STUBBORN else call.text
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


@contextmanager
def models_for(
    answers: Answers | None, *, target: str | None, optimizer: str | None
) -> Iterator[tuple[Roles, Callable[[str], str]]]:
    """The roles - models as they were named, and simulated ones for those that were not - and what makes a
    model string of the name of any simulated model.
    """

    def double(name: str) -> str:
        return f"{DOUBLE}:{name}"

    def build(spec: ModelSpec) -> FunctionModel:
        assert answers is not None, "who names both roles has no doubles"
        return FunctionModel(
            lambda request: answers(
                Call(
                    model=spec.name,
                    place=request.place,
                    text="\n".join(message.content for message in request.messages),
                )
            ),
            name=spec.name,
        )

    with PROVIDERS.lend(DOUBLE, Provider(open=build)):
        yield Roles(target=target or double(TARGET), optimizer=optimizer or double(OPTIMIZER)), double


def answers_of(target: Answers, propose: Callable[[Call], Sequence[str]]) -> Answers:
    """A simulated target, and an optimizer that proposes these rules where it is shown failures."""

    def answer(call: Call) -> str:
        place = call.place
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
