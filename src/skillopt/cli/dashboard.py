"""`skillopt dashboard`: runs, nights and settings in a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._options import option, simple
from skillopt.errors import UsageError
from skillopt_sleep import NightHome, find_settings, read_settings

PANEL, PLACE = "Look at runs", 6


def dashboard(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0 takes a free port.")
    ] = 7860,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Address to listen on. Any but this machine's own lets other machines in.",
        ),
    ] = "127.0.0.1",
    share: Annotated[bool, option("--share", "Listen on all addresses of this machine.")] = False,
    token: Annotated[
        bool,
        option(
            "--token/--no-token",
            "Whether visitors need the token of the printed address. Without, every account of this machine"
            " is let in, and can start programs as you.",
        ),
    ] = True,
    root: Annotated[
        list[Path] | None,
        option(
            "--root",
            "Folder with runs below it; may be repeated. Unset: outputs, and where nights keep theirs.",
            "FOLDER",
        ),
    ] = None,
    no_open: Annotated[bool, option("--no-open", "Open no browser.")] = False,
) -> None:
    """Show runs as they train, launch and stop them, review what nights propose.

    Only this machine can reach it, unless --host or --share says otherwise, and only with the printed token.
    """
    if share and host != "127.0.0.1":
        raise UsageError("--share listens on all addresses and --host names one. Keep one of them.")
    from skillopt_webui.server import ANY, Settings, serve

    cwd, home = Path.cwd(), Path.home()
    for folder in root or ():
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}. --root names one that holds runs, or will.")
    nights = NightHome.of(read_settings(find_settings(home / ".skillopt-sleep"), {}).settings, home)
    settings = Settings(
        host=ANY if share else host,
        port=port,
        roots=[folder.absolute() for folder in root] if root else [cwd / "outputs", nights.folder],
        cwd=cwd,
        environ=os.environ,
        asks_token=token,
        opens_browser=not no_open,
    )
    serve(settings, typer.echo)


add = simple(dashboard)
