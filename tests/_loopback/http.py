"""The HTTP side of the loopback provider: paths, headers, probes of agents, how content is sent or lost."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from aiohttp import web

from _loopback.answers import Api, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Misbehaviour:
    """What goes wrong with a call, streamed or plain; made by the class methods."""

    kind: Literal["status", "reset", "garbage", "half", "hang", "odd", "broken_off"]
    code: int = 200
    retry_after: float | str | None = None
    body: Any = None
    seconds: float = 0.0

    @classmethod
    def status(cls, code: int, *, retry_after: float | str | None = None, body: Any = None) -> Misbehaviour:
        """Refuse with an HTTP status; `retry_after` in seconds or a date, `body` an object or a text."""
        return cls(kind="status", code=code, retry_after=retry_after, body=body)

    @classmethod
    def reset(cls) -> Misbehaviour:
        """Reset the TCP connection without an answer."""
        return cls(kind="reset")

    @classmethod
    def garbage(cls) -> Misbehaviour:
        """200 with a body that is no JSON."""
        return cls(kind="garbage")

    @classmethod
    def half(cls) -> Misbehaviour:
        """200 with the first half of the body, then a closed connection."""
        return cls(kind="half")

    @classmethod
    def hang(cls, seconds: float = 3600.0) -> Misbehaviour:
        """Answer correctly, but only after so many seconds."""
        return cls(kind="hang", seconds=seconds)

    @classmethod
    def broken_off(cls, reason: str | None = "error") -> Misbehaviour:
        """200 with a well-formed answer that ended for a reason which ends no answer."""
        return cls(kind="broken_off", body=reason)

    @classmethod
    def odd(cls) -> Misbehaviour:
        """200 with a JSON object that has no answer in it."""
        return cls(kind="odd")


PLACE_HEADER = "x-skillopt-place"
_PATHS: Mapping[Api, re.Pattern[str]] = {
    "chat": re.compile("(/v1|/v1beta/openai|/openai/v1|/openai/deployments/[^/]+)/chat/completions"),
    "responses": re.compile("(/v1|/openai/v1)/responses"),
    "messages": re.compile("/v1/messages"),
}
_COUNT_TOKENS = "/v1/messages/count_tokens"


def place(header: str | None) -> tuple[str | None, int | None]:
    """Place and draw as the header says them."""
    if header is None:
        return None, None
    place, _, draw = header.rpartition(";draw=")
    return unquote(place), int(draw)


def api_of(path: str) -> Api | None:
    """Which API a path belongs to."""
    return next((api for api, pattern in _PATHS.items() if pattern.fullmatch(path)), None)


def probed(request: web.BaseRequest, raw: bytes) -> web.Response | None:
    """The answer to what an agent CLI asks besides: whether anybody is there, models, token counts."""
    if request.method == "HEAD":
        return web.Response()
    if request.method == "GET":
        return web.json_response({"object": "list", "data": []})
    if request.path == _COUNT_TOKENS:
        return web.json_response(
            {"input_tokens": sum(len(part) for part in texts("messages", json.loads(raw))) // 4}
        )
    return None


def keys(request: web.BaseRequest) -> tuple[str, ...]:
    """The credentials a request carries, in whichever header."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return bearer, request.headers.get("x-api-key", ""), request.headers.get("api-key", "")


def reset(request: web.BaseRequest) -> None:
    """Reset the connection."""
    if request.transport is not None:
        # Linger 0 makes the kernel send RST instead of a clean end.
        request.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        request.transport.abort()


async def send(
    request: web.BaseRequest, content: bytes, streams: bool, part: int | None = None
) -> web.StreamResponse:
    """Write the content, or its first `part` bytes and then close the connection."""
    response = web.StreamResponse(
        headers={"content-type": "text/event-stream" if streams else "application/json"}
    )
    if not streams:
        response.content_length = len(content)
    await response.prepare(request)
    await response.write(content[:part])
    if part is not None and request.transport is not None:
        request.transport.close()
    return response
