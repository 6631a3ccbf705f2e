"""Decides which harness, provider, model and endpoint a role's model string means, and what its provider is built from."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.config.schema import Config, PriceConfig, RoleName
from skillopt.errors import ConfigError, UnknownName, suggest
from skillopt.harnesses import harnesses as harness_registry
from skillopt.models import providers as provider_registry
from skillopt.models._model import ModelSpec
from skillopt.models._wire import is_loopback

CHAT = "chat"
KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "compatible": "OPENAI_COMPATIBLE_API_KEY",
}
"""Providers that need a key, and the variable that holds it."""
URL_VARIABLES = {"azure": "AZURE_OPENAI_ENDPOINT", "compatible": "OPENAI_COMPATIBLE_BASE_URL"}
"""Providers that need an endpoint, and the variable that holds it."""
NO_KEY = "none"
"""Written as a key, it says that an endpoint takes none."""
EITHER = "openai_chat"
"""The public backend that means Azure where an Azure endpoint is configured, else the OpenAI API."""

_BACKENDS = {
    **dict.fromkeys(("azure", "azure-openai", "azure_openai"), "azure"),
    "openai": "openai",
    EITHER: EITHER,
    **dict.fromkeys(("openai_compatible", "openai_compatible_chat", "openai-compatible", "compat", "compatible"), "compatible"),
    "anthropic": "anthropic",
}
_LATER_BACKENDS = frozenset(
    {"claude", "claude_chat", "claude_code_exec", "codex", "codex_exec", "cursor", "cursor_agent", "cursor_exec", "copilot"}
    | {"copilot_cli", "copilot_exec", "github_copilot", "copilot_chat", "qwen", "qwen_chat", "minimax", "minimax_chat"}
)
_LATER_PROVIDERS = frozenset({"local", "claude-cli", "handoff"})
_AUTH_MODES = frozenset({"openai_compatible", "compat", "openai"})
_LATER_AUTH_MODES = frozenset({"api_key", "key", "managed_identity", "aad", "azure_ad", "azure_cli"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelString:
    """The parts of a model string; `provider` is None for a bare name."""

    harness: str
    provider: str | None
    name: str
    base_url: str | None = None

    def __str__(self) -> str:
        harness = "" if self.harness == CHAT else f"{self.harness}/"
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


def parse_model_string(
    text: str, role: RoleName, *, providers: Sequence[str] | None = None, harnesses: Sequence[str] | None = None
) -> ModelString:
    """Split `[harness/]provider:model[@url]`. A prefix is a provider only if it is registered, so `qwen2.5:7b` is a name."""
    known = provider_registry.names() if providers is None else providers
    harnesses = harness_registry.names() if harnesses is None else harnesses
    rest, harness = text.strip(), CHAT
    before, slash, after = rest.partition("/")
    if slash and ":" not in before and (before in harnesses or _prefix(after) in {*known, *_LATER_PROVIDERS}):
        if role == "optimizer":
            raise ConfigError(f"model.optimizer: {text!r} names a harness ({before!r}), and only the target has one; write {after!r}")
        if before not in harnesses:
            raise UnknownName("harness", before, harnesses)
        rest, harness = after, before
    rest, base_url = _split_url(rest)
    prefix = _prefix(rest)
    if prefix not in known:
        _refuse_slips(rest, prefix, role, known)
        return ModelString(harness=harness, provider=None, name=rest, base_url=base_url)
    name = rest.partition(":")[2]
    if not name and ":" in rest:
        raise ConfigError(f"model.{role}: {rest!r} names no model; write '{prefix}:MODEL'")
    if not name and prefix in KEY_VARIABLES:
        raise ConfigError(f"model.{role}: {rest!r} is a provider; write '{prefix}:MODEL'")
    return ModelString(harness=harness, provider=prefix, name=name or prefix, base_url=base_url)


def backend_provider(backend: str, key: str) -> str:
    """The provider a public backend name means, or `EITHER`."""
    name = backend.strip().lower()
    if name in _BACKENDS:
        return _BACKENDS[name]
    if name in provider_registry.names():
        return name
    if name in _LATER_BACKENDS:
        raise ConfigError(f"{key}: the backend {backend!r} is not supported yet. {suggest('', sorted(set(_BACKENDS)))}")
    raise ConfigError(f"{key}: no backend named {backend!r}. {suggest(name, sorted({*_BACKENDS, *_LATER_BACKENDS}))}")


def azure_auth_mode(mode: str | None) -> str:
    """Our name of a public Azure auth mode. The public default is a login that is not supported yet, so unset is an error too."""
    name = (mode or "").strip().lower()
    if name in _AUTH_MODES:
        return "openai_compatible"
    remedy = "set AZURE_OPENAI_AUTH_MODE=openai_compatible, the only one so far"
    if not name:
        raise ConfigError(f"model.azure_openai_auth_mode is not set; {remedy}")
    if name in _LATER_AUTH_MODES:
        raise ConfigError(f"model.azure_openai_auth_mode: {mode!r} is not supported yet; {remedy}")
    raise ConfigError(f"model.azure_openai_auth_mode: no mode named {mode!r}. {suggest(name, sorted(_AUTH_MODES | _LATER_AUTH_MODES))}")


def resolve_role(config: Config, role: RoleName) -> RoleSpec:
    """What a role's model is built from. A missing key or endpoint is an error here, before any call."""
    settings = config.role(role)
    parts = parse_model_string(settings.name, role)
    if parts.provider is None:
        raise ConfigError(f"model.{role}: {settings.name!r} names no provider; write 'openai:{settings.name}' or the like")
    base_url = settings.base_url or parts.base_url
    if parts.provider in URL_VARIABLES and base_url is None:
        hint = f", or write 'compatible:{parts.name}@http://host/v1'" if parts.provider == "compatible" else ""
        variable = URL_VARIABLES[parts.provider]
        raise ConfigError(f"model.{role}: '{parts}' needs an endpoint: set {variable} or model.{role}.base_url{hint}")
    return RoleSpec(
        model=ModelSpec(
            provider=parts.provider,
            name=parts.name,
            base_url=base_url,
            api_key=_key(settings.api_key.get_secret_value() if settings.api_key else None, parts, role, base_url),
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=settings.seed,
            reasoning_effort=settings.reasoning_effort or config.model.reasoning_effort,
            timeout=settings.timeout if settings.timeout is not None else config.env.exec_timeout,
            connections=max(64, config.env.workers if role == "target" else config.gradient.analyst_workers),
            options={"auth_mode": azure_auth_mode(config.model.azure_openai_auth_mode)} if parts.provider == "azure" else {},
        ),
        harness=parts.harness,
        max_tokens=settings.max_tokens,
        price=settings.price,
    )


