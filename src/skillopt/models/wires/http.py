"""One attempt of one HTTP call through a provider's SDK: where it goes, what it carries besides its body, and
what a failure is called.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import importlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from skillopt.errors import ConfigError, Kind, ModelError
from skillopt.messages import Request, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.wires.address import is_loopback
from skillopt.redact import Scrubber, redact_patterns

PLACE_HEADER = "x-skillopt-place"
MAX_DETAIL = 500
_PORTS = {"http": 80, "https": 443}
_CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


class Refusal(ModelError):
    """A request answered with an HTTP error status; `said` is the body, for whoever may ask in
    another way.
    """

    def __init__(self, error: ModelError, status: int, said: str) -> None:
        super().__init__(error.kind, error.detail, retry_after=error.retry_after, refused=True)
        self.status = status
        self.said = said


class Login(Protocol):
    """A credential that is not simply the API key as a bearer token."""

    async def headers(self) -> Mapping[str, str]:
        """The headers of the next request; raises `ModelError("auth")` where there is no login."""
        ...

    def heard(self, status: int) -> None:
        """Told how a request with these headers was answered."""
        ...

    def secrets(self) -> Iterable[str]:
        """What must not be seen in an error text."""
        ...


class Wire:
    """One provider endpoint: posts a JSON body, gives back the JSON object, raises `ModelError` for
    everything else.

    The SDK is imported and its client opened with the first call, which is when there is a running loop. The
    SDK supplies the transport, the authentication and the versions of its API; it neither retries nor follows
    redirects, and nothing of its environment variables reaches the wire: what may be sent, and where to, is
    what config put in the spec.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        sdk: Literal["openai", "anthropic"],
        base_url: str,
        login: Login | None = None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        self._spec = spec
        self._login = login
        self._query = dict(query or {})
        self._sdk_name = sdk
        self._base_url = base_url
        parts = _checked_url(spec.provider, base_url)
        self._check_key()
        self._is_loopback = is_loopback(base_url)
        self._scrubber = Scrubber([spec.api_key or ""])
        self._sdk: Any = None
        self._client: Any = None
        self._failures: tuple[type[BaseException], ...] = ()
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self.endpoint = f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"

    async def post(self, path: str, body: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Send `body` once and return the object that came back with a success status."""
        if self._client is None:
            self._open()
        sdk = self._sdk
        options = {"headers": await self._headers(request), "params": self._query}
        try:
            text = await asyncio.wait_for(
                self._client.post(path, cast_to=str, body=body, options=options), self._spec.timeout
            )
        except asyncio.TimeoutError:
            raise self.error("timeout", f"no answer within {self._spec.timeout:g} s") from None
        except sdk.APIStatusError as error:
            self._tell(error.status_code)
            raise self._refusal(error.status_code, error.response.headers, error.response.text) from None
        except self._failures as error:
            raise self._broken(error) from None
        except UnicodeEncodeError as error:
            raise self.error(
                "contract", f"the request holds text that is not valid Unicode ({error.reason})"
            ) from None
        self._tell(200)
        if self._login is not None:  # a token that was fetched by it is known to nobody further out
            text = Scrubber(self._login.secrets()).scrub(text)
        return self._object(text)

    async def close(self) -> None:
        """Close the connections; the next call would open new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def error(
        self, kind: Kind, message: str, *, retry_after: float | None = None, refused: bool = False
    ) -> ModelError:
        """An error of this endpoint, without secrets and of bounded length (redacted before it is cut)."""
        scrubber = (
            self._scrubber
            if self._login is None
            else Scrubber([self._spec.api_key or "", *self._login.secrets()])
        )
        clean = " ".join(redact_patterns(scrubber.scrub(clean_text(message))).split())
        detail = f"{self._spec.provider}:{self._spec.name} at {self.endpoint}: {clean}"
        if len(detail) > MAX_DETAIL:
            detail = detail[: MAX_DETAIL - 1] + "…"
        return ModelError(kind, detail, retry_after=retry_after, refused=refused)

    def malformed(self, what: str) -> ModelError:
        """A success status with a body that is no answer; it is an outage, not something the model said."""
        return self.error("unavailable", f"the answer is not well-formed: {what}")

    def broken_off(self, reason: Any, usage: Usage | None, error: Any = None) -> ModelError:
        """An answer that ended for a reason which ends no answer: `error`, `abort`, none at all. It is an
        outage too, however much text came before the end.
        """
        told = f": {_message({'error': error}, str(error))}" if error else ""
        broken = self.error("unavailable", f"the answer broke off, it ends with {reason!r}{told}")
        broken.tokens = None if usage is None else (usage.input_tokens, usage.output_tokens)
        return broken

    def _open(self) -> None:
        """Open the SDK's client on its aiohttp transport, with a pool as large as the calls that may be open
        at once.
        """
        sdk = importlib.import_module(self._sdk_name)
        aiohttp = importlib.import_module("aiohttp")
        spec = self._spec
        # The SDKs' own Limits class is a fork of httpx's in one version and httpx's in another: take the one
        # the SDK uses.
        limits = type(sdk.DEFAULT_CONNECTION_LIMITS)(
            max_connections=max(1, spec.connections),
            max_keepalive_connections=max(1, spec.connections),
            keepalive_expiry=30.0,
        )
        client = getattr(sdk, _CLIENTS[self._sdk_name])(
            api_key=spec.api_key or "none",
            base_url=self._base_url,
            timeout=spec.timeout,
            max_retries=0,
            http_client=sdk.DefaultAioHttpClient(
                limits=limits, timeout=spec.timeout, follow_redirects=False, trust_env=not self._is_loopback
            ),
        )
        # The SDKs read more of the environment than the arguments above replace: extra headers, a second
        # credential, an organisation. They have no switch for it, and a key meant for one host must not
        # travel to another.
        client._custom_headers = {}
        for ambient in ("organization", "project", "auth_token"):
            if hasattr(client, ambient):
                setattr(client, ambient, None)
        self._sdk, self._client = sdk, client
        # aiohttp and OS errors that a transport of some version lets through unmapped are outages like the
        # mapped ones.
        self._failures = (sdk.APIError, aiohttp.ClientError, OSError)

    def _tell(self, status: int) -> None:
        if self._login is not None:
            self._login.heard(status)

    async def _headers(self, request: Request) -> dict[str, Any]:
        headers: dict[str, Any] = {}
        if self._spec.api_key is None or self._login is not None:
            headers["Authorization"] = headers["X-Api-Key"] = self._sdk.Omit()
        if self._login is not None:
            headers |= await self._login.headers()
        if self._is_loopback:
            headers[PLACE_HEADER] = f"{quote(request.place, safe='/:,=@+()[] ')};draw={request.draw}"
        return headers

    def _check_key(self) -> None:
        key = self._spec.api_key
        if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError(
                f"The API key for {self._spec.provider!r} cannot be sent: it is empty, or has a blank, a line"
                " break or a character that is not ASCII. Copy it again."
            )

    def _object(self, text: str) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self.malformed(f"no JSON but {text}") from None
        if not isinstance(value, dict):
            raise self.malformed(f"no JSON object but {text}")
        if value.get("error"):
            raise self.malformed(f"an error under a success status: {_message(value, text)}")
        return value

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> Refusal:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        kind = kind_of_status(status, value)
        message = f"HTTP {status}: {_message(value, text)}"
        if kind == "auth" and status not in (401, 403):
            message = f"HTTP {status}, the quota or credit of this key is used up: {_message(value, text)}"
        if 300 <= status < 400:
            message = (
                f"HTTP {status}, a redirect to {headers.get('location', 'nowhere')}; set the base URL to the"
                " final address"
            )
        return Refusal(
            self.error(kind, message, retry_after=retry_after(headers, time.time()), refused=True),
            status,
            text,
        )

    def _broken(self, error: BaseException) -> ModelError:
        # The transports call every broken connection a connect timeout; only the chain of causes tells a real
        # one.
        causes = list(_causes(error))
        if any(isinstance(cause, (TimeoutError, asyncio.TimeoutError)) for cause in causes):
            return self.error("timeout", f"timed out after {self._spec.timeout:g} s")
        # A connection that was never made carried no request, so nothing can have been billed.
        unmade = importlib.import_module("aiohttp").ClientConnectorError
        is_unmade = any(isinstance(cause, unmade) for cause in causes)
        return self.error(
            "unavailable", f"connection failed: {causes[-1] or type(causes[-1]).__name__}", refused=is_unmade
        )


def kind_of_status(status: int, body: Any) -> Kind:
    """The kind of failure an HTTP status with this decoded body is."""
    error = body.get("error") if isinstance(body, dict) else None
    words = {str(error.get(field)) for field in ("type", "code")} if isinstance(error, dict) else set()
    message = str(error.get("message", "")) if isinstance(error, dict) else ""
    if (
        status == 402
        or words & {"insufficient_quota", "billing_error"}
        or "credit balance is too low" in message
    ):
        return "auth"  # no retry brings credit back
    if status in (401, 403):
        return "auth"
    if status in (429, 529) or "overloaded_error" in words:
        return "rate_limit"
    if status == 408:
        return "timeout"
    return "unavailable" if status >= 500 else "contract"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date;
    None if it does not say.
    """
    with contextlib.suppress(ValueError, KeyError):
        milliseconds = float(headers["retry-after-ms"])
        if math.isfinite(milliseconds):
            return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    if value is None:
        return None
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    return None


def count(value: Any) -> int | None:
    """A token count as reported, or None when it is absent or no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def clean_text(text: str) -> str:
    """Text that can be stored as UTF-8: half of a surrogate pair, which JSON can carry, becomes a replacement
    character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fingerprint(spec: ModelSpec, options: Iterable[str] = ()) -> dict[str, Any]:
    """Provider, model, the sampling parameters that are set and those of the named options that are; neither
    host nor key.

    How structured output is asked for is in it where the user chose a way, and never what `auto` came to.
    """
    chosen = {name: spec.options[name] for name in options if spec.options.get(name) is not None}
    if spec.structured_output != "auto":
        chosen["structured_output"] = spec.structured_output
    return {"provider": spec.provider, "model": spec.name, **spec.sampling(), **chosen}


def _checked_url(provider: str, url: str) -> SplitResult:
    shown = redact_patterns(url)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"The base URL {shown!r} for {provider!r} cannot be used. Write it like https://host/v1."
        )
    if "@" in parts.netloc:
        raise ConfigError(
            f"The base URL for {provider!r} (host {parts.hostname}) holds a user name. Give the credential as"
            " the API key."
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"The base URL {shown!r} for {provider!r} must end before '?' and '#'.")
    return parts


def _message(value: Any, text: str) -> str:
    """What the provider said, as a sentence if its error has one, else the beginning of the body."""
    error = value.get("error") if isinstance(value, dict) else None
    for said in (
        error.get("message") if isinstance(error, dict) else error,
        value.get("message") if isinstance(value, dict) else None,
    ):
        if isinstance(said, str) and said.strip():
            return said
    return text.strip() or "(empty body)"


def _causes(error: BaseException) -> Iterable[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
