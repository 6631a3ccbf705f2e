"""The HTTP client behind every wire: one pool of connections to one endpoint."""

from __future__ import annotations

import codecs
import ipaddress
import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from skillopt.errors import ConfigError


def is_loopback(url: str) -> bool:
    """True when the URL's host is this machine by its loopback address or as `localhost`."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


KEEP_ALIVE = 30.0


class HttpClient:
    """Sends bytes. `failures` are the errors a broken connection raises, `unmade` those of one that was never
    made; a call that takes too long raises `asyncio.TimeoutError`.
    """

    def __init__(self, client: Any, proxy: str | None, failures: tuple[type[Exception], ...], unmade: Any):
        self._client = client
        self._proxy = proxy
        self.failures = failures
        self.unmade: type[Exception] = unmade

    async def send(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], str]:
        """Status, headers and text of the answer. An answer with a success status that cannot be decoded
        raises `UnicodeDecodeError`: with letters replaced it would be something the model never said.
        """
        async with self._client.request(
            method, url, data=content, headers=headers, proxy=self._proxy, allow_redirects=False
        ) as response:
            content = await response.read()
            errors = "replace" if response.status >= 300 else "strict"
            return response.status, response.headers, content.decode(_charset(response.charset), errors)

    async def close(self) -> None:
        await self._client.close()


def _charset(declared: str | None) -> str:
    """The encoding of an answer: as declared, or UTF-8; a byte order mark is no part of it."""
    try:
        name = codecs.lookup(declared or "utf-8").name
    except LookupError:
        name = "utf-8"
    return "utf-8-sig" if name == "utf-8" else name


def open_client(url: str, timeout: float, connections: int, *, direct: bool) -> HttpClient:
    """A pool as large as the calls that may be open at once; `direct` goes past every proxy.

    aiohttp is imported here, with the first model that needs it. Its own `trust_env` stays off: it would also
    send what `~/.netrc` holds for the host.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(
        limit=max(1, connections), keepalive_timeout=KEEP_ALIVE, ssl=_certificates(url)
    )
    client = aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        skip_auto_headers=("User-Agent",),
        headers={"user-agent": "skillopt"},
    )
    failures = (aiohttp.ClientError, OSError)
    return HttpClient(client, None if direct else _proxy(url), failures, aiohttp.ClientConnectorError)


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address."""
    parts = urlsplit(url)
    known = getproxies()
    proxy = known.get(parts.scheme) or known.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigError(
            f"The proxy for {parts.hostname} is named by the environment and is no HTTP proxy. Set"
            f" {parts.scheme.upper()}_PROXY to one like http://host:port, or NO_PROXY to {parts.hostname}."
        )
    return proxy


def _certificates(url: str) -> ssl.SSLContext | bool:
    """Mozilla's certificates, or those of `SSL_CERT_FILE` or `SSL_CERT_DIR` where the user has own ones."""
    if urlsplit(url).scheme != "https":
        return True
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
