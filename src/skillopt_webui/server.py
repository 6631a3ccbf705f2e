"""The server of the dashboard: where it listens, who may come in, and how an open page learns of news."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from skillopt.errors import SkillOptError, UsageError
from skillopt.files import temporary_folder, write_text
from skillopt_webui._access import NONCE, Gatekeeper, guard, is_loopback, secure
from skillopt_webui._launch import Launches
from skillopt_webui._layout import THEME_COOKIE, digest, frame
from skillopt_webui._page import AppState, Page, Parts, StillReading, Visit
from skillopt_webui._runs import Roots, RunPlace
from skillopt_webui.pages import PAGES
from skillopt_webui.render.markup import tag, trouble

ANY = "0.0.0.0"
EVERY = 0.25
"""Seconds between two looks at what an open page shows."""
_LARGEST_FORM = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the dashboard is started."""

    host: str
    port: int
    """0 takes a free one."""
    roots: Sequence[Path]
    cwd: Path
    environ: Mapping[str, str]
    asks_token: bool = True
    """Without it every account of this machine is let in; only for this machine's own address."""
    opens_browser: bool = False


def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. `say` and the browser alone are given the address with the token in it.

    Raises `UsageError` for an address that cannot be listened on, or that others reach without a token.
    """
    loopback = is_loopback(settings.host)
    if not (settings.asks_token or loopback):
        raise UsageError("--no-token is for this machine's own address: others reach this one. Leave it out.")
    token = secrets.token_urlsafe(32) if settings.asks_token else None
    bound = _listen(settings.host, settings.port)
    port = bound.getsockname()[1]
    address = f"http://{_spoken(settings.host)}:{port}/" + ("" if token is None else f"?token={token}")
    keeper = Gatekeeper(loopback=loopback, token=token, cookie=f"skillopt_{port}")

    async def main() -> None:
        stop = asyncio.Event()
        # No access log: it would hold the token.
        runner = web.AppRunner(application(settings, keeper, stop), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, bound).start()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows ends by KeyboardInterrupt
                loop.add_signal_handler(name, stop.set)
        say(f"Dashboard: {address}")
        if token is None:
            say("Without a token: every account of this machine can start programs as you here.")
        else:
            say("The token is shown this once; whoever has it can start runs and adopt proposals here.")
        say("Ctrl-C ends it; runs that it started go on.")
        with temporary_folder("skillopt-dashboard-") as folder:
            if settings.opens_browser:
                await asyncio.to_thread(webbrowser.open, _doorway(folder, address))
            try:
                await stop.wait()
            finally:
                stop.set()
                await runner.cleanup()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())


def application(settings: Settings, keeper: Gatekeeper, stop: asyncio.Event) -> web.Application:
    """All pages behind the guard. `stop` ends the streams."""
    roots, cwd, environ = Roots(settings.roots), settings.cwd, settings.environ
    launches, is_open = Launches(roots, cwd, environ), keeper.token is None
    app = AppState(roots=roots, cwd=cwd, environ=environ, pages=PAGES, launches=launches, is_open=is_open)
    handlers = _Handlers(app, stop)
    made = web.Application(middlewares=[guard(keeper), handlers.find], client_max_size=_LARGEST_FORM)
    made.on_response_prepare.append(secure)
    for page in PAGES.values():
        made.router.add_get(page.path, partial(handlers.show, page))
        if page.act is not None:
            made.router.add_post(page.path, partial(handlers.act, page))
        for name, write in page.files.items():
            made.router.add_get(f"{page.path}/{name}", partial(handlers.send, page, name, write))
    return made


class _Handlers:
    """What the server does with requests that the guard lets in."""

    def __init__(self, app: AppState, stop: asyncio.Event) -> None:
        self.app = app
        self.stop = stop

    async def show(self, page: Page, request: web.Request) -> web.StreamResponse:
        """The page inside the frame; the parts of it that a browser does not have; or a stream that says when
        there are any. Which of them is wanted the request says in its head.
        """
        visit = self._visit(page, request)
        if request.headers.get("Accept") == "text/event-stream":
            return await self._stream(request, visit)
        has_parts = "X-Parts" in request.headers
        parts, wrong = await _build(replace(visit, is_opening=not has_parts))
        if has_parts:
            pairs = (pair.partition("=") for pair in request.headers["X-Parts"].split(","))
            return _json(parts, {name: version for name, _, version in pairs}, trouble=wrong)
        if wrong:
            parts = {"wrong": trouble(wrong), **parts}
        return self._html(request, page, page.title, parts, place=visit.place)

    async def act(self, page: Page, request: web.Request) -> web.Response:
        """Do what a form of the page says."""
        visit = self._visit(page, request)
        assert page.act is not None
        try:
            reply = await page.act(visit, await request.post())  # type: ignore[arg-type]
        except SkillOptError as error:
            return web.json_response({"trouble": str(error)})
        return _json(reply.parts, {}, said=reply.note, go=reply.go, order=None)

    async def send(
        self, page: Page, name: str, write: Callable[[Visit], str], request: web.Request
    ) -> web.Response:
        """A file of a run to keep."""
        visit = self._visit(page, request)
        try:
            text = await asyncio.to_thread(write, visit)
        except SkillOptError as error:
            return self._missing(request, str(error), 404)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(text=text, content_type="application/octet-stream", headers=headers)

    @web.middleware
    async def find(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """At every address that is no page stand a sentence and the way back."""
        try:
            answer: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            is_ours = error.status == 404 and error.text != "404: Not Found"
            text = error.text if is_ours and error.text else "There is no page at this address."
            if "X-Parts" in request.headers:  # what stands on the page stays
                return web.json_response({"trouble": text})
            return self._missing(request, text, error.status)
        return answer

    def _visit(self, page: Page, request: web.Request) -> Visit:
        place: RunPlace | None = None
        if page.is_of_run:
            try:
                place = self.app.roots.find(request.match_info["run"])
            except UsageError as error:
                raise web.HTTPNotFound(reason="Not Found", text=str(error)) from error
        return Visit(app=self.app, page=page, query=request.query, place=place)

    async def _stream(self, request: web.Request, visit: Visit) -> web.StreamResponse:
        """Say that the page has changed, whenever it has; first of all too, as it may have since it was
        sent.
        """
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        seen = None
        with contextlib.suppress(ConnectionError):  # the browser may leave at any time
            await answer.prepare(request)
            await answer.write(b": open\n\n")
            while not self.stop.is_set():
                parts, wrong = await _build(visit)
                state = (wrong, {name: digest(made) for name, made in parts.items()})
                if state != seen:
                    await answer.write(b"data: changed\n\n")
                    seen = state
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.stop.wait(), EVERY)
        return answer

    def _missing(self, request: web.Request, text: str, status: int) -> web.Response:
        parts = {"wrong": trouble(text), "back": tag("p", tag("a", "All runs", href="/"))}
        return self._html(request, None, "Not found", parts, status=status)

    def _html(
        self,
        request: web.Request,
        page: Page | None,
        title: str,
        parts: Parts,
        *,
        place: RunPlace | None = None,
        status: int = 200,
    ) -> web.Response:
        nonce, theme = request[NONCE], request.cookies.get(THEME_COOKIE, "")
        text = frame(self.app, page, title, parts, place=place, nonce=nonce, theme=theme)
        answer = web.Response(text=text, content_type="text/html", status=status)
        answer.enable_compression()
        return answer


async def _build(visit: Visit) -> tuple[Parts, str]:
    """The parts, or what is wrong. What stands on a page stays when its run cannot be read any more."""
    try:
        return await visit.page.build(visit), ""
    except StillReading:
        return {"reading": tag("p", "Reading the run; a long log takes a moment.", cls="empty")}, ""
    except SkillOptError as error:
        return {}, str(error)


def _json(parts: Parts, seen: Mapping[str, str], **more: Any) -> web.Response:
    found = {name: (digest(made), made) for name, made in parts.items()}
    fresh = {name: pair for name, pair in found.items() if seen.get(name) != pair[0]}
    # Of a page that cannot be built nothing is taken away.
    order = [name for name in parts if name != "task"] if parts else None
    answer = web.json_response({"parts": fresh, "order": order, **more})
    answer.enable_compression()
    return answer


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.set_inheritable(False)
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"Cannot listen on {host} port {port}: {reason}. Name another: --port 0 takes a free one."
        ) from error
    return bound


def _doorway(folder: Path, address: str) -> str:
    """The address of a file for this account alone that leads on to the dashboard: what a browser is started
    with stands in the list of processes, where every account could read the token.
    """
    page = folder / "dashboard.html"
    leads = tag("meta", http_equiv="refresh", content=f"0; url={address}")
    write_text(page, f"<!doctype html><title>SkillOpt</title>{leads}{tag('a', 'Dashboard', href=address)}\n")
    return page.as_uri()


def _spoken(host: str) -> str:
    """A name of this machine by which a browser reaches the bind."""
    if host in (ANY, "::"):
        return socket.gethostname()
    return f"[{host.strip('[]')}]" if ":" in host else host
