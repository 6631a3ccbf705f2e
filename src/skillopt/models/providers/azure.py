"""Azure OpenAI: the deployment is the model, and `auth_mode` says how a request is signed and which address
it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlsplit

from skillopt.errors import ConfigError, suggest
from skillopt.models.port import Model, ModelSpec
from skillopt.models.providers._entra import (
    DEFAULT_SCOPE,
    TokenLogin,
    TokenSource,
    from_azure_cli,
    from_managed_identity,
    require_azure_host,
)
from skillopt.models.providers._openai import OpenAIModel
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire, is_loopback, require_key, require_known_options
from skillopt.models.wires.responses import ResponsesModel
from skillopt.models.wires.structured import Structure

AUTH_MODES = ("api_key", "azure_cli", "managed_identity", "openai_compatible")
OPTIONS = ("auth_mode", "api_version", "ad_scope", "managed_identity_client_id")
API_VERSION = "2024-12-01-preview"


class KeyLogin:
    """An API key in the header Azure reads it from."""

    def __init__(self, key: str) -> None:
        self._key = key

    async def headers(self) -> Mapping[str, str]:
        """The key."""
        return {"api-key": self._key}

    def heard(self, status: int, sent: Mapping[str, str]) -> bool:
        """A key is never renewed."""
        return False

    def secrets(self) -> Iterable[str]:
        """The key."""
        return (self._key,)


def PLUGIN(spec: ModelSpec) -> Model:  # noqa: N802 - the name every plug-in has
    """A deployment behind `AZURE_OPENAI_ENDPOINT`.

    Option `auth_mode`: `api_key`, `azure_cli` (the login of the Azure CLI), `managed_identity`, or
    `openai_compatible` (the endpoint is a base URL of the OpenAI kind); unset means `api_key` where a key is
    known and `azure_cli` where none is.
    """
    return build(spec)


def build(spec: ModelSpec, *, token_source: TokenSource | None = None) -> Model:
    """The same; `token_source` replaces the Entra login, and only with it may a token go to a loopback
    address, for tests.
    """
    require_known_options(spec, OPTIONS)
    shown = f"azure:{spec.name}"
    if spec.base_url is None:
        raise ConfigError(f"{shown} needs an endpoint. Set AZURE_OPENAI_ENDPOINT.")
    mode = spec.options.get("auth_mode") or ("azure_cli" if spec.api_key is None else "api_key")
    if mode not in AUTH_MODES:
        raise ConfigError(f"{shown}: no auth mode named {mode!r}. {suggest(str(mode), AUTH_MODES)}")
    if mode in ("api_key", "openai_compatible"):
        require_key(spec, "AZURE_OPENAI_API_KEY")
    structure = Structure(spec)
    if mode == "openai_compatible":
        wire = Wire(spec, base_url=spec.base_url)
        chat = ChatModel(spec, wire, cap_field="max_completion_tokens", structure=structure)
        return OpenAIModel(spec, chat, ResponsesModel(spec, wire, structure=structure))
    login = None if mode == "api_key" else TokenLogin(_source(spec, shown, str(mode), token_source))
    base_url, query, chat_path = _address(spec)
    wire = Wire(spec, base_url=base_url, login=login or KeyLogin(spec.api_key or ""), query=query)
    chat = ChatModel(spec, wire, cap_field="max_completion_tokens", structure=structure, path=chat_path)
    return OpenAIModel(spec, chat, ResponsesModel(spec, wire, structure=structure), tools_move=not query)


def _source(spec: ModelSpec, shown: str, mode: str, given: TokenSource | None) -> TokenSource:
    endpoint = spec.base_url or ""
    if given is None or not is_loopback(endpoint):
        require_azure_host(shown, endpoint)
    if given is not None:
        return given
    scope = str(spec.options.get("ad_scope") or DEFAULT_SCOPE)
    if mode == "azure_cli":
        return from_azure_cli(shown, scope)
    return from_managed_identity(shown, scope, spec.options.get("managed_identity_client_id"))


def _address(spec: ModelSpec) -> tuple[str, dict[str, str], str]:
    """Base URL, query and path of Chat Completions: by deployment and version, or plain where the endpoint
    ends in `/openai/v1`.
    """
    endpoint = (spec.base_url or "").rstrip("/")
    if urlsplit(endpoint).path.endswith("/openai/v1"):
        return endpoint, {}, "/chat/completions"
    version = str(spec.options.get("api_version") or API_VERSION)
    base_url = f"{endpoint.removesuffix('/openai')}/openai"
    return base_url, {"api-version": version}, f"/deployments/{quote(spec.name, safe='')}/chat/completions"
