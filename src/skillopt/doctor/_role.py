"""Tries a role's model: one tiny call through the real provider tells whether it is there and lets us in."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from skillopt.agents import driven
from skillopt.config.keys import declared
from skillopt.config.roles import resolve_role
from skillopt.config.schema import Config
from skillopt.config.sections import WORKERS, RoleName
from skillopt.doctor._result import CheckResult, State
from skillopt.errors import ModelError, SkillOptError
from skillopt.harnesses import harness_of, harnesses
from skillopt.harnesses.port import Setup
from skillopt.messages import Image, Message, Reply, Request, Tool
from skillopt.models import PROVIDERS
from skillopt.models import provider as declaration
from skillopt.models.port import Model, ModelSpec
from skillopt.models.reading import Unusable, read
from skillopt.models.stack.scrubbed import Scrubbed
from skillopt.money import Price, cost
from skillopt.redact import Scrubber, without_password
from skillopt.run.models import known_price

LONGEST = 60.0
"""Seconds a tiny call may take, whatever a run would grant it."""
_STEPS = ("reachable", "logged in", "model", "call")
_NO_MODEL = re.compile(
    r"HTTP 404|model.{0,60}(?:not (?:exist|found|available|supported)|unknown)|unknown model|no such model",
    re.IGNORECASE,
)
_STATUS = re.compile(r"HTTP \d\d\d")
Needs: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
"""Finds out which of `QUESTIONS` a role must be able to answer."""
FEW = 16
"""The least that every API takes as an output cap."""
SOME = 64
WITH_THINKING = 1100
"""The least that holds an answer where a model is told to think first: some APIs refuse less."""
_RED_SQUARE = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAJ0lEQVR42u3NsQkAAAjAsP7/tF7hIASyp6lTCQQCgUAgEAgEgi/B"
    "AjLD/C5w/SM9AAAAAElFTkSuQmCC"
)
"""A PNG of 32 by 32 points."""


@dataclass(slots=True)
class Spent:
    """What the tiny calls of a role took. Dollars are None where a price or a usage is unknown."""

    calls: int = 0
    tokens: int = 0
    usd: Fraction | None = field(default_factory=Fraction)

    def add(self, reply: Reply, price: Price | None) -> None:
        """Count a reply."""
        self.calls += 1
        self.tokens += reply.usage.total if reply.usage is not None else 0
        paid = None if reply.usage is None or price is None else cost(reply.usage, price)
        self.usd = None if self.usd is None or paid is None else self.usd + paid


@dataclass(slots=True)
class RoleCheck:
    """The check of one role's model."""

    config: Config
    role: RoleName
    scrubber: Scrubber
    spent: Spent = field(default_factory=Spent)
    findings: list[CheckResult] = field(default_factory=list)
    _refused_forms: int = 0
    _price: Price | None = None

    async def run(self, needs: Needs | None = None, *, calls: bool) -> list[CheckResult]:
        """Try it, and what it `needs` beyond text. Without `calls` what only a call can tell is skipped."""
        spec = self._configured()
        if spec is not None:
            await self._try_model(spec, needs, calls=calls)
        return self.findings

    async def _try_model(self, spec: ModelSpec, needs: Needs | None, *, calls: bool) -> None:
        self._price = self._priced(spec)
        self._harness(spec)
        if reason := _not_called(spec):
            self._add("call", "skipped", reason)
            return
        try:
            hurried = replace(spec, timeout=min(spec.timeout, LONGEST))
            provider: Model = declaration(spec.provider)(hurried)
        # An import: a provider of another package without its dependencies.
        except (SkillOptError, ImportError) as error:
            self._add("call", "fix", f"{spec.provider} cannot be used", str(error))
            return
        try:
            if calls:
                await self._call(provider, spec, needs)
            else:
                await self._knock(provider)
        finally:
            await provider.close()

    def _configured(self) -> ModelSpec | None:
        name = self.config.role(self.role).name
        try:
            spec = resolve_role(self.config, self.role)
        except SkillOptError as error:
            self._add("configured", "fix", f"{name} is not complete", str(error))
            return None
        where = f" at {without_password(spec.base_url)}" if spec.base_url else ""
        self._add("configured", "fine", f"{name}{where}")
        return spec

    def _priced(self, spec: ModelSpec) -> Price | None:
        price = known_price(spec)
        if price is not None:
            figures = {"input": float(price.input * 1_000_000), "output": float(price.output * 1_000_000)}
            cents = f"${figures['input']:g} in and ${figures['output']:g} out per million tokens"
            cents = cents if any(figures.values()) else "costs nothing"
            facts = {**figures, "source": price.source, "date": str(price.date)}
            self._add("price", "fine", f"{cents} ({price.source}, {price.date})", facts=facts)
        else:
            remedy = f"Declare model.{self.role}.price (input and output, dollars per million tokens)."
            if self.config.budget.usd is None:
                self._add("price", "note", "unknown", remedy)
            else:
                self._add("price", "fix", "unknown, and the budget is in dollars", remedy)
        return price

    def _harness(self, spec: ModelSpec) -> None:
        """The harness is built as in a run, which checks an agent program's login and settings."""
        if self.role not in WORKERS:
            return
        try:
            harnesses.get(spec.harness)(Setup(model=spec, agent=spec.agent))
        except (SkillOptError, ImportError) as error:
            self._add("harness", "fix", f"{spec.harness} cannot be used", str(error))
        else:
            self._add("harness", "fine", spec.harness)

    async def _knock(self, provider: Model) -> None:
        """Without a call only the address can be tried; behind a proxy even that says nothing."""
        parts = urlsplit(provider.endpoint)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            self._add("reachable", "skipped", "nothing can be told without a call")
            return
        try:
            connecting = asyncio.open_connection(parts.hostname, parts.port)
            _, writer = await asyncio.wait_for(connecting, 10.0)
        except (OSError, asyncio.TimeoutError) as error:
            told = f"{provider.endpoint} does not take a connection: {error or 'no answer within 10 s'}"
            remedy = "If a proxy leads there, try again without --no-calls. " + self._remedy("unavailable")
            self._add("reachable", "note", told, remedy)
        else:
            writer.close()
            self._add("reachable", "fine", f"{provider.endpoint} takes connections")
        for step in _STEPS[1:]:
            self._add(step, "skipped", "not tried without a call")

    async def _call(self, provider: Model, spec: ModelSpec, needs: Needs | None) -> None:
        model = Scrubbed(provider, self.scrubber)
        began = time.monotonic()
        try:
            reply = await self._complete(model, _request(self.role, spec, "call"))
        except ModelError as error:
            self._explain(error)
            return
        seconds = time.monotonic() - began
        self._add("reachable", "fine", provider.endpoint)
        login = "the login is accepted" if spec.api_key else "it answers without a key of ours"
        self._add("logged in", "fine", login)
        self._add("model", "fine", f"{reply.model or spec.name or 'the program’s own choice'} answers")
        tokens = None if reply.usage is None else reply.usage.total
        told = f"answered in {seconds:.1f} s, {'an unknown number of' if tokens is None else tokens} tokens"
        self._add("call", "fine", told, facts={"seconds": round(seconds, 3), "tokens": tokens})
        wanted = [] if needs is None else await needs()
        await asyncio.gather(*(self._ask(model, spec, name) for name in wanted))

    async def _ask(self, model: Model, spec: ModelSpec, name: str) -> None:
        """Ask one more question, and add what its reply shows."""
        try:
            reply = await self._complete(model, _request(self.role, spec, name))
        except ModelError as error:
            passing = error.kind == "rate_limit"
            self._add(name, "note" if passing else "fix", error.detail, self._remedy(error.kind))
            return
        state, text, remedy = self._judge(name, reply)
        if state != "fine" and reply.finish == "length":
            state, remedy = "note", ""
            text = "the reply was cut at the small cap of this check, so it cannot be told"
        self._add(name, state, text, remedy)

    def _judge(self, name: str, reply: Reply) -> tuple[State, str, str]:
        """What a reply shows: state, text and remedy."""
        if name == "tools" and not reply.tool_calls:
            remedy = "A target that works with tools should call them."
            return "note", "asked to call a tool it answered in words", remedy
        if name != "structured output":
            return "fine", "a tool is called when asked" if name == "tools" else "images are taken", ""
        given_up = self._refused_forms
        how = f" after {given_up} form{'s' * (given_up > 1)} of asking was refused" if given_up else ""
        try:
            read(reply, Shape)
        except Unusable as error:
            remedy = f"Set model.{self.role}.structured_output to schema, or name a stronger model."
            return "fix", f"the reply cannot be used{how}: {error}", remedy
        return "fine", f"JSON as asked{how}", ""

    async def _complete(self, model: Model, request: Request) -> Reply:
        while True:
            try:
                reply = await model.complete(request)
            except ModelError as error:
                if not error.again:
                    raise
                self._refused_forms += request.schema is not None
            else:
                self.spent.add(reply, self._price)
                return reply

    def _explain(self, error: ModelError) -> None:
        """What a failed call says about the steps before it, and about the one it failed at."""
        failed = _failed_at(error)
        for step in _STEPS[:failed]:
            self._add(step, "fine", "as the refusal shows")
        state: State = "note" if error.kind == "rate_limit" else "fix"
        self._add(_STEPS[failed], state, error.detail, self._remedy(error.kind, failed))
        for step in _STEPS[failed + 1 :]:
            self._add(step, "skipped", "the call did not come so far")

    def _remedy(self, kind: str, failed: int = 3) -> str:
        key = f"model.{self.role}"
        provider = self.config.role(self.role).name.rpartition("/")[2].partition(":")[0]
        if kind == "auth" and any(one.login == provider for one in declared().programs.values()):
            return _PROGRAM_LOGIN
        if kind == "auth":
            service = declared().service(provider)
            variable = service.variable(provider, "api_key") if service.needs_key else None
            return f"Check {variable or 'its login'} or {key}.api_key."
        if kind == "contract" and failed == 2:
            return f"Name a model that this endpoint has, as {key}."
        return _REMEDIES.get(kind, "").format(key=key)

    def _add(
        self, name: str, state: State, text: str, remedy: str = "", facts: Mapping[str, object] | None = None
    ) -> None:
        self.findings.append(CheckResult(name, state, text, remedy, facts or {}))


