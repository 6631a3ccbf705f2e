"""Azure OpenAI: the deployment is the model; `auth_mode` says how a request is signed and addressed.

With an API key, or with a Microsoft Entra token from `az login` or a managed identity (azure-identity).
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import Field

from skillopt.config.service import Options, is_loopback
from skillopt.errors import ConfigError, ModelError
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.providers.openai import Api, OpenAIModel
from skillopt.models.wires.http import Wire
from skillopt.money import by_vendor

API_VERSION = "2024-12-01-preview"
DEFAULT_SCOPE = "https://cognitiveservices.azure.com/.default"
REFRESH_BEFORE = 300.0
"""Seconds before its end in which a token is no longer used."""
AZ_TIMEOUT = 60
_REMEDIES = {
    "azure_cli": "Install the Azure CLI and run 'az login'.",
    "managed_identity": "No managed identity answered: is one assigned to this machine?",
}
_HOSTS = tuple(
    f".{service}.azure.{cloud}"
    for cloud in ("com", "us", "cn")
    for service in ("openai", "cognitiveservices", "services.ai")
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token and when it ends, in seconds since 1970."""

    value: str = field(repr=False)
    expires_at: float


TokenSource: TypeAlias = Callable[[], Awaitable[Token]]
"""Gives a fresh token, or raises `ModelError("auth")` with the remedy."""


class TokenLogin:
    """A bearer token, fetched when it is needed, renewed before it ends and once when refused."""

    def __init__(self, source: TokenSource, *, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._clock = clock
        self._token: Token | None = None
        self._seen: tuple[str, ...] = ()
        self._fetching = asyncio.Lock()
        self._proven = True

    async def headers(self) -> Mapping[str, str]:
        """The Authorization header; many callers at once cause one fetch."""
        async with self._fetching:
            if self._token is None or self._token.expires_at - REFRESH_BEFORE <= self._clock():
                self._token = await self._source()
                self._seen = (*self._seen[-1:], self._token.value)
            return {"Authorization": f"Bearer {self._token.value}"}

    def answered(self, status: int, sent: Mapping[str, str]) -> bool:
        """Drop a refused token for a new one, unless that one was fetched because of a refusal too."""
        if status < 400:
            self._proven = True
        if status != 401:
            return False
        if self._token is not None and sent["Authorization"] == f"Bearer {self._token.value}":
            if not self._proven:
                return False
            self._token, self._proven = None, False
        return True

    def secrets(self) -> Iterable[str]:
        """The tokens of late."""
        return self._seen


def require_azure_host(model: str, endpoint: str) -> None:
    """Refuse to send a token anywhere but to Azure over https."""
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").lower()
    if parts.scheme != "https" or not host.endswith(_HOSTS):
        raise ConfigError(
            f"{model}: an Entra token is sent only to Azure over https, and {host or endpoint!r} is not"
            f" (known: {', '.join(_HOSTS[:3])} and those of sovereign clouds). Check the endpoint, or use an"
            " API key (auth_mode api_key or openai_compatible)."
        )


def from_azure_identity(
    model: str, mode: Literal["azure_cli", "managed_identity"], scope: str, client_id: str | None = None
) -> TokenSource:
    """Tokens of who logged in with `az login`, or of this machine; `client_id` chooses among its
    user-assigned identities.
    """
    try:
        identity: Any = importlib.import_module("azure.identity.aio")
        refused = importlib.import_module("azure.core.exceptions").ClientAuthenticationError
    except ModuleNotFoundError:
        raise ConfigError(
            f"{model}: auth_mode {mode} needs azure-identity: pip install 'skillopt-trainer[azure]'"
        ) from None

    async def fetch() -> Token:
        # A credential keeps its tokens, and a refused one must not come back: each fetch makes its own.
        if mode == "azure_cli":
            credential = identity.AzureCliCredential(process_timeout=AZ_TIMEOUT)
        else:
            credential = identity.ManagedIdentityCredential(client_id=client_id)
        try:
            async with credential:
                found = await credential.get_token(scope)
        except (refused, ValueError) as error:  # a ValueError: the scope is none
            reason = str(error).strip().split("\n")[0][:200].rstrip(". ")
            raise ModelError("auth", f"{model}: {reason}. {_REMEDIES[mode]}", refused=True) from None
        return Token(value=found.token, expires_at=float(found.expires_on))

    return fetch
