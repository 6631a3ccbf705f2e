"""The server of the dashboard: decides where it listens, who may come in, and which pages there are."""

from __future__ import annotations

import inspect
import socket
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from nicegui import ui
from starlette.middleware.gzip import GZipMiddleware

from skillopt.dashboard import _widgets as w
from skillopt.dashboard._access import Gatekeeper, Guard, is_loopback, new_token
from skillopt.dashboard._launch import Launches
from skillopt.dashboard._layout import frame
from skillopt.dashboard._page import Page, Surroundings, Visit
from skillopt.dashboard._runs import Roots, RunPlace
from skillopt.dashboard.pages import pages as registry
from skillopt.errors import SkillOptError, UsageError

ANY = "0.0.0.0"
_LONGEST_BUILD = 20.0
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7"'
    ' fill="#2563c9"/><path d="M6 23l7-8 5 4 8-11" fill="none" stroke="#fff" stroke-width="3.2"'
    ' stroke-linecap="round" stroke-linejoin="round"/></svg>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the dashboard is started."""

    host: str
    port: int
    """0 takes a free one."""
    roots: Sequence[Path]
    cwd: Path
    environ: Mapping[str, str]
    asks_token: bool = False
    """Ask for a token on this machine's own address too."""
    opens_browser: bool = False


def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. `say` is told the address, with the token in it where one is needed; it is told
    nowhere else.

    Raises `UsageError` for an address that cannot be listened on.
    """
    loopback = is_loopback(settings.host)
    token = new_token() if settings.asks_token or not loopback else None
    bound = _listen(settings.host, settings.port)
    port = bound.getsockname()[1]
    address = f"http://{_spoken(settings.host)}:{port}/" + ("" if token is None else f"?token={token}")

    def told() -> None:
        say(f"Dashboard: {address}")
        if token is not None:
            say("The token is shown this once; whoever has it can start runs and adopt proposals here.")
        say("Ctrl-C ends it; runs that it started go on.")
        if settings.opens_browser:
            # Without the token, which every user of this machine could read in the list of processes: the
            # page asks for it.
            webbrowser.open(address.partition("?")[0])

    guard = Guard(
        _application(settings), Gatekeeper(loopback=loopback, token=token, cookie=f"skillopt_{port}")
    )
    config = uvicorn.Config(
        GZipMiddleware(guard, minimum_size=2000),
        log_level="warning",
        access_log=False,  # it would hold the token
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="wsproto",
    )
    _Server(config, told).run(sockets=[bound])


class _Server(uvicorn.Server):
    """Says where it listens once it does."""

    def __init__(self, config: uvicorn.Config, told: Callable[[], None]) -> None:
        super().__init__(config)
        self.told = told

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets=sockets)
        self.told()


def _application(settings: Settings) -> FastAPI:
    """All pages inside the frame; nothing of it knows who may come in."""
    pages: dict[str, Page] = {name: registry.get(name) for name in registry.names()}
    roots, cwd, environ = Roots(settings.roots), settings.cwd, settings.environ
    around = Surroundings(
        roots=roots, cwd=cwd, environ=environ, pages=pages, launches=Launches(roots, cwd, environ)
    )
    for page in pages.values():
        ui.page(page.path, title=page.title, language="en-US", dark=None, response_timeout=_LONGEST_BUILD)(
            _shown(around, page)
        )
    application = FastAPI(openapi_url=None)
    ui.run_with(
        application,
        root=_missing(around),
        title="SkillOpt",
        favicon=_ICON,
        dark=None,
        language="en-US",
        tailwind=False,  # our own style sheet is smaller and needs no compiler in the browser
        gzip_middleware_factory=None,  # the guard reads pages before they are compressed
        show_welcome_message=False,
    )
    return application


def _shown(around: Surroundings, page: Page) -> Callable[[], Any]:
    """The page inside the frame. What is wrong with the address or the files becomes a sentence."""

    async def show() -> None:
        request = ui.context.client.request
        place: RunPlace | None = None
        try:
            if page.is_of_run:
                place = around.roots.find(request.path_params["run"])
        except UsageError as error:
            ui.context.client.status_code = 404
            with frame(around, None, "Not found"):
                w.trouble(str(error))
                w.link("All runs", "/")
            return
        visit = Visit(around=around, page=page, query=dict(request.query_params), place=place)
        with frame(around, page, page.title, place):
            try:
                made = page.build(visit)
                if inspect.isawaitable(made):
                    await made
            except SkillOptError as error:
                w.trouble(str(error))

    return show


def _missing(around: Surroundings) -> Callable[[], None]:
    """What stands at every address that is no page. The library's own page has no way back, and prints the
    address, whoever wrote it.
    """

    def show() -> None:
        ui.context.client.status_code = 404
        with frame(around, None, "Not found"):
            w.trouble("There is no page at this address.")
            w.link("All runs", "/")

    return show


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


def _spoken(host: str) -> str:
    """A name of this machine by which a browser reaches the bind."""
    if host in (ANY, "::"):
        return socket.gethostname()
    return f"[{host.strip('[]')}]" if ":" in host else host