_PROGRAM_LOGIN = "Log in with the program itself, or set the variable that docs/agents.md names for it."

_REMEDIES = {
    "unavailable": "Check {key}.base_url, that the server is up, and the network.",
    "timeout": "Check the network and {key}.base_url; a slow model may need {key}.timeout.",
    "rate_limit": "Nothing is wrong with the configuration: a run waits and goes on.",
    "contract": "Check the settings of {key}: the endpoint refuses the request.",
    "spawn": "Check the program's path ({key}.agent.path) and that it starts by hand.",
}


def _failed_at(error: ModelError) -> int:
    """The step at which a call failed."""
    if error.kind == "auth":
        return 1
    if error.kind in ("unavailable", "timeout", "spawn") and not _STATUS.search(error.detail):
        return 0
    return 2 if error.kind == "contract" and _NO_MODEL.search(error.detail) else 3


def _not_called(spec: ModelSpec) -> str:
    """Why a role is not tried by a call; empty where it is."""
    if spec.provider == "world":
        return "simulated: there is nothing to reach"
    if spec.provider == "handoff":
        return "answered by hand: questions are written as files"
    if spec.harness == harness_of(spec.name):
        return "an agent of your own: it is called with tasks only"
    if declared().is_login_only(spec.provider):
        return f"only the program {spec.harness} itself can use this login"
    if spec.harness in driven() and spec.provider not in PROVIDERS.names():
        return f"the program {spec.harness} asks its model itself"
    return ""


