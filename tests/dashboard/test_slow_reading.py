"""A run whose files are slow to read: the page opens at once, and what it shows in the end is the truth."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from skillopt.runs.reader import RunReader
from skillopt_webui import _page
from skillopt_webui._access import Gatekeeper
from skillopt_webui._runs import Roots
from skillopt_webui.server import Settings, application


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with one damaged run that takes longer to read than an opening page waits."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "events.jsonl").write_text("{\n")
    (run / "run.db").touch()
    follow = RunReader.follow

    def slowly(self: RunReader, *told: Any) -> None:
        time.sleep(0.05)
        follow(self, *told)

    monkeypatch.setattr(RunReader, "follow", slowly)
    monkeypatch.setattr(_page, "PATIENCE", 0.001)
    return tmp_path


async def test_a_page_that_is_opened_does_not_wait_and_its_stream_brings_what_is_wrong(damaged: Path) -> None:
    (place,) = Roots([damaged]).runs()
    settings = Settings(host="127.0.0.1", port=0, roots=[damaged], cwd=damaged, environ={})
    keeper = Gatekeeper(loopback=True, token=None, cookie="skillopt_1")
    stop = asyncio.Event()
    async with TestClient(TestServer(application(settings, keeper, stop))) as client:
        path = f"/run/{place.id}"
        opened = await (await client.get(path)).text()
        assert "Reading the run" in opened and "is not an event" not in opened
        async with client.get(path, headers={"Accept": "text/event-stream"}) as stream:
            assert await stream.content.readline() == b": open\n"
            lines = [await asyncio.wait_for(stream.content.readline(), 20) for _ in range(2)]
            assert lines == [b"\n", b"data: changed\n"], "told at once: the page may be older than the stream"
            told = await (await client.get(path, headers={"X-Parts": ""})).json()
            assert "is not an event" in told["trouble"] and not told["parts"], "it is not asked a third time"
            stop.set()