def without_password(url: str) -> str:
    """An endpoint as it may be shown."""
    scheme, found, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{found}{authority.rpartition('@')[2]}{slash}{path}"


def passwords_in(text: str) -> list[str]:
    """The passwords inside the endpoints of a text, which are credentials like any other."""
    return re.findall(r"://[^/\s:@]*:([^/\s]+)@", text)


def _key(given: str | None, parts: ModelString, role: RoleName, base_url: str | None) -> str | None:
    if parts.provider == "compatible" and (given == NO_KEY or (not given and base_url is not None and is_loopback(base_url))):
        return None
    if given or parts.provider not in KEY_VARIABLES:
        return given
    unkeyed = f" (an endpoint without a key: model.{role}.api_key: {NO_KEY})" if parts.provider == "compatible" else ""
    raise ConfigError(f"model.{role}: '{parts}' needs an API key: set {KEY_VARIABLES[parts.provider]} or model.{role}.api_key{unkeyed}")


def _prefix(text: str) -> str:
    return text.partition(":")[0]


def _split_url(text: str) -> tuple[str, str | None]:
    for scheme in ("@http://", "@https://"):
        name, found, rest = text.partition(scheme)
        if found:
            return name, scheme[1:] + rest
    return text, None


def _refuse_slips(rest: str, prefix: str, role: RoleName, known: Sequence[str]) -> None:
    """A bare name that looks like a provider's misspelling is an error: sent as a name it would fail late or cost money."""
    if prefix in _LATER_PROVIDERS:
        raise ConfigError(f"model.{role}: {rest!r}: the provider {prefix!r} is not supported yet. {suggest('', known)}")
    close = difflib.get_close_matches(prefix, known, n=1, cutoff=0.8) if ":" in rest else []
    if close:
        slip = f"model.{role}: no provider named {prefix!r}. Did you mean '{close[0]}{rest[len(prefix) :]}'?"
        raise ConfigError(f"{slip} If this is a model's name, write its provider before it.")
