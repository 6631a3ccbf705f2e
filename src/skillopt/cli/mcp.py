"""`skillopt mcp`: serve the commands as tools to an agent, over MCP."""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo
from skillopt.cli._options import option, simple
from skillopt.errors import ConfigError, UnknownName, UsageError
from skillopt.mcp import SWITCHES

PANEL, PLACE = "Look things up", 6
_PROJECT = "Where to work for a client that names neither a project nor a root; unset: the working directory."
_ALLOW = "Tools that stay off until you say so: adopt, undo, schedule (also unschedule)."
_TOKEN_FILE = (
    "With --http: the token clients must send, in a file only you can read; unset: a new one, told once on"
    " stderr."
)


def mcp(
    project: Annotated[Path | None, option("--project", _PROJECT, "DIR")] = None,
    allow: Annotated[str, option("--allow", _ALLOW, "WORD,...")] = "",
    http: Annotated[
        bool, option("--http", "Serve over HTTP on 127.0.0.1 in place of stdin and stdout.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="With --http; 0 takes a free one.")
    ] = 8765,
    token_file: Annotated[Path | None, option("--token-file", _TOKEN_FILE, "FILE")] = None,
) -> None:
    """Serve SkillOpt to an agent over MCP: its commands as tools, its runs and skills as resources.

    An agent starts it by itself, as its MCP settings say. No tool changes a live skill without --allow.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError("`skillopt mcp` needs the MCP SDK: pip install 'skillopt-trainer[mcp]'")
    from skillopt.mcp.transport import read_token, serve_http, serve_stdio

    words = [word.strip() for word in allow.split(",") if word.strip()]
    for word in words:
        if word not in SWITCHES:
            raise UnknownName("switch of --allow", word, SWITCHES)
    folder = (Path.cwd() if project is None else project).absolute()
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name the project's: --project.")
    if not http:
        if token_file is not None:
            raise UsageError("--token-file is for --http; over stdin and stdout there is no token.")
        if sys.stdin.isatty():
            echo(
                "Waiting for an MCP client on stdin; an agent starts this by itself. Ctrl-C ends it.",
                err=True,
            )
        asyncio.run(serve_stdio(folder, words))
        return
    token = secrets.token_urlsafe(32) if token_file is None else read_token(token_file)
    if token_file is None:
        echo(f"Token, told this once: {token}", err=True)
    asyncio.run(serve_http(folder, words, port, token, lambda text: echo(text, err=True)))


add = simple(mcp)
