"""Decides which requests reach the dashboard: right host, same origin, and the token."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
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
_REFUSED = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>SkillOpt</title>
<style>body{{font:16px/1.6 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}}
input{{font:inherit}}</style></head><body><main><h1>SkillOpt</h1><p>{}</p>{}</main></body></html>"""
_TOKEN_FORM = (
    '<form method="get"><label>Token <input name="token" type="password" autocomplete="off" required'
    " autofocus></label> <button>Open</button></form>"
)


def is_loopback(host: str) -> bool:
    """Whether a bind to this host can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gatekeeper:
    """The rules of access."""

    loopback: bool
    """Whether the bind is this machine's own; then `Host` must be too, against names that resolve here."""
    token: str | None
    """None lets every account of this machine in."""
    cookie: str

    def refusal(self, request: web.BaseRequest) -> tuple[int, str] | None:
        """Status and reason of a refusal; None for a request that may pass. 401 asks for the token."""
        if self.loopback and _hostname(_header(request, "host") or "") not in LOOPBACK_NAMES:
            return 421, "This dashboard answers only as localhost. Open it by the address it printed."
        if _is_foreign(request):
            return 403, "This request came from another web page, so nothing was done."
        if self.token is None or _equal(_cookie(request, self.cookie), self.token):
            return None
        return 401, "This dashboard asks for the token it printed when it was started."

    def presents_token(self, query: str) -> bool:
        """Whether the address itself carries the right token."""
        return self.token is not None and any(
            name == "token" and _equal(value, self.token) for name, value in parse_qsl(query)
        )

    def welcome(self, path: str, query: str) -> web.Response:
        """Keep the token in a cookie and take it out of the address."""
        rest = [pair for pair in parse_qsl(query) if pair[0] != "token"]
        # A location header holds no character that could end it, and begins with one slash: browsers read
        # two, or one of them backwards, as the name of another host.
        path = "/" + "".join(char for char in path if 32 < ord(char) < 127).lstrip("/\\")
        where = f"{path}?{urlencode(rest)}" if rest else path
        # Not Strict: the file that opens the browser is another site, and its visit would lose the cookie.
        cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Lax; Path=/"
        return web.Response(status=303, headers={"Location": where, "Set-Cookie": cookie})


def guard(keeper: Gatekeeper) -> Callable[..., Any]:
    """The rules in front of everything the server answers."""

    @web.middleware
    async def check(request: web.Request, handler: Any) -> web.StreamResponse:
        request[NONCE] = secrets.token_urlsafe(16)
        refusal = keeper.refusal(request)
        may_enter = refusal is None or refusal[0] == 401
        if may_enter and request.method == "GET" and keeper.presents_token(request.query_string):
            # also who has the cookie: the token must not stay in the address
            return keeper.welcome(request.path, request.query_string)
        if refusal is None:
            answer: web.StreamResponse = await handler(request)
            return answer
        status, reason = refusal
        text = _REFUSED.format(reason, _TOKEN_FORM if status == 401 else "")
        return web.Response(status=status, text=text, content_type="text/html")

    return check


async def secure(request: web.Request, answer: web.StreamResponse) -> None:
    """Add the security headers to any answer; only a script with the nonce of its page runs."""
    answer.headers.update(_HEADERS)
    answer.headers.popall("Server", None)
    nonce = request.get(NONCE, secrets.token_urlsafe(16))
    answer.headers["Content-Security-Policy"] = _POLICY.format(nonce)
    answer.headers.setdefault("Cache-Control", "no-store")


def _header(request: web.BaseRequest, name: str) -> str | None:
    """A header; one that comes twice is joined with a comma, so that it matches nothing."""
    values = request.headers.getall(name, ())
    return ",".join(values) if values else None


def _is_foreign(request: web.BaseRequest) -> bool:
    """Whether a request comes from a page of another origin."""
    origin = _header(request, "origin")
    if origin is not None:
        return not _is_origin_of(origin, _header(request, "host") or "")
    if request.method not in _SAFE:
        return True  # every browser names the origin of these
    if _header(request, "sec-fetch-site") in (None, "none", "same-origin"):
        return False
    # A link on another page may lead here; a script, frame or image of another page may not.
    mode, dest = (_header(request, f"sec-fetch-{name}") for name in ("mode", "dest"))
    return (mode, dest) != ("navigate", "document")


def _cookie(request: web.BaseRequest, name: str) -> str:
    parts = "; ".join(request.headers.getall("cookie", ())).split(";")
    return {key: value for key, _, value in (part.strip().partition("=") for part in parts)}.get(name, "")


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
