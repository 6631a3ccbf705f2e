"""A real client of the official SDK, talking over stdio to the server as a program of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from _loopback import LoopbackProvider
from cli._commands import SRC
from skillopt.mcp.server import ToolServer
from skillopt.mcp.work import CommandRunner

SMALL = ["env.train_cases=24", "env.val_cases=20", "env.test_cases=20"]
TRAIN = {"config": "quickstart", "num_epochs": 1, "batch_size": 12, "out_root": "run"}
ERAS = ("legacy", "auto")
"""The handshake of 2025, and requests that carry all they need (2026-07-28)."""


def environment(**more: str) -> dict[str, str]:
    """What the server is started with; its home is the tests' own."""
    return {**os.environ, "PYTHONPATH": str(SRC), **more}


@contextlib.asynccontextmanager
async def connected(
    project: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    mode: str = "auto",
    roots: Sequence[Path] | None = None,
) -> AsyncIterator[Client]:
    """A client whose server was started in the project's folder."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "skillopt", "mcp", *arguments],
        cwd=str(project),
        env=dict(env or environment()),
    )
    with tempfile.TemporaryFile("w+") as errors:
        client = Client(
            stdio_client(command, errlog=errors),
            mode=mode,
            read_timeout_seconds=100,
            list_roots_callback=_lister(roots),
        )
        async with client:
            yield client


@contextlib.asynccontextmanager
async def inside(
    project: Path,
    *allow: str,
    env: Mapping[str, str] | None = None,
    mode: str = "auto",
    roots: Sequence[Path] | None = None,
) -> AsyncIterator[Client]:
    """A client of a server in this process, for what does not depend on the wire; the works are programs of
    their own all the same.
    """
    runner = CommandRunner()
    server = ToolServer(
        project=project, runner=runner, allow=allow, environ=dict(env or environment())
    ).server()
    try:
        async with Client(
            server, mode=mode, read_timeout_seconds=100, list_roots_callback=_lister(roots)
        ) as client:
            yield client
    finally:
        await runner.close()


def _lister(roots: Sequence[Path] | None) -> Any:
    async def list_roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=root.as_uri()) for root in roots or ()])

    return None if roots is None else list_roots


async def call(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call, which must not have failed."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def text_of(result: types.CallToolResult) -> str:
    """All that a client without structured results would see."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def slow_train(project: Path, provider: LoopbackProvider) -> dict[str, Any]:
    """The call of a training run of some fifty calls, four at a time; its config is written to the project."""
    model = f"compatible:m@{provider.base_url}"
    cases = {"train_cases": 12, "val_cases": 10, "test_cases": 5}
    settings = {"env": {"name": "world", **cases}, "model": {"target": model, "optimizer": model}}
    (project / "slow.yaml").write_text(json.dumps(settings))
    plan = {"num_epochs": 1, "batch_size": 12, "workers": 4, "eval_test": False}
    return {"config": "slow.yaml", **plan, "out_root": "run"}


def processes_of(folder: Path) -> list[str]:
    """The processes that work in a folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == folder and (link.parent / "cmdline").read_bytes():
                found.append(link.parent.name)
        except OSError:
            continue
    return found
