"""Decides which harness, provider, model and endpoint a role's model string means, and what its provider is
built from.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt.config.backends import CHAT, LOGIN_ONLY, OURS, OWN_LOGIN, PROGRAMS
from skillopt.config.role_schema import PriceConfig, RoleConfig, RoleName
from skillopt.config.schema import Config
from skillopt.errors import ConfigError, UnknownName, suggest
from skillopt.harnesses import harnesses as harness_registry
from skillopt.models import PROVIDERS
from skillopt.models.port import ModelSpec
from skillopt.models.wires.http import is_loopback

NEEDS_KEY: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "compatible": "OPENAI_COMPATIBLE_API_KEY",
    "minimax": "MINIMAX_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
"""Providers that need a key, and the variable that holds it."""
NEEDS_URL: Mapping[str, str] = {"azure": "AZURE_OPENAI_ENDPOINT", "compatible": "OPENAI_COMPATIBLE_BASE_URL"}
"""Providers that need an endpoint, and the variable that holds it."""
NEEDS_NAME = frozenset({*NEEDS_KEY, "qwen", "local"})
"""Providers that are no model by themselves."""
NO_KEY = "none"
"""Written as a key, it says that an endpoint takes none."""
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "azure": ("auth_mode", "api_version", "ad_scope", "managed_identity_client_id"),
    "openai": ("api",),
    "qwen": ("enable_thinking", "use_max_completion_tokens"),
    "minimax": ("region", "enable_thinking"),
    "local": ("n_ctx", "threads", "parallel"),
    "handoff": ("folder",),
}
"""The options of `model.<role>.options` that each provider takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelString:
    """The parts of a model string; `provider` is None for a bare name."""

    harness: str
    provider: str | None
    name: str
    base_url: str | None = None
    says_harness: bool = False
    """Whether the harness was written: `chat` may be meant on purpose, or be what is there when nothing was
    said.
    """

    def __str__(self) -> str:
        harness = f"{self.harness}/" if self.says_harness or self.harness != CHAT else ""
        if self.provider is None:
            return harness + self.name
        return harness + (self.provider if self.name == self.provider else f"{self.provider}:{self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """Everything a role's model is built from."""

    model: ModelSpec
    harness: str
    max_tokens: int
    price: PriceConfig | None
    agent: Mapping[str, Any] = field(default_factory=dict)
    """What is set of the agent program that a harness drives, by the public names without their prefix: path,
    profile, sandbox ...
    """


def parse_model_string(
    text: str,
    role: RoleName,
    *,
    providers: Sequence[str] | None = None,
    harnesses: Sequence[str] | None = None,
) -> ModelString:
    """Split `[harness/]provider:model[@url]`. A prefix is a provider only if it is registered, so
    `qwen2.5:7b` is a name.
    """
    known = [*(PROVIDERS.names() if providers is None else providers), *LOGIN_ONLY]
    harnesses = harness_registry.names() if harnesses is None else harnesses
    rest, harness, says_harness = text.strip(), CHAT, False
    before, slash, after = rest.partition("/")
    before = before.replace("-", "_")
    if (
        slash
        and ":" not in before
        and (before in {*harnesses, *OWN_LOGIN} or _prefix(after) in {*known, *OURS})
    ):
        if role != "target":
            raise ConfigError(
                f"model.{role}: {text!r} names a harness ({before!r}), and only the target has one; write"
                f" {after!r}"
            )
        if before not in harnesses:
            raise UnknownName("harness", before, harnesses)
        rest, harness, says_harness = after, before, True
    rest, base_url = _split_url(rest)
    prefix = _prefix(rest)
    if prefix not in known:
        _refuse_slips(rest, prefix, role, known)
        return ModelString(
            harness=harness, provider=None, name=rest, base_url=base_url, says_harness=says_harness
        )
    name = rest.partition(":")[2]
    if not name and ":" in rest:
        raise ConfigError(f"model.{role}: {rest!r} names no model; write '{prefix}:MODEL'")
    if not name and prefix in NEEDS_NAME:
        raise ConfigError(f"model.{role}: {rest!r} is a provider; write '{prefix}:MODEL'")
    return ModelString(
        harness=harness, provider=prefix, name=name or prefix, base_url=base_url, says_harness=says_harness
    )


def in_harness(target: str, default: str, *, providers: Sequence[str], harnesses: Sequence[str]) -> str:
    """The target's model string with the benchmark's own harness where none was written; `chat` is only
    spelled out where it is not that.

    A provider without a model stays as it is: that is an error when the role is built.
    """
    if target in NEEDS_NAME:
        return target
    parts = parse_model_string(target, "target", providers=providers, harnesses=harnesses)
    if parts.harness != CHAT:
        return str(parts)
    if default == CHAT:
        return str(replace(parts, says_harness=False))
    return str(parts if parts.says_harness else replace(parts, harness=default))


def resolve_role(
    config: Config,
    role: RoleName,
    *,
    providers: Sequence[str] | None = None,
    harnesses: Sequence[str] | None = None,
    needs_key: bool = True,
) -> RoleSpec:
    """What a role's model is built from. A missing endpoint is an error here, before any call, and a missing
    key where one is needed.
    """
    settings = config.role(role)
    if settings.name in NEEDS_NAME:
        variable = " or OPENAI_COMPATIBLE_MODEL" if settings.name == "compatible" else ""
        raise ConfigError(
            f"model.{role}: name a model of {settings.name}: set model.{role}{variable}, or write"
            f" '{settings.name}:MODEL'"
        )
    parts = parse_model_string(settings.name, role, providers=providers, harnesses=harnesses)
    if parts.provider is None:
        raise ConfigError(
            f"model.{role}: {settings.name!r} names no provider; write 'openai:{settings.name}' or the like"
        )
    base_url = settings.base_url or parts.base_url
    if parts.provider in NEEDS_URL and base_url is None:
        hint = (
            f", or write 'compatible:{parts.name}@http://host/v1'" if parts.provider == "compatible" else ""
        )
        variable = NEEDS_URL[parts.provider]
        raise ConfigError(
            f"model.{role}: '{parts}' needs an endpoint: set {variable} or model.{role}.base_url{hint}"
        )
    agent = _set(settings.agent)
    options = agent if parts.provider in PROGRAMS else _options(settings, parts)
    api_key = settings.api_key.get_secret_value() if settings.api_key else None
    if needs_key:
        api_key = _key(api_key, parts, role, base_url, options)
    return RoleSpec(
        model=ModelSpec(
            provider=parts.provider,
            # A program that is named alone chooses its model itself.
            name="" if parts.provider in PROGRAMS and parts.name == parts.provider else parts.name,
            base_url=base_url,
            api_key=api_key,
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=settings.seed,
            reasoning_effort=settings.reasoning_effort or config.model.reasoning_effort,
            timeout=settings.timeout if settings.timeout is not None else config.env.exec_timeout,
            connections=max(
                64, config.gradient.analyst_workers if role == "optimizer" else config.env.workers
            ),
            structured_output=settings.structured_output,
            options=options,
        ),
        harness=parts.harness,
        max_tokens=settings.max_tokens,
        price=settings.price,
        agent=agent if parts.harness in OWN_LOGIN else {},
    )


def passwords_in(text: str) -> list[str]:
    """The passwords inside the endpoints of a text, which are credentials like any other."""
    return re.findall(r"://[^/\s:@]*:([^/\s]+)@", text)


def check_own_settings(
    parts: ModelString, role: RoleName, options: Iterable[str], agent: Iterable[str]
) -> None:
    """Refuse options and agent settings that were written for a role whose provider or program does not have
    them.
    """
    taken = OPTIONS.get(parts.provider or "", ())
    for name in options:
        if name not in taken:
            owners = [provider for provider, names in OPTIONS.items() if name in names]
            raise ConfigError(
                f"model.{role}.options.{name} is an option of {' and '.join(owners)}, and model.{role} is"
                f" '{parts}'"
            )
    for name in agent if program_of(parts) is None else ():
        raise ConfigError(
            f"model.{role}.agent.{name} is a setting of an agent program, and model.{role} is '{parts}'"
        )


def _options(settings: RoleConfig, parts: ModelString) -> dict[str, Any]:
    given = {
        name: value
        for name, value in _set(settings.options).items()
        if name in OPTIONS.get(parts.provider or "", ())
    }
    if parts.provider == "azure":
        given.setdefault("auth_mode", "api_key" if settings.api_key else "azure_cli")
    return given


def _set(section: BaseModel) -> dict[str, Any]:
    """What is set of a section; a path as text."""
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in section if value is not None
    }


