"""Decides what environment variables and `.env` give a role: a provider's variables apply only to the provider they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillopt.config.roles import (
    EITHER,
    KEY_VARIABLES,
    ModelString,
    backend_provider,
    parse_model_string,
    without_password,
)
from skillopt.config.schema import DEFAULT_MODEL, ModelConfig, RoleConfig, RoleName
from skillopt.config.source import CHOSEN, DEFAULT, Layer, Source
from skillopt.errors import ConfigError

_URL_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "compatible": "OPENAI_COMPATIBLE_BASE_URL"}
"""Azure's endpoint and key are keys of the tree (`model.azure_openai_*`) and arrive by their own layer."""
_MODEL_VARIABLE = "OPENAI_COMPATIBLE_MODEL"
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")

Variables = Mapping[Layer, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value with where it came from."""

    value: str = field(repr=False)
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What a role talks to: its full model string, endpoint and key, each with its source."""

    model: ModelString
    name_source: Source
    base_url: Given | None
    api_key: Given | None
    warnings: tuple[str, ...] = ()


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file: `NAME=value`, optional `export`, quotes and comments. Nothing is substituted."""
    if not path.is_file():  # a folder of that name is somebody's virtual environment
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({type(error).__name__})") from None
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = None if line.lstrip().startswith("#") else _LINE.match(line)
        if match:
            found[match[1]] = _unquoted(match[2])
    return found


def secret_variables(variables: Variables) -> list[str]:
    """Every credential among the variables we know, used or not."""
    return [names[name] for names in variables.values() for name in KEY_VARIABLES.values() if names.get(name)]


def connect(model: ModelConfig, role: RoleName, source: Callable[[str], Source], variables: Variables) -> Connection:
    """Decide provider, endpoint and key of a role. `source` tells where a key of the tree came from."""
    settings = model.optimizer if role == "optimizer" else model.target
    name_source = source(f"model.{role}.name")
    parts = parse_model_string(settings.name, role)
    chosen = _chosen_url(settings, parts, role, source)
    azure_url, azure_warning = _azure_url(model, settings, role, source)
    warnings: list[str] = []
    if parts.provider is None:
        provider = _backend_of_bare_name(model, role, chosen, azure_url, variables)
        parts = replace(parts, provider=provider)
        warnings += azure_warning  # without it the name might have gone to Azure
        if name_source.layer == "default" and provider not in ("openai", "azure"):
            parts, name_source = _named_by_variable(parts, role, variables)
    provider = parts.provider or ""
    key = _tree_secret(settings, role, source)
    if provider == "azure":
        key = key or _azure_key(model, source)
        url = _one_endpoint(chosen, azure_url, role)
        warnings += azure_warning
    else:
        key = key or _variable(variables, KEY_VARIABLES.get(provider))
        url = chosen or _variable(variables, _URL_VARIABLES.get(provider))
    if url is not None and _foreign_key(url, key):
        warnings.append(_unused_url(url))
        url = None
    return Connection(model=replace(parts, base_url=None), name_source=name_source, base_url=url, api_key=key, warnings=tuple(warnings))


def _chosen_url(settings: RoleConfig, parts: ModelString, role: RoleName, source: Callable[[str], Source]) -> Given | None:
    """The endpoint written for this role: in its model string or as its base_url."""
    in_string = Given(value=parts.base_url, source=source(f"model.{role}.name")) if parts.base_url else None
    as_key = Given(value=settings.base_url, source=source(f"model.{role}.base_url")) if settings.base_url else None
    if in_string and as_key and not _same(in_string.value, as_key.value):
        raise _two_endpoints(role, in_string, as_key, "keep one of them")
    return in_string or as_key


def _backend_of_bare_name(model: ModelConfig, role: RoleName, chosen: Given | None, azure_url: Given | None, variables: Variables) -> str:
    """The provider of a name without one: the role's backend, else the common one; the public `openai_chat` is open to both."""
    own = model.optimizer_backend if role == "optimizer" else model.target_backend
    provider = backend_provider(own, f"model.{role}_backend") if own else EITHER
    if provider == EITHER and model.backend:
        provider = backend_provider(model.backend, "model.backend")
    if provider != EITHER:
        return provider
    other = chosen or _variable(variables, "OPENAI_BASE_URL")
    if azure_url is None:
        return "openai"
    if other is None or azure_url.source.beats(other.source):
        return "azure"
    if other.source.beats(azure_url.source):
        return "openai"
    raise _two_endpoints(role, azure_url, other, "write 'azure:NAME' or 'openai:NAME'")


def _named_by_variable(parts: ModelString, role: RoleName, variables: Variables) -> tuple[ModelString, Source]:
    """Our default model exists at OpenAI only; another provider needs a name of its own."""
    given = _variable(variables, _MODEL_VARIABLE) if parts.provider == "compatible" else None
    if given is not None:
        return replace(parts, name=given.value), given.source
    if parts.provider not in KEY_VARIABLES:
        return replace(parts, name=parts.provider or ""), DEFAULT
    hint = f" or {_MODEL_VARIABLE}" if parts.provider == "compatible" else ""
    raise ConfigError(f"model.{role}: name a model of {parts.provider} (the default {DEFAULT_MODEL!r} is OpenAI's): set model.{role}{hint}")


def _azure_url(model: ModelConfig, settings: RoleConfig, role: RoleName, source: Callable[[str], Source]) -> tuple[Given | None, list[str]]:
    if not model.azure_openai_endpoint:
        return None, []
    url = Given(value=model.azure_openai_endpoint, source=source("model.azure_openai_endpoint"))
    if _foreign_key(url, _tree_secret(settings, role, source) or _azure_key(model, source)):
        return None, [_unused_url(url)]
    return url, []


def _one_endpoint(chosen: Given | None, azure_url: Given | None, role: RoleName) -> Given | None:
    if chosen and azure_url and azure_url.source.layer in CHOSEN and not _same(chosen.value, azure_url.value):
        raise _two_endpoints(role, chosen, azure_url, "keep one of them")
    return chosen or azure_url


def _tree_secret(settings: RoleConfig, role: RoleName, source: Callable[[str], Source]) -> Given | None:
    return Given(value=settings.api_key.get_secret_value(), source=source(f"model.{role}.api_key")) if settings.api_key else None


def _azure_key(model: ModelConfig, source: Callable[[str], Source]) -> Given | None:
    key = model.azure_openai_api_key
    return Given(value=key.get_secret_value(), source=source("model.azure_openai_api_key")) if key else None


def _variable(variables: Variables, name: str | None) -> Given | None:
    """The value of a variable from the environment, else from `.env`; a blank one is not there."""
    layers: tuple[Layer, ...] = ("environment", ".env")
    for layer in layers:
        value = variables.get(layer, {}).get(name or "")
        if value:
            return Given(value=value, source=Source(layer=layer, where=name or ""))
    return None


def _foreign_key(url: Given, key: Given | None) -> bool:
    """A `.env` comes with a folder, maybe somebody else's: it must not send a key it did not bring to an endpoint of its choice."""
    return url.source.layer == ".env" and key is not None and key.source.layer != ".env"


def _unused_url(url: Given) -> str:
    return f"The endpoint of {url.source.where} in .env is not used: the API key does not come from the same file"


def _two_endpoints(role: RoleName, one: Given, other: Given, remedy: str) -> ConfigError:
    named = " and ".join(f"{without_password(each.value)} ({each.source})" for each in (one, other))
    return ConfigError(f"model.{role} has two endpoints: {named}; {remedy}")


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text[:1] in ("'", '"') and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return re.split(r"\s+#", text, maxsplit=1)[0].strip()
