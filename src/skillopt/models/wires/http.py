"""One attempt of one HTTP call: where it goes, what it carries besides, and what a failure is called."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
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
_MOST_FILE = 1 << 30
_PORTS = {"http": 80, "https": 443}
_WINDOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_WINDOW_WORDS = re.compile(
    r"maximum context length|context length exceeded|exceeds? the context|context window"
    r"|(?:prompt|input) is too long",
    re.IGNORECASE,
)
_TRY_AGAIN = re.compile(r"try again in ([0-9]+(?:\.[0-9]+)?)(ms|s)\b")


class HttpRefusal(ModelError):
    """A request answered with an HTTP error status; `said` is the body, for who may ask otherwise."""

    def __init__(self, error: ModelError, status: int, said: str) -> None:
        super().__init__(error.kind, error.detail, retry_after=error.retry_after, refused=True)
        self.status = status
        self.said = said


class Login(Protocol):
    """A credential that is not simply the API key as a bearer token."""

    async def headers(self) -> Mapping[str, str]:
        """The headers of the next request; raises `ModelError("auth")` where there is no login."""
        ...

    def heard(self, status: int, sent: Mapping[str, str]) -> bool:
        """Told how a request with these headers was answered. True when the next request would carry another
        credential, so that a refused one is worth sending again.
        """
        ...

    def secrets(self) -> Iterable[str]:
        """What must not be seen in an error text."""
        ...


class Wire:
    """One provider endpoint: posts a JSON body, gives back the JSON object, else raises `ModelError`.

    It neither retries nor follows redirects, and nothing of the environment but a proxy reaches the wire.
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
        headers, content, client = await self._all_headers(), self.encoded(body), self.open()
        if self._is_loopback:
            headers[PLACE_HEADER] = f"{quote(request.place, safe='/:,=@+()[] ')};draw={request.draw}"
        mark = self.limits.mark()
        with self._failures(client):
            status, told, text = await client.send("POST", self._url(path), content, headers)
        self.limits.told(told, mark)
        return self.json_object(self._success(status, told, text, headers))

    async def send(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> str:
        """Send what is no question to a model; the text that came back with a success status."""
        client, whole = self.open(), {**await self._all_headers(), **(headers or {})}
        with self._failures(client):
            status, told, text = await client.send(method, self._url(path), content, whole, _MOST_FILE)
        return self._success(status, told, text, whole)

    def encoded(self, body: Mapping[str, Any]) -> bytes:
        """A body as it is sent."""
        try:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError as error:
            raise self.error(
                "contract", f"the request holds text that is not valid Unicode ({error.reason})"
            ) from None
        except RecursionError:  # the arguments of an earlier tool call, which a model nested
            raise self.error("contract", "the request is nested too deeply to be written as JSON") from None

    async def _all_headers(self) -> dict[str, str]:
        return {**self._headers, **({} if self._login is None else await self._login.headers())}

    def _url(self, path: str) -> str:
        return f"{self._base_url}{path}{self._query}"

    @contextlib.contextmanager
    def _failures(self, client: HttpClient) -> Iterator[None]:
        """What a connection fails with, as `ModelError`."""
        try:
            yield
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

    def _success(self, status: int, told: Mapping[str, str], text: str, sent: Mapping[str, str]) -> str:
        is_renewed = self._login is not None and self._login.heard(status, sent)
        if status >= 300:
            refusal = self.refusal(status, told, text)
            refusal.again = is_renewed
            raise refusal
        # a token that was fetched by it is known to nobody further out
        return text if self._login is None else Scrubber(self._login.secrets()).scrub(text)

    def open(self) -> HttpClient:
        """Load the client library and open the connections' pool; the first call does it otherwise."""
        if self._client is None:
            self._client = open_client(
                self._base_url, self._spec.timeout, self._spec.connections, direct=self._is_loopback
            )
        return self._client

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
        message = message[: MAX_DETAIL * 100]  # patterns over a body of megabytes take seconds
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

    def json_object(self, text: str) -> dict[str, Any]:
        """The JSON object that an answer is."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self.malformed(f"no JSON but {text}") from None
        if not isinstance(value, dict):
            raise self.malformed(f"no JSON object but {text}")
        if value.get("error"):
            raise self.malformed(f"an error under a success status: {_message(value, text)}")
        return value

    def refusal(self, status: int, headers: Mapping[str, str], text: str) -> HttpRefusal:
        """What an answer with an error status is raised as."""
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
        return HttpRefusal(
            self.error(kind, message, retry_after=retry_after(headers, time.time(), message), refused=True),
            status,
            text,
        )


def json_lines(text: str) -> list[dict[str, Any]]:
    """The objects of a file with one on each line; other lines are left out."""
    found = []
    for line in text.split("\n"):
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return [one for one in found if isinstance(one, dict)]


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
    if status in (400, 413, 422) and (words & _WINDOW_CODES or _WINDOW_WORDS.search(message)):
        return "too_long"
    return "unavailable" if status >= 500 else "contract"


def retry_after(headers: Mapping[str, str], now: float, said: str = "") -> float | None:
    """Seconds the provider asks to wait: `retry-after-ms`, `retry-after` in seconds or as an HTTP date, or
    "try again in 1.2s" in what it said; None if it does not say.
    """
    with contextlib.suppress(ValueError, KeyError):
        milliseconds = float(headers["retry-after-ms"])
        if math.isfinite(milliseconds):
            return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    if value is None:
        found = _TRY_AGAIN.search(said)
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


def usage_of(told: Any, read: str, written: str) -> Usage | None:
    """What an API reports as `<read>_tokens` and `<written>_tokens`, with details; None where it does not."""
    if not isinstance(told, Mapping):
        return None
    asked, said = count(told.get(f"{read}_tokens")), count(told.get(f"{written}_tokens"))
    if asked is None or said is None:
        return None
    of_asked, of_said = told.get(f"{read}_tokens_details"), told.get(f"{written}_tokens_details")
    return Usage(
        input_tokens=asked,
        output_tokens=said,
        cached_tokens=count(of_asked.get("cached_tokens")) if isinstance(of_asked, Mapping) else None,
        reasoning_tokens=count(of_said.get("reasoning_tokens")) if isinstance(of_said, Mapping) else None,
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
    """What the provider said, as a sentence if its error has one, else the beginning of the body."""
    error = value.get("error") if isinstance(value, dict) else None
    for said in (
        error.get("message") if isinstance(error, dict) else error,
        value.get("message") if isinstance(value, dict) else None,
    ):
        if isinstance(said, str) and said.strip():
            return said
    return text.strip() or "(empty body)"