def program_of(parts: ModelString) -> str | None:
    """The agent program a role runs in, by its harness or by its login."""
    return PROGRAMS.get(OWN_LOGIN.get(parts.harness, parts.provider or ""))


def _key(
    given: str | None, parts: ModelString, role: RoleName, base_url: str | None, options: Mapping[str, Any]
) -> str | None:
    if parts.provider == "compatible" and (
        given == NO_KEY or (not given and base_url is not None and is_loopback(base_url))
    ):
        return None
    if (
        given
        or parts.provider is None
        or parts.provider not in NEEDS_KEY
        or options.get("auth_mode") in ("azure_cli", "managed_identity")
    ):
        return given
    unkeyed = (
        f" (an endpoint without a key: model.{role}.api_key: {NO_KEY})"
        if parts.provider == "compatible"
        else ""
    )
    raise ConfigError(
        f"model.{role}: '{parts}' needs an API key: set {NEEDS_KEY[parts.provider]} or"
        f" model.{role}.api_key{unkeyed}"
    )


def _prefix(text: str) -> str:
    """What stands before the colon, as providers are named: `claude-cli` is `claude_cli`."""
    return text.partition(":")[0].replace("-", "_")


def _split_url(text: str) -> tuple[str, str | None]:
    for scheme in ("@http://", "@https://"):
        name, found, rest = text.partition(scheme)
        if found:
            return name, scheme[1:] + rest
    return text, None


def _refuse_slips(rest: str, prefix: str, role: RoleName, known: Sequence[str]) -> None:
    """A bare name that looks like a provider's misspelling is an error: sent as a name it would fail late or
    cost money.
    """
    if prefix in OURS:
        raise ConfigError(
            f"model.{role}: {rest!r}: the provider {prefix!r} is not installed. {suggest('', sorted(known))}"
        )
    close = difflib.get_close_matches(prefix, known, n=1, cutoff=0.8) if ":" in rest else []
    if close:
        slip = f"model.{role}: no provider named {prefix!r}. Did you mean '{close[0]}{rest[len(prefix) :]}'?"
        raise ConfigError(f"{slip} If this is a model's name, write its provider before it.")
