"""What a role's model is built from, out of the role's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt.config.identity import reasoning_effort
from skillopt.config.model_string import ModelString, names_no_model, parse_model_string
from skillopt.config.schema import Config
from skillopt.config.sections import PriceConfig, RoleName
from skillopt.config.services import declared
from skillopt.errors import ConfigError
from skillopt.models.port import DEFAULT_MAX_TOKENS, ModelSpec
from skillopt.registry.services import is_loopback

_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[^{}]*\}|\(.*\))|%\w+%|\{\{.*\}\}")
"""What stands for a variable of the environment where something fills it in, which nothing does here."""
NO_KEY = "none"
"""Written as a key, it says that an endpoint takes none."""

PROPOSER_SECONDS = 1800.0
"""An agent that proposes reads a whole batch, once a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """Everything a role's model is built from."""

    model: ModelSpec
    harness: str
    max_tokens: int
    price: PriceConfig | None
    hedges: bool = True
    """Whether slow calls are asked once more."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """What is set of the agent program that a harness drives: path, profile, sandbox ..."""

    def at(self, address: str) -> RoleSpec:
        """The same, measured as the model of that address."""
        return replace(self, model=replace(self.model, address=address))


def resolve_role(config: Config, role: RoleName, *, needs_key: bool = True) -> RoleSpec:
    """What a role's model is built from. A missing endpoint or needed key is an error, before any call."""
    settings = config.role(role)
    if names_no_model(settings.name):
        named = declared().keys_of(settings.name, role, "name")
        variable = f" or {named[0].leaf.key.removeprefix('model.').upper()}" if named else ""
        raise ConfigError(
            f"model.{role}: name a model of {settings.name}: set model.{role}{variable}, or write"
            f" '{settings.name}:MODEL'"
        )
    parts = parse_model_string(settings.name, role)
    if parts.provider is None:
        raise ConfigError(
            f"model.{role}: {settings.name!r} names no provider; write 'openai:{settings.name}' or the like"
        )
    service = declared().service(parts.provider)
    base_url = settings.base_url or parts.base_url
    if service.needs_url and base_url is None:
        variable = service.variable(parts.provider, "base_url")
        raise ConfigError(
            f"model.{role}: '{parts}' needs an endpoint: set {variable} or model.{role}.base_url, or write"
            f" '{parts}@http://host/v1'"
        )
    set_here = ((name, value) for name, value in settings.agent if value is not None)
    agent = {name: str(value) if isinstance(value, Path) else value for name, value in set_here}
    is_program = any(each.login == parts.provider for each in declared().programs.values())
    options = agent if is_program else dict(settings.options)
    api_key = settings.api_key.get_secret_value() if settings.api_key else None
    if api_key is not None and _VARIABLE.fullmatch(api_key.strip()):
        raise ConfigError(
            f"model.{role}.api_key is {api_key.strip()!r}, and settings are not filled in from the"
            f" environment: leave it out and set {service.variable(parts.provider, 'api_key')}"
        )
    if needs_key:
        api_key = _key(api_key, parts, role, base_url, options)
    found = RoleSpec(
        model=ModelSpec(
            provider=parts.provider,
            # A program that is named alone chooses its model itself.
            name="" if is_program and parts.name == parts.provider else parts.name,
            base_url=base_url,
            api_key=api_key,
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=settings.seed,
            reasoning_effort=reasoning_effort(config, role),
            timeout=settings.timeout
            or (PROPOSER_SECONDS if role == "proposer" else service.seconds or config.env.exec_timeout),
            cap=settings.max_tokens,
            connections=max(
                64, config.gradient.analyst_workers if role == "optimizer" else config.env.workers
            ),
            structured_output=settings.structured_output,
            options=options,
        ),
        harness=parts.harness,
        max_tokens=settings.max_tokens or DEFAULT_MAX_TOKENS,
        price=settings.price,
        hedges=settings.hedge == "auto",
        agent=agent if parts.harness in declared().programs else {},
    )
    return found.at(address_of(found.model))


def address_of(model: ModelSpec) -> str:
    """What a model's address is in a measurement; a service of one's own is named by it."""
    url = model.name if model.provider == "service" else model.base_url
    return declared().service(model.provider).address(url)


def _key(
    given: str | None, parts: ModelString, role: RoleName, base_url: str | None, options: Mapping[str, Any]
) -> str | None:
    service = declared().service(parts.provider)
    is_here = base_url is not None and is_loopback(base_url)
    if service.may_lack_key and (given == NO_KEY or (not given and is_here)):
        return None
    if given or not service.wants_key(options):
        return given
    unkeyed = f" (an endpoint without a key: model.{role}.api_key: {NO_KEY})" if service.may_lack_key else ""
    variable = service.variable(parts.provider or "", "api_key")
    other = f", or name another model: --{role} MODEL" if role in ("target", "optimizer", "judge") else ""
    raise ConfigError(
        f"model.{role}: '{parts}' needs an API key: set {variable} or model.{role}.api_key{unkeyed}{other}"
    )