class Shape(BaseModel):
    """What the structured question asks for."""

    model_config = ConfigDict(extra="forbid", title="check")

    ok: bool


QUESTIONS: Mapping[str, tuple[str, int, Mapping[str, Any]]] = {
    "call": ("Reply with the word: ok", FEW, {}),
    "structured output": (
        'Reply with the JSON object {"ok": true} and nothing else.',
        SOME,
        {"schema": Shape.model_json_schema()},
    ),
    "tools": (
        "Call the tool say with the word ok.",
        SOME,
        {"tools": (Tool.of("say", "Says a word aloud.", ["word"], word={"type": "string"}),)},
    ),
    "vision": ("Name the colour of this square in one word.", FEW, {}),
}
"""The text of each tiny question, its output cap, and further fields of its request."""


def _request(role: RoleName, spec: ModelSpec, name: str) -> Request:
    text, cap, fields = QUESTIONS[name]
    images = (Image(media_type="image/png", data=_RED_SQUARE),) if name == "vision" else ()
    thinks = spec.reasoning_effort not in (None, "none") or bool(spec.options.get("enable_thinking"))
    return Request(
        messages=(Message(role="user", content=text, images=images),),
        max_tokens=min(spec.max_tokens, WITH_THINKING if thinks else cap),
        role="optimizer" if role == "proposer" else role,
        stage="doctor",
        place=f"doctor/{role}/{name.split()[0]}",
        **fields,
    )
