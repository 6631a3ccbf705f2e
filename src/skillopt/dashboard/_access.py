"""Decides which requests reach the dashboard: the right host, the same origin, and the token where the bind
is not this machine's own.
"""

from __future__ import annotations

import hmac
import html
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORWARDED = re.compile(rb"(x-forwarded-.*|forwarded|x-original-.*|x-rewrite-.*)", re.IGNORECASE)
_SCRIPT = re.compile(rb"<script(?=[\s>])")
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


def is_loopback(host: str) -> bool:
    """Whether a bind to this host can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRefusal:
    """Why a request goes no further."""

    status: int
    sentence: str
    asks_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gatekeeper:
    """The rules. Pure: it reads a request's head and says what is wrong with it, or nothing."""

    loopback: bool
    """Whether the bind is this machine's own; then `Host` must be too, or a foreign name that resolves here
    would count as us.
    """
    token: str | None
    cookie: str

    def refusal(self, scope: Scope) -> AccessRefusal | None:
        """What is wrong with a request or a websocket handshake; None where it may pass."""
        headers = _headers(scope)
        host = headers.get("host", "")
        if self.loopback and _hostname(host) not in LOOPBACK_NAMES:
            return AccessRefusal(
                status=421,
                sentence="This dashboard answers only as localhost. Open it by the address it printed.",
            )
        return self._origin(scope, headers, host) or self._login(scope, headers)

    def presents_token(self, scope: Scope) -> bool:
        """Whether the address itself carries the right token."""
        return self.token is not None and any(
            name == "token" and _equal(value, self.token)
            for name, value in parse_qsl(scope.get("query_string", b"").decode("latin-1"))
        )

    def _origin(self, scope: Scope, headers: Mapping[str, str], host: str) -> AccessRefusal | None:
        refused = AccessRefusal(
            status=403, sentence="This request came from another web page, so nothing was done."
        )
        origin = headers.get("origin")
        if origin is not None:
            return None if _is_origin_of(origin, host) else refused
        if scope["type"] == "websocket" or scope.get("method", "GET") not in _SAFE:
            return refused  # every browser names the origin of these
        came_from = headers.get("sec-fetch-site", "none")
        if came_from in ("none", "same-origin"):
            return None
        # A link on another page may lead here; a script, frame or image of another page may not.
        is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return None if is_visit else refused

    def _login(self, scope: Scope, headers: Mapping[str, str]) -> AccessRefusal | None:
        if self.token is None or _equal(_cookies(headers.get("cookie", "")).get(self.cookie, ""), self.token):
            return None
        return AccessRefusal(
            status=401,
            sentence="This dashboard asks for the token it printed when it was started.",
            asks_token=True,
        )


class Guard:
    """Stands before the whole application, websockets included: asks the gatekeeper, takes the token, adds
    the security headers.
    """

    def __init__(self, app: Asgi, keeper: Gatekeeper) -> None:
        self.app = app
        self.keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, handshake or lifespan."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        # What a proxy says of a request is anybody's to write: addresses in the page would be built from it.
        scope["headers"] = [
            (name, value) for name, value in scope["headers"] if not _FORWARDED.fullmatch(name)
        ]
        refusal = self.keeper.refusal(scope)
        may_enter = refusal is None or refusal.asks_token
        if (
            may_enter
            and scope["type"] == "http"
            and scope["method"] == "GET"
            and self.keeper.presents_token(scope)
        ):
            # also who has the cookie: the token must not stay in the address
            await self._welcome(scope, send)
        elif refusal is None:
            await self.app(scope, receive, send if scope["type"] == "websocket" else _Secured(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.sentence})
        else:
            await _answer(send, refusal.status, _page(refusal))

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Keep the token in a cookie and take it out of the address."""
        rest = [
            pair for pair in parse_qsl(scope.get("query_string", b"").decode("latin-1")) if pair[0] != "token"
        ]
        # One slash: a path of two would be read as the name of another host.
        path = "/" + scope["path"].lstrip("/")
        where = f"{path}?{urlencode(rest)}" if rest else path
        cookie = f"{self.keeper.cookie}={self.keeper.token}; HttpOnly; SameSite=Strict; Path=/"
        await _answer(send, 303, "", {"location": _ascii(where), "set-cookie": cookie})


class _Secured:
    """Adds the security headers to a response, and to a page the nonce without which no script runs."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.nonce = secrets.token_urlsafe(16)
        self.held: Message | None = None
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", []),
                *_encoded({**_HEADERS, "content-security-policy": _policy(self.nonce)}),
            ]
            if _is_html(message):
                self.held = message
                return
        elif message["type"] == "http.response.body" and self.held is not None:
            self.body += message.get("body", b"")
            if message.get("more_body", False):
                return
            # All text of ours and of runs stands escaped in the page, so every `<script` in it is the
            # library's own.
            body = _SCRIPT.sub(b'<script nonce="%s"' % self.nonce.encode(), self.body)
            kept = [pair for pair in self.held["headers"] if pair[0].lower() != b"content-length"]
            await self.send({**self.held, "headers": [*kept, (b"content-length", str(len(body)).encode())]})
            message, self.held = {"type": "http.response.body", "body": body}, None
        await self.send(message)


def _policy(nonce: str) -> str:
    # The library compiles its components in the browser, hence unsafe-eval; inline scripts and handlers
    # without the nonce do not run.
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self'"
        " 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src"
        " 'self' blob:; manifest-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    )


def _page(refusal: AccessRefusal) -> str:
    form = (
        '<form method="get"><label>Token <input name="token" type="password" autocomplete="off" required'
        " autofocus></label> <button>Open</button></form>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        ' content="width=device-width">'
        "<title>SkillOpt</title><style>body{font:16px/1.6 system-ui,sans-serif;max-width:36rem;margin:4rem"
        " auto;padding:0 1rem}"
        "input{font:inherit}</style></head><body><main><h1>SkillOpt</h1>"
        f"<p>{html.escape(refusal.sentence)}</p>{form if refusal.asks_token else ''}</main></body></html>"
    )


async def _answer(send: Send, status: int, text: str, extra: Mapping[str, str] | None = None) -> None:
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri"
        " 'none'"
    )
    body = text.encode()
    headers = {
        **_HEADERS,
        "content-type": "text/html; charset=utf-8",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "content-security-policy": policy,
        **(extra or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, str]:
    """The headers by name; one that comes twice is taken with a comma, so that it matches nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}{'; ' if key == 'cookie' else ','}{text}" if key in found else text
    return found


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if re.fullmatch(r"[\w.:\[\]-]+", host) else ""
    except ValueError:
        return ""


def _is_origin_of(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == host.lower()


def _cookies(text: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return {name: value for name, _, value in pairs}


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _is_html(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/html")
        for name, value in message["headers"]
    )


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _ascii(text: str) -> str:
    """A location header holds no character that could end it."""
    return "".join(char if 32 < ord(char) < 127 else "" for char in text)
