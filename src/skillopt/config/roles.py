"""From the text that names a model (`[harness/]provider:model[@url]`) to what the model is built from."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config.keys import CHAT, declared
from skillopt.config.schema import Config
from skillopt.config.sections import WORKERS, Effort, RoleName
from skillopt.config.service import is_loopback
from skillopt.errors import ConfigError, UnknownName
from skillopt.harnesses import harness_of, harnesses
from skillopt.models.port import ModelSpec

_NO_MODEL = re.compile(
    r"\s|^\.{0,2}/|^[~\\]|^[A-Za-z]:[\\]|:/|^[\w.-]+:\d+(?=/|$)|\b(?:cmd|python[\d.]*)\b"
    r"|\.(?:py|js|mjs|ts|sh|bash|exe|bat|ps1|rb|jar)\b"
)
"""Signs that a bare name is a command line, a path or an address."""
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[^{}]*\}|\(.*\))|%\w+%|\{\{.*\}\}")
"""What stands for a variable of the environment where something fills it in, which nothing does here."""
NO_KEY = "none"
"""Written as a key, it says that an endpoint takes none."""

PROPOSER_SECONDS = 1800.0
"""An agent that proposes reads a whole batch, once a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelString:
    """The parts of a model string; `provider` is None for a bare name."""

    harness: str
    provider: str | None
    name: str
    base_url: str | None = None
    says_harness: bool = False
    """Whether the harness was written: `chat` may be meant on purpose, or be there as nothing was said."""

    @property
    def is_own_agent(self) -> bool:
        """Whether it is a function, a program or a service, and no model."""
        return self.provider == self.harness == harness_of(self.name)

    def __str__(self) -> str:
        harness = f"{self.harness}/" if self.says_harness or self.harness != CHAT else ""
        if self.provider is None:
            return harness + self.name
        if self.is_own_agent:
            return self.name
        return harness + (self.provider if self.name == self.provider else f"{self.provider}:{self.name}")


def parse_model_string(text: str, role: RoleName) -> ModelString:
    """Split `[harness/]provider:model[@url]`. Registered prefixes are providers; `qwen2.5:7b` is a name."""
    known = declared().services
    rest, harness, says_harness = text.strip(), CHAT, False
    own = harness_of(rest)
    if own is not None:
        if role not in WORKERS:
            raise ConfigError(
                f"model.{role}: {text!r} is an agent of your own, which only a target or a proposer can be;"
                " name a model"
            )
        return ModelString(harness=own, provider=own, name=rest)
    before, slash, after = rest.partition("/")
    before = before.replace("-", "_")
    if slash and ":" not in before and (before in harnesses.names() or _prefix(after) in known):
        if role not in WORKERS:
            raise ConfigError(
                f"model.{role}: {text!r} names a harness ({before!r}), and only target and proposer have one;"
                f" write {after!r}"
            )
        if before not in harnesses.names():
            raise UnknownName("harness", before, harnesses.names())
        rest, harness, says_harness = after, before, True
    rest, base_url = _split_url(rest)
    prefix = _prefix(rest)
    bare = ModelString(
        harness=harness, provider=None, name=rest, base_url=base_url, says_harness=says_harness
    )
    if prefix not in known:
        _refuse_slips(rest, prefix, role, list(known))
        return bare
    name = rest.partition(":")[2]
    if not name and (":" in rest or known[prefix].needs_name):
        what = "names no model" if ":" in rest else "is a provider"
        raise ConfigError(f"model.{role}: {rest!r} {what}; write '{prefix}:MODEL'")
    return replace(bare, provider=prefix, name=name or prefix)


def provider_of(text: str) -> str | None:
    """The provider that a resolved model string names."""
    rest = text.partition("/")[2] if text.partition("/")[0].replace("-", "_") in harnesses.names() else text
    return _prefix(rest) if _prefix(rest) in declared().services else None


def is_elsewhere(text: str, before: str) -> bool:
    """Whether a model string has an address of its own, or another provider than the one before it."""
    bare = next(each.provider for each in declared().backends.values() if each.open)
    return bool(_split_url(text)[1]) or provider_of(before) not in (None, provider_of(text) or bare)


def names_no_model(text: str) -> bool:
    """Whether a text is a provider alone that is no model by itself: an error where the role is built."""
    return text in declared().services and declared().services[text].needs_name


def in_harness(target: str, default: str) -> str:
    """The target's model string with the benchmark's own harness, where none or only `chat` was written."""
    if names_no_model(target):
        return target
    parts = parse_model_string(target, "target")
    if parts.harness != CHAT:
        return str(parts)
    if default == CHAT:
        return str(replace(parts, says_harness=False))
    return str(parts if parts.says_harness else replace(parts, harness=default))


def passwords_in(text: str) -> list[str]:
    """The passwords inside the endpoints of a text, which are credentials like any other."""
    return re.findall(r"://[^/\s:@]*:([^/\s]+)@", text)


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
    """A bare name that looks like a misspelt provider is an error: as a name it would fail late."""
    files = tuple(each.model_files for each in declared().services.values() if each.model_files)
    sign = None if rest.endswith(files) else _NO_MODEL.search(rest)
    if sign:
        raise ConfigError(
            f"model.{role}: {rest!r} is no model's name ({sign[0].strip() or 'a blank'!r} is in it). An agent"
            " of your own is written 'cmd: PROGRAM ARGUMENTS', 'http://HOST:PORT/PATH' or 'FILE.py:FUNCTION';"
            f" a model with such a name is written with its provider, as in 'openai:{rest}'"
        )
    alone = [name for name in known if not declared().services[name].needs_name]
    meant = known if ":" in rest else alone  # `wrold` is no model of somebody's, but `gpt-5` may be
    close = difflib.get_close_matches(prefix, meant, n=1, cutoff=0.8)
    if close:
        slip = f"model.{role}: no provider named {prefix!r}. Did you mean '{close[0]}{rest[len(prefix) :]}'?"
        raise ConfigError(f"{slip} If this is a model's name, write its provider before it.")


def resolve_role(config: Config, role: RoleName, *, needs_key: bool = True) -> ModelSpec:
    """What a role's model is built from. A missing endpoint or needed key is an error, before any call."""
    settings = config.role(role)
    if names_no_model(settings.name):
        named = declared().service(settings.name).variable(settings.name, "name")
        variable = f" or {named}" if named else ""
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
    found = ModelSpec(
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
        connections=max(64, config.gradient.analyst_workers if role == "optimizer" else config.env.workers),
        structured_output=settings.structured_output,
        options=options,
        harness=parts.harness,
        price=settings.price,
        hedges=settings.hedge == "auto",
        agent=agent if parts.harness in declared().programs else {},
    )
    return found.at(address_of(found))


def reasoning_effort(config: Config, role: RoleName) -> Effort | None:
    """The reasoning effort of a role: its own, else that of both roles where its provider takes it."""
    own = config.role(role)
    if own.reasoning_effort or not declared().service(provider_of(own.name)).takes_common_effort:
        return own.reasoning_effort
    return config.model.reasoning_effort


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
