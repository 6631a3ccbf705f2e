"""Microsoft Entra logins for Azure: where a token comes from, how long it lasts, where it may go."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from skillopt.errors import ConfigError, ModelError

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

    def heard(self, status: int, sent: Mapping[str, str]) -> bool:
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
