"""What a call takes on our side: the functions it passes, and the statements of SQL."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import skillopt
from _loopback import LoopbackProvider, world_answers
from claims.promises._runs import in_world, make_job
from skillopt.evaluation.stage import Evaluation
from skillopt.models.wires.client import HttpClient
from skillopt.models.wires.http import Wire
from skillopt.run import evaluate

MOST_FUNCTIONS = 12
MOST_STATEMENTS = 5
OURS = str(Path(skillopt.__file__).parent)


def test_a_call_passes_few_functions_between_its_row_and_the_http_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function counts that calls the next one or starts its task; one that only waits does not."""
    started_by: dict[object, list[CodeType]] = {}
    path: list[CodeType] = []

    def start(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        before = _stack(asyncio.current_task(loop), started_by)
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        started_by[task] = before
        return task

    send = HttpClient.send

    async def watched(self: HttpClient, *args: Any) -> Any:
        path.extend(_stack(asyncio.current_task(), started_by))
        return await send(self, *args)

    async def measure() -> None:
        asyncio.get_running_loop().set_task_factory(start)
        async with LoopbackProvider(world_answers()) as provider:
            await _evaluate(provider, tmp_path, 1)

    monkeypatch.setattr(HttpClient, "send", watched)
    asyncio.run(measure())
    names = [code.co_name for code in path if code.co_filename.startswith(OURS)]
    passed = names[names.index(Evaluation._roll_out.__name__) + 1 : names.index(Wire.post.__name__) + 1]
    assert passed[:1] == ["measure"]
    assert len(passed) <= MOST_FUNCTIONS, " -> ".join(passed)


async def test_a_rollout_of_one_call_takes_few_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    counts = []
    async with LoopbackProvider(world_answers()) as provider:
        for cases in (4, 24):
            statements.clear()
            await _evaluate(provider, tmp_path / str(cases), cases)
            # notes in `meta` are written by the clock and not by the call
            counts.append(len([one for one in statements if "INTO meta" not in one]))
        assert provider.calls == 28
    assert 0 < counts[1] - counts[0] <= 20 * MOST_STATEMENTS


async def _evaluate(provider: LoopbackProvider, folder: Path, cases: int) -> None:
    job = make_job(in_world(f"compatible:m@{provider.base_url}", f"env.val_cases={cases}"))
    await evaluate(job, {"seed": job.skill}, ["val"], folder)


def _stack(task: asyncio.Task[Any] | None, started_by: dict[object, list[CodeType]]) -> list[CodeType]:
    """The functions on the stack, outermost first, after those on the stack when this task was started."""
    found, frame = [], sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "_run_once":
        found.append(frame.f_code)
        frame = frame.f_back
    return [*started_by.get(task, ()), *reversed(found)]
