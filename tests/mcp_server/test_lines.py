"""What a server survives on its wire, spoken by hand."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from _loopback import LoopbackProvider, seeded_latency, world_answers
from mcp_server._client import environment, processes_of, slow_train


class Wire:
    """A server's stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))  # a line that is no JSON would be the server's fault

    def send(self, line: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(
            line + b"\n"
            if isinstance(line, bytes)
            else json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n"
        )
        self.process.stdin.flush()

    def answer(self, id: int) -> dict[str, Any]:
        """The answer to a request; whatever else comes before it is passed over."""
        for _ in range(50):
            said = self.lines.get(timeout=60)
            if said.get("id") == id:
                return said
        raise AssertionError(f"no answer to {id}")


@contextlib.contextmanager
def server(project: Path, *arguments: str) -> Iterator[Wire]:
    command = [sys.executable, "-m", "skillopt", "mcp", *arguments]
    process = subprocess.Popen(
        command,
        cwd=project,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Wire(process)
    finally:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
            raise


def handshake(wire: Wire) -> dict[str, Any]:
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    }
    wire.send({"id": 1, "method": "initialize", "params": about})
    said = wire.answer(1)
    wire.send({"method": "notifications/initialized"})
    return said["result"]  # type: ignore[no-any-return]


@pytest.mark.slow
def test_garbage_unknown_notifications_and_unknown_methods_are_survived(tmp_path: Path) -> None:
    with server(tmp_path) as wire:
        wire.send(b"not json at all")
        wire.send(b"\xff\xfe\x00 bytes")
        said = handshake(wire)
        assert (
            said["serverInfo"]["name"] == "skillopt"
            and "tools" in said["capabilities"]
            and "resources" in said["capabilities"]
        )
        for garbage in (
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"jsonrpc": "2.0"}',
            b'{"jsonrpc": "2.0", "id": {}, "method": 3}',
            b"x" * 200_000,
        ):
            wire.send(garbage)
        wire.send({"method": "notifications/nobody/knows", "params": {"a": 1}})
        wire.send({"method": "notifications/cancelled", "params": {"requestId": 4711, "reason": "never was"}})
        wire.send({"method": "notifications/cancelled", "params": "odd"})
        wire.send({"method": "notifications/progress", "params": {"progressToken": "x", "progress": 1}})
        wire.send({"id": 99, "result": {}})  # an answer nobody asked for
        wire.send({"id": 2, "method": "tools/nobody_knows"})
        assert wire.answer(2)["error"]["code"] == -32601
        wire.send({"id": 3, "method": "tools/call", "params": {"name": 7}})
        assert wire.answer(3)["error"]["code"] == -32602
        wire.send({"id": 4, "method": "ping"})
        assert wire.answer(4)["result"] == {}
        wire.send(
            {"id": 5, "method": "tools/call", "params": {"name": "skillopt_list_configs", "arguments": {}}}
        )
        assert wire.answer(5)["result"]["structuredContent"]["status"] == "ok"
    assert wire.process.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM")
def test_a_signal_ends_a_server_whose_client_keeps_the_line_open(tmp_path: Path) -> None:
    with server(tmp_path) as wire:
        handshake(wire)
        wire.process.terminate()
        assert wire.process.wait(timeout=40) == 143


@pytest.mark.real
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_server_takes_its_works_with_it_and_another_one_goes_on(tmp_path: Path) -> None:
    latency = seeded_latency(1, 0.04, 0.12)
    with LoopbackProvider.in_thread(world_answers(), latency=latency) as provider:
        train = {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "skillopt_train", "arguments": slow_train(tmp_path, provider)},
        }
        with server(tmp_path) as wire:
            handshake(wire)
            wire.send(train)
            wait_until(lambda: provider.calls >= 15)
            wire.process.kill()
        wait_until(lambda: not processes_of(tmp_path))
        made = provider.calls
        time.sleep(0.3)
        assert provider.calls == made
        with server(tmp_path) as wire:
            handshake(wire)
            wire.send(train)
            said = wire.answer(2)
            assert "result" in said, said
            assert said["result"]["structuredContent"]["result"]["status"] == "finished"


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
