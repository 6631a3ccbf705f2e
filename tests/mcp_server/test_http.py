"""The server over HTTP: on this machine only, behind a token, and closed to pages in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from _loopback import LoopbackProvider, seeded_latency, world_answers
from cli._commands import run
from mcp_server._client import ERAS, TRAIN, environment, slow_train
from skillopt.errors import UsageError
from skillopt.mcp.transport import read_token

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-the-tests-0123456789"


@contextlib.contextmanager
def serving(project: Path, *arguments: str) -> Iterator[tuple[int, str, subprocess.Popen[str]]]:
    """A server's port, all it said before it listened, and its process."""
    command = [sys.executable, "-m", "skillopt", "mcp", "--http", "--port", "0", *arguments]
    process = subprocess.Popen(command, cwd=project, env=environment(), stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(300, process.kill)
    timer.start()
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"Listening on http://127\.0\.0\.1:(\d+)/mcp", line):
                yield int(found[1]), said, process
                return
        raise AssertionError(f"it did not listen: {said}")
    finally:
        process.terminate()
        process.wait(timeout=20)
        timer.cancel()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("http")
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    (folder / "project").mkdir()
    with serving(folder / "project", "--token-file", str(token)) as (port, said, _):
        assert TOKEN not in said
        yield port


def asked(port: int, headers: dict[str, str]) -> int:
    """The status of a plain request with these headers."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    line.request("POST", "/mcp", body, {**usual, **headers})
    status = line.getresponse().status
    line.close()
    return status


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_with_the_token_lists_and_calls_tools_and_hears_of_progress(
    port: int, mode: str
) -> None:
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with speaking(port, mode) as client:
        assert len((await client.list_tools()).tools) == 10
        result = await client.call_tool(
            "skillopt_train", {**TRAIN, "out_root": f"run-{mode}"}, progress_callback=hear
        )
    assert not result.is_error and any("step 1/" in (line or "") for line in heard)


@contextlib.asynccontextmanager
async def speaking(port: int | str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of the SDK that knows the token."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as web:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=web)
        async with Client(transport, mode=mode, read_timeout_seconds=100) as client:
            yield client


def test_without_the_token_nobody_is_answered(port: int) -> None:
    assert asked(port, {"Authorization": f"Bearer {TOKEN}"}) == 200
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
    ):
        assert asked(port, headers) == 401


def test_pages_and_names_from_elsewhere_are_refused_even_with_the_token(port: int) -> None:
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert asked(port, {**token, "Origin": "https://evil.example"}) == 403
    assert asked(port, {**token, "Host": "evil.example"}) == 421
    assert asked(port, {**token, "Host": f"evil.example:{port}"}) == 421
    assert asked(port, {**token, "Origin": f"http://127.0.0.1:{port}"}) == 200


@pytest.mark.slow
def test_a_token_of_its_own_is_told_once(tmp_path: Path) -> None:
    with serving(tmp_path) as (port, said, _):
        (token,) = re.findall(r"told this once: (\S+)", said)
        assert len(token) >= 40 and asked(port, {"Authorization": f"Bearer {token}"}) == 200
        assert asked(port, {}) == 401


@pytest.mark.real
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
async def test_a_server_that_is_told_to_stop_closes_its_works_and_says_so(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with (
        LoopbackProvider.in_thread(world_answers(), latency=seeded_latency(1, 0.04, 0.12)) as provider,
        serving(tmp_path, "--token-file", str(token)) as (port, _, process),
    ):
        async with speaking(port) as client:
            running = asyncio.ensure_future(
                client.call_tool("skillopt_train", slow_train(tmp_path, provider))
            )
            for _ in range(600):
                if provider.calls >= 15:
                    break
                await asyncio.sleep(0.05)
            process.terminate()
            result = await asyncio.wait_for(running, 30)
        assert result.is_error and "the same call goes on where it stopped" in str(result.content)
        assert await asyncio.to_thread(process.wait, 20) == 0
        assert all(entry.status == 200 for entry in provider.log)  # what was sent was waited for


def test_a_token_file_that_others_can_read_or_that_holds_none_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(token)
    token.write_text("short")
    token.chmod(0o600)
    with pytest.raises(UsageError, match="holds no token"):
        read_token(token)
    token.write_text(TOKEN)
    token.chmod(0o644)
    if sys.platform != "win32":
        with pytest.raises(UsageError, match="chmod 600"):
            read_token(token)
    token.chmod(0o600)
    assert read_token(token) == TOKEN


@pytest.mark.slow
def test_what_cannot_be_served_is_said_before_anything_listens(tmp_path: Path) -> None:
    ran = run("mcp", "--allow", "adpot")
    assert ran.code == 2 and "Did you mean 'adopt'?" in ran.err
    assert "--token-file is for --http" in run("mcp", "--token-file", str(tmp_path)).err
    assert "There is no folder" in run("mcp", "--project", str(tmp_path / "gone")).err


@pytest.mark.slow
def test_without_the_extra_the_command_names_it() -> None:
    program = (
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'mcp' else find(name, *more)\n"
        "from skillopt.cli import main\nmain(['mcp'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.returncode == 2 and "pip install 'skillopt-trainer[mcp]'" in done.stderr
