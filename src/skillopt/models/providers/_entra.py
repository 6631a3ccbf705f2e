"""Microsoft Entra logins for Azure: where a token comes from, how long it lasts, where it may go."""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from skillopt.errors import ConfigError, Fault, ModelError
from skillopt.process import minimal_env, run_process

DEFAULT_SCOPE = "https://cognitiveservices.azure.com/.default"
REFRESH_BEFORE = 300.0
"""Seconds before its end in which a token is no longer used."""
AZ_TIMEOUT = 60.0
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


def from_azure_cli(model: str, scope: str, *, program: str = "az") -> TokenSource:
    """Tokens of the person logged in with the Azure CLI."""

    async def fetch() -> Token:
        path = shutil.which(program)
        if path is None:
            raise _no_token(model, "the Azure CLI ('az') is not installed. Install it and run 'az login'")
        argv = [path, "account", "get-access-token", "--scope", scope, "--output", "json"]
        try:
            done = await run_process(argv, input=None, env=minimal_env(), cwd=None, timeout=AZ_TIMEOUT)
        except Fault as fault:
            raise _no_token(model, f"'az account get-access-token' failed ({fault.detail})") from None
        if done.code != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise _no_token(
                model,
                f"'az account get-access-token' failed: {said[-1][:200] if said else done.code}. Run 'az"
                " login'",
            )
        return _read(model, done.stdout)

    return fetch


def from_managed_identity(model: str, scope: str, client_id: str | None) -> TokenSource:
    """Tokens of the machine this runs on; `client_id` chooses among user-assigned identities."""
    try:
        identity: Any = importlib.import_module("azure.identity.aio")
    except ModuleNotFoundError:
        raise ConfigError(
            f"{model}: auth_mode managed_identity needs azure-identity: pip install 'skillopt-trainer[azure]'"
        ) from None

    async def fetch() -> Token:
        try:
            async with identity.ManagedIdentityCredential(
                **({"client_id": client_id} if client_id else {})
            ) as credential:
                found = await credential.get_token(scope)
        except importlib.import_module("azure.core.exceptions").ClientAuthenticationError as error:
            raise _no_token(
                model, f"no managed identity answered ({str(error).splitlines()[0][:200]})"
            ) from None
        return Token(value=found.token, expires_at=float(found.expires_on))

    return fetch


def _read(model: str, printed: bytes) -> Token:
    try:
        told = json.loads(printed)
        # Older CLIs print only `expiresOn`, in local time without an offset.
        ends = (
            told.get("expires_on")
            or datetime.fromisoformat(told["expiresOn"]).astimezone(timezone.utc).timestamp()
        )
        return Token(value=str(told["accessToken"]), expires_at=float(ends))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _no_token(model, "'az account get-access-token' printed no token. Run 'az login'") from None


def _no_token(model: str, why: str) -> ModelError:
    return ModelError("auth", f"{model}: {why}.", refused=True)
