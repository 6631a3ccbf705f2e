"""Azure OpenAI: the deployment is the model; `auth_mode` says how a request is signed and addressed."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field

from skillopt.config.service import Options, is_loopback
from skillopt.errors import ConfigError
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.providers._entra import (
    DEFAULT_SCOPE,
    TokenLogin,
    TokenSource,
    from_azure_identity,
    require_azure_host,
)
from skillopt.models.providers._openai import Api, OpenAIModel
from skillopt.models.wires.http import Wire
from skillopt.money import by_vendor

API_VERSION = "2024-12-01-preview"


class AzureOptions(Options):
    """Options of Azure OpenAI."""

    auth_mode: Literal["api_key", "azure_cli", "managed_identity", "openai_compatible"] | None = Field(
        default=None, description="How to log in; unset means api_key where a key is known, else azure_cli."
    )
    api_version: str | None = Field(
        default=None, description="Version of the API; unset means the provider's own choice."
    )
    ad_scope: str | None = Field(
        default=None, description="Scope of the token; unset means Azure's cognitive services."
    )
    managed_identity_client_id: str | None = Field(
        default=None, description="Client id of a user-assigned managed identity."
    )
    api: Api | None = Field(
        default=None,
        description="Which API openai_compatible speaks; unset means chat, auto goes by the name.",
    )


_LOGIN = tuple(name for name in AzureOptions.model_fields if name != "api")


def build(spec: ModelSpec, *, token_source: TokenSource | None = None) -> Model:
    """A deployment behind `AZURE_OPENAI_ENDPOINT`.

    `token_source` replaces the Entra login, and only with it may a token go to a loopback address, for tests.
    """
    shown = f"azure:{spec.name}"
    if spec.base_url is None:
        raise ConfigError(f"{shown} needs an endpoint. Set AZURE_OPENAI_ENDPOINT.")
    mode = spec.options.get("auth_mode") or ("azure_cli" if spec.api_key is None else "api_key")
    api: Api | None = spec.options.get("api")
    if mode == "openai_compatible":
        return OpenAIModel(spec, Wire(spec, base_url=spec.base_url), api=api or "chat")
    if api is not None:
        raise ConfigError(f"{shown}: the option api is for auth_mode openai_compatible, and this is {mode}.")
    login = None if mode == "api_key" else TokenLogin(_source(spec, shown, mode, token_source))
    base_url, query, chat_path = _address(spec)
    wire = Wire(spec, base_url=base_url, key_header="api-key", login=login, query=query)
    return OpenAIModel(spec, wire, chat_path=chat_path, tools_move=not query)


def _source(spec: ModelSpec, shown: str, mode: Any, given: TokenSource | None) -> TokenSource:
    endpoint = spec.base_url or ""
    if given is None or not is_loopback(endpoint):
        require_azure_host(shown, endpoint)
    if given is not None:
        return given
    scope = str(spec.options.get("ad_scope") or DEFAULT_SCOPE)
    return from_azure_identity(shown, mode, scope, spec.options.get("managed_identity_client_id"))


def _address(spec: ModelSpec) -> tuple[str, dict[str, str], str]:
    """Base URL, query and path: by deployment and version, or plain where the URL ends in `/openai/v1`."""
    endpoint = (spec.base_url or "").rstrip("/")
    if urlsplit(endpoint).path.endswith("/openai/v1"):
        return endpoint, {}, "/chat/completions"
    version = str(spec.options.get("api_version") or API_VERSION)
    base_url = f"{endpoint.removesuffix('/openai')}/openai"
    return base_url, {"api-version": version}, f"/deployments/{quote(spec.name, safe='')}/chat/completions"


PLUGIN = Provider(
    open=build,
    Options=AzureOptions,
    routing=frozenset(_LOGIN),
    # Where no mode is set, the login of the Azure CLI takes the place of a missing key.
    needs_key=lambda options: options.get("auth_mode") in ("api_key", "openai_compatible"),
    needs_url=True,
    uses_own_login=True,
    default_model="gpt-5.5",
    price=by_vendor("azure"),
)
