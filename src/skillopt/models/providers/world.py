"""The rule world: a *simulated* target and a *simulated* optimizer, in which training can be checked without
a key.

The world holds rules: some help the cases that need them, some harm, some only take up room. The simulated
target solves a case iff the rules it needs stand in the skill and no harmful one does; noise flips a few
answers. The simulated optimizer proposes missing rules, and now and then a harmful or useless one. Both are
pure functions of the request and its place.

`world` or `world:noise=0.02,harm=0.33,seed=1` names it; nothing here parses prose: rules and case numbers are
looked up whole.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from skillopt.errors import ConfigError, suggest
from skillopt.messages import Reply, Request, Usage
from skillopt.models.port import ModelSpec, Provider
from skillopt.models.world.optimizer import propose
from skillopt.models.world.rules import CASE, WorldRules, chance, code_of, is_solved
from skillopt.money import per_million


class World:
    """Both roles of the simulation; `Request.role` and `Request.stage` say which is asked."""

    endpoint = "world"

    def __init__(self, settings: WorldRules) -> None:
        self.rules = settings
        self.fingerprint: Mapping[str, Any] = {
            "provider": "world",
            "model": "world",
            **{f.name: getattr(settings, f.name) for f in fields(settings)},
        }

    async def complete(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        text = self.answer(request)
        asked = sum(len(message.content) for message in request.messages)
        usage = Usage(
            input_tokens=math.ceil(asked / 4), output_tokens=min(request.max_tokens, math.ceil(len(text) / 4))
        )
        return Reply(text=text, finish="stop", usage=usage, model="world (simulated)")

    def answer(self, request: Request) -> str:
        """What the simulated target or optimizer says: a function of the request and its place alone."""
        if request.role != "target":
            return json.dumps(propose(request, self.rules), ensure_ascii=False)
        (case,) = set(CASE.findall(request.messages[-1].content)) or {"W000000"}
        solved = is_solved(case, request.messages[0].content)
        if chance("noise", self.rules.seed, request.place, request.draw) < self.rules.noise:
            solved = not solved
        return f"<answer>{code_of(case) if solved else 'unknown'}</answer>"

    async def close(self) -> None:
        """Nothing is open."""


def _parse(text: str) -> WorldRules:
    values: dict[str, Any] = {}
    known = {one.name: one.type for one in fields(WorldRules)}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise ConfigError(f"The world has no setting {name!r}. {suggest(name, known)}")
        try:
            values[name] = int(value) if name == "seed" else float(value)
        except ValueError:
            raise ConfigError(f"The world's {name} is a number, not {value!r}.") from None
    return WorldRules(**values)


def build(spec: ModelSpec) -> World:
    """The simulated model that a `world:...` string names."""
    return World(_parse("" if spec.name == "world" else spec.name))


PLUGIN = Provider(
    open=build,
    needs_name=False,
    simulates_both=True,
    price=per_million(input=0, output=0, source="simulated"),
)
