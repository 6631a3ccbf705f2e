"""The HTTP client behind every wire: one pool of connections to one endpoint."""

from __future__ import annotations

import codecs
import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from skillopt.errors import ConfigError

KEEP_ALIVE = 30.0
MOST_ANSWER = 16 << 20
"""Bytes of an answer after decompression: a model's longest reply and an agent's longest trace fit."""
_MOST_REFUSAL = 1 << 18
_PART = 1 << 16


class OversizedAnswer(Exception):
    """An answer that had not ended at the limit; reading stopped there and the connection was closed."""

    def __str__(self) -> str:
        return f"it is longer than {MOST_ANSWER >> 20} MiB"


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
        self, url: str, content: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], str]:
        """Post, and return status, headers and text of the answer.

        An answer with a success status that cannot be decoded raises `UnicodeDecodeError`: with letters
        replaced it would be something the model never said. One of more than `MOST_ANSWER` bytes raises
        `OversizedAnswer`; a refusal is cut much earlier.
        """
        async with self._client.post(
            url, data=content, headers=headers, proxy=self._proxy, allow_redirects=False
        ) as response:
            refused = response.status >= 300
            answer = bytearray()
            async for part in response.content.iter_chunked(_PART):  # decompressed, one part at a time
                answer += part
                if refused and len(answer) > _MOST_REFUSAL:
                    break
                if len(answer) > MOST_ANSWER:
                    raise OversizedAnswer
            errors = "replace" if refused else "strict"
            return response.status, response.headers, answer.decode(_charset(response.charset), errors)

    async def close(self) -> None:
        await self._client.close()


def _charset(declared: str | None) -> str:
    """The encoding of an answer: as declared, or UTF-8; a byte order mark is no part of it."""
    try:
        name = codecs.lookup(declared or "utf-8").name
        b" ".decode(name)  # rot13 and base64 are codecs too, and are no encodings of text
    except (LookupError, UnicodeError):
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
