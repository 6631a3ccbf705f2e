"""Serves clients over stdin and stdout, or over HTTP on this machine alone and with a token."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.stdio import stdio_server

from skillopt.errors import UsageError
from skillopt.mcp.server import ToolServer
from skillopt.mcp.work import CommandRunner
from skillopt.process.waiting import signals_heard

HOST = "127.0.0.1"
PATH = "/mcp"
_LEAST_TOKEN = 16
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def read_token(path: Path) -> str:
    """The token in a file that only its owner can read."""
    try:
        token = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path} cannot be read: {error}.") from error
    if sys.platform != "win32" and mode & 0o077:
        raise UsageError(f"--token-file {path} can be read by others: chmod 600 {path}.")
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"--token-file {path} holds no token: one line of at least {_LEAST_TOKEN} letters, digits and"
            " signs."
        )
    return token


async def serve_stdio(project: Path, allow: Collection[str]) -> None:
    """Serve one client over stdin and stdout until it goes away."""
    runner = CommandRunner()
    server = ToolServer(project=project, runner=runner, allow=allow).server()

    async def leave(number: int) -> None:
        await runner.close()
        # Not by the usual way: a thread waits for stdin, and a client that signals us need not close it.
        os._exit(128 + number)

    with _on_signal(leave):
        try:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            await runner.close()


async def serve_http(
    project: Path, allow: Collection[str], port: int, token: str, say: Callable[[str], None]
) -> None:
    """Serve clients over HTTP on loopback until a signal comes; port 0 takes a free one."""
    runner = CommandRunner()
    server = ToolServer(project=project, runner=runner, allow=allow, further_secrets=(token,)).server()
    # With a loopback host the SDK refuses foreign Host and Origin headers.
    app = guarded(server.streamable_http_app(streamable_http_path=PATH, host=HOST), token)
    config = uvicorn.Config(
        app, host=HOST, port=port, log_level="error", access_log=False, timeout_graceful_shutdown=2
    )
    try:
        sock = config.bind_socket()
    except SystemExit as error:  # uvicorn has said why
        raise UsageError(f"Port {port} of {HOST} cannot be used. Name another one: --port.") from error
    sock.listen()  # from here on a client that comes at once is not turned away
    say(f"Listening on http://{HOST}:{sock.getsockname()[1]}{PATH}")
    web = _Web(config)

    async def leave(number: int) -> None:
        await runner.close()
        web.should_exit = True

    with _on_signal(leave):
        try:
            await web.serve(sockets=[sock])
        finally:
            sock.close()
            await runner.close()


class _Web(uvicorn.Server):
    """Leaves signals to us: uvicorn would end the process by them before works are closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _on_signal(leave: Callable[[int], Awaitable[None]]) -> Iterator[None]:
    """The first SIGTERM or Ctrl-C closes the works before we leave. Needs the running event loop."""
    leaving: list[asyncio.Future[None]] = []

    def first(number: int) -> None:
        if not leaving:
            leaving.append(asyncio.ensure_future(leave(number)))

    with signals_heard((signal.SIGTERM, signal.SIGINT), first):
        yield


def guarded(app: App, token: str) -> App:
    """The app behind its token: nobody else on this machine, and no page in a browser, gets an answer."""
    expected = f"Bearer {token}".encode()

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(bytes(given), expected):
                headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"The token is missing or wrong.\n"})
                return
        await app(scope, receive, send)

    return guard
