"""One HTTP call to a model: where it goes, what it carries, and the name of each failure."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from skillopt.config.service import is_loopback
from skillopt.errors import ConfigError, Kind, ModelError
from skillopt.messages import Request, Usage
from skillopt.models.port import ModelSpec
from skillopt.models.stack.rate_limits import RateLimits
from skillopt.models.wires.client import HttpClient, OversizedAnswer, open_client
from skillopt.redact import Scrubber, redact_patterns
from skillopt.redact.printable import clean_text

PLACE_HEADER = "x-skillopt-place"
MAX_DETAIL = 500
_PORTS = {"http": 80, "https": 443}
_WINDOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_WINDOW_WORDS = re.compile(
    r"maximum context length|context length exceeded|exceeds? the context|context window"
    r"|(?:prompt|input) is too long",
    re.IGNORECASE,
)
_TRY_AGAIN = re.compile(r"try again in ([0-9]+(?:\.[0-9]+)?)(ms|s)\b")


class HttpRefusal(ModelError):
    """A request answered with an HTTP error status; a caller that can ask in another way reads `body`."""

    def __init__(self, error: ModelError, status: int, body: str) -> None:
        super().__init__(error.kind, error.detail, retry_after=error.retry_after, refused=True)
        self.status = status
        self.body = body


class Login(Protocol):
    """A credential that is not simply the API key as a bearer token."""

    async def headers(self) -> Mapping[str, str]:
        """The headers of the next request; raises `ModelError("auth")` where there is no login."""
        ...

    def answered(self, status: int, sent: Mapping[str, str]) -> bool:
        """Take the status of a request that was sent with these headers. True when the next request carries
        another credential, so that a refused one is worth sending again.
        """
        ...

    def secrets(self) -> Iterable[str]:
        """The credentials that no error text may show."""
        ...


class Wire:
    """One endpoint of a provider: posts a JSON body and returns the JSON object of the answer.

    Every failure is a `ModelError`. A wire neither retries nor follows redirects, and nothing of the
    environment but a proxy reaches it.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        base_url: str,
        key_header: str = "authorization",
        headers: Mapping[str, str] | None = None,
        login: Login | None = None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        """`key_header` carries the API key (`authorization`: as a bearer token) unless there is a `login`."""
        self._spec = spec
        self._login = login
        self._base_url = base_url.rstrip("/")
        self._query = f"?{urlencode(query)}" if query else ""
        parts = _checked_url(spec.provider, base_url)
        key = self._spec.api_key
        if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError(
                f"The API key for {self._spec.provider!r} cannot be sent: it is empty, or has a blank, a line"
                " break or a character that is not ASCII. Copy it again."
            )
        self._is_loopback = is_loopback(base_url)
        self._scrubber = Scrubber([spec.api_key or ""])
        self._headers = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
        if spec.api_key is not None and login is None:
            self._headers[key_header] = (
                f"Bearer {spec.api_key}" if key_header == "authorization" else spec.api_key
            )
        self._client: HttpClient | None = None
        self.limits = RateLimits()
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self.endpoint = f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"

    async def post(self, path: str, body: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Send `body` once and return the object that came back with a success status."""
        login = {} if self._login is None else await self._login.headers()
        headers, content, client = {**self._headers, **login}, self._encoded(body), self.open()
        if self._is_loopback:
            headers[PLACE_HEADER] = f"{quote(request.place, safe='/:,=@+()[] ')};draw={request.draw}"
        mark = self.limits.mark()
        try:
            url = f"{self._base_url}{path}{self._query}"
            status, answered, text = await client.send(url, content, headers)
        except asyncio.TimeoutError:
            raise self.error("timeout", f"no answer within {self._spec.timeout:g} s") from None
        except UnicodeDecodeError as error:
            raise self.malformed(f"byte {error.start} is no {error.encoding} ({error.reason})") from None
        except OversizedAnswer as error:
            raise self.malformed(str(error)) from None
        except client.failures as error:
            # A connection that was never made carried no request, so nothing can have been billed.
            why = f"connection failed: {error or type(error).__name__}"
            raise self.error("unavailable", why, refused=isinstance(error, client.unmade)) from None
        self.limits.update(answered, mark)
        is_renewed = self._login is not None and self._login.answered(status, headers)
        if status >= 300:
            refusal = self._refusal(status, answered, text)
            refusal.again = is_renewed
            raise refusal
        if self._login is not None:  # a token that the login fetched is known to nobody further out
            text = Scrubber(self._login.secrets()).scrub(text)
        return self._json_object(text)

    def _encoded(self, body: Mapping[str, Any]) -> bytes:
        try:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError as error:
            raise self.error(
                "contract", f"the request holds text that is not valid Unicode ({error.reason})"
            ) from None
        except RecursionError:  # the arguments of an earlier tool call, which a model nested
            raise self.error("contract", "the request is nested too deeply to be written as JSON") from None

    def open(self) -> HttpClient:
        """Open the pool of connections before the first call needs it."""
        if self._client is None:
            self._client = open_client(
                self._base_url, self._spec.timeout, self._spec.connections, direct=self._is_loopback
            )
        return self._client

    async def close(self) -> None:
        """Close the connections; another call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def error(
        self, kind: Kind, message: str, *, retry_after: float | None = None, refused: bool = False
    ) -> ModelError:
        """An error of this endpoint without secrets: redacted first, then cut."""
        scrubber = (
            self._scrubber
            if self._login is None
            else Scrubber([self._spec.api_key or "", *self._login.secrets()])
        )
        message = message[: MAX_DETAIL * 100]  # patterns over a body of megabytes take seconds
        clean = " ".join(redact_patterns(scrubber.scrub(clean_text(message))).split())
        detail = f"{self._spec.provider}:{self._spec.name} at {self.endpoint}: {clean}"
        if len(detail) > MAX_DETAIL:
            detail = detail[: MAX_DETAIL - 1] + "…"
        return ModelError(kind, detail, retry_after=retry_after, refused=refused)

    def malformed(self, what: str) -> ModelError:
        """An outage: a success status with a body that is no answer."""
        return self.error("unavailable", f"the answer is not well-formed: {what}")

    def broken_off(self, reason: Any, usage: Usage | None, error: Any = None) -> ModelError:
        """An outage: an answer whose last word is `error`, `abort` or nothing, however much text it has."""
        detail = f": {_message({'error': error}, str(error))}" if error else ""
        broken = self.error("unavailable", f"the answer broke off, it ends with {reason!r}{detail}")
        broken.tokens = None if usage is None else (usage.input_tokens, usage.output_tokens)
        return broken

    def _json_object(self, text: str) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self.malformed(f"no JSON but {text}") from None
        if not isinstance(value, dict):
            raise self.malformed(f"no JSON object but {text}")
        if value.get("error"):
            raise self.malformed(f"an error under a success status: {_message(value, text)}")
        return value

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> HttpRefusal:
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
        wait = retry_after(headers, time.time(), message)
        return HttpRefusal(self.error(kind, message, retry_after=wait), status, text)


def kind_of_status(status: int, body: Any) -> Kind:
    """The kind of failure that an HTTP status with this decoded body means."""
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
    if status in (400, 413, 422) and (words & _WINDOW_CODES or _WINDOW_WORDS.search(message)):
        return "too_long"
    return "unavailable" if status >= 500 else "contract"


def retry_after(headers: Mapping[str, str], now: float, message: str = "") -> float | None:
    """Seconds the provider asks to wait: `retry-after-ms`, `retry-after` in seconds or as an HTTP date, or
    "try again in 1.2s" in its message (OpenAI); None if it does not say.
    """
    with contextlib.suppress(ValueError, KeyError):
        milliseconds = float(headers["retry-after-ms"])
        if math.isfinite(milliseconds):
            return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    if value is None:
        found = _TRY_AGAIN.search(message)
        return None if found is None else float(found[1]) / (1000 if found[2] == "ms" else 1)
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    return None


def count(value: Any) -> int | None:
    """A token count as reported, or None when it is absent or no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def usage_of(report: Any, read: str, written: str) -> Usage | None:
    """Usage that an API reports as `<read>_tokens` and `<written>_tokens` with details; else None."""
    if not isinstance(report, Mapping):
        return None
    tokens_in, tokens_out = count(report.get(f"{read}_tokens")), count(report.get(f"{written}_tokens"))
    if tokens_in is None or tokens_out is None:
        return None

    def detail(direction: str, name: str) -> int | None:
        details = report.get(f"{direction}_tokens_details")
        return count(details.get(name)) if isinstance(details, Mapping) else None

    return Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cached_tokens=detail(read, "cached_tokens"),
        reasoning_tokens=detail(written, "reasoning_tokens"),
    )


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
    """The provider's error message where the body has one, else the body."""
    body = value if isinstance(value, dict) else {}
    error = body.get("error")
    for message in (error.get("message") if isinstance(error, dict) else error, body.get("message")):
        if isinstance(message, str) and message.strip():
            return message
    return text.strip() or "(empty body)"
