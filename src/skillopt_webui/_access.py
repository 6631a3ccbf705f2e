"""Decides which requests reach the dashboard: right host, same origin, and the token."""

from __future__ import annotations

import hmac
import html
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiohttp import web

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
NONCE = web.RequestKey("nonce", str)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{}'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:;"
    " manifest-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What the rules read of a request. A header that comes twice is taken with a comma, so that it matches
    nothing.
    """

    method: str = "GET"
    path: str = "/"
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in small letters."""

    @classmethod
    def of(cls, request: web.Request) -> RequestHead:
        found = {
            name.lower(): ("; " if name.lower() == "cookie" else ",").join(request.headers.getall(name))
            for name in request.headers
        }
        return cls(method=request.method, path=request.path, query=request.query_string, headers=found)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gatekeeper:
    """The rules. Pure: it reads a request's head and says what is wrong with it, or nothing."""

    loopback: bool
    """Whether the bind is this machine's own; then `Host` must be too, against names that resolve here."""
    token: str | None
    """None lets every account of this machine in."""
    cookie: str

    def refusal(self, head: RequestHead) -> AccessRefusal | None:
        """What is wrong with a request; None where it may pass."""
        if self.loopback and _hostname(head.headers.get("host", "")) not in LOOPBACK_NAMES:
            return AccessRefusal(
                status=421,
                sentence="This dashboard answers only as localhost. Open it by the address it printed.",
            )
        return self._origin(head) or self._login(head)

    def presents_token(self, head: RequestHead) -> bool:
        """Whether the address itself carries the right token."""
        return self.token is not None and any(
            name == "token" and _equal(value, self.token) for name, value in parse_qsl(head.query)
        )

    def welcome(self, head: RequestHead) -> web.Response:
        """Keep the token in a cookie and take it out of the address."""
        rest = [pair for pair in parse_qsl(head.query) if pair[0] != "token"]
        # A location header holds no character that could end it, and begins with one slash: browsers read
        # two, or one of them backwards, as the name of another host.
        path = "/" + "".join(char for char in head.path if 32 < ord(char) < 127).lstrip("/\\")
        where = f"{path}?{urlencode(rest)}" if rest else path
        # Not Strict: the file that opens the browser is another site, and its visit would lose the cookie.
        cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Lax; Path=/"
        return web.Response(status=303, headers={"Location": where, "Set-Cookie": cookie})

    def _origin(self, head: RequestHead) -> AccessRefusal | None:
        refused = AccessRefusal(
            status=403, sentence="This request came from another web page, so nothing was done."
        )
        origin = head.headers.get("origin")
        if origin is not None:
            return None if _is_origin_of(origin, head.headers.get("host", "")) else refused
        if head.method not in _SAFE:
            return refused  # every browser names the origin of these
        if head.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return None
        # A link on another page may lead here; a script, frame or image of another page may not.
        mode, dest = (head.headers.get(f"sec-fetch-{name}") for name in ("mode", "dest"))
        return None if (mode, dest) == ("navigate", "document") else refused

    def _login(self, head: RequestHead) -> AccessRefusal | None:
        pairs = (part.strip().partition("=") for part in head.headers.get("cookie", "").split(";"))
        kept = {name: value for name, _, value in pairs}
        if self.token is None or _equal(kept.get(self.cookie, ""), self.token):
            return None
        return AccessRefusal(
            status=401,
            sentence="This dashboard asks for the token it printed when it was started.",
            asks_token=True,
        )


def guard(keeper: Gatekeeper) -> Any:
    """The middleware before all pages: asks the gatekeeper and takes the token. What a proxy says of a
    request is anybody's to write and is read nowhere.
    """

    @web.middleware
    async def ask(request: web.Request, handler: Any) -> web.StreamResponse:
        head = RequestHead.of(request)
        request[NONCE] = secrets.token_urlsafe(16)
        refusal = keeper.refusal(head)
        may_enter = refusal is None or refusal.asks_token
        if may_enter and head.method == "GET" and keeper.presents_token(head):
            # also who has the cookie: the token must not stay in the address
            return keeper.welcome(head)
        if refusal is None:
            answer: web.StreamResponse = await handler(request)
            return answer
        return web.Response(status=refusal.status, text=_page(refusal), content_type="text/html")

    return ask


async def secure(request: web.Request, answer: web.StreamResponse) -> None:
    """Add the security headers to any answer; only a script with the nonce of its page runs."""
    answer.headers.update(_HEADERS)
    answer.headers.popall("Server", None)
    nonce = request.get(NONCE, secrets.token_urlsafe(16))
    answer.headers["Content-Security-Policy"] = _POLICY.format(nonce)
    answer.headers.setdefault("Cache-Control", "no-store")


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


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
