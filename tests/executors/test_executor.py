"""Environment work gives the same result wherever it runs, and what goes wrong with it is a named fault,
never a hang.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from executors import _work
from skillopt.errors import Fault
from skillopt.executors import Executor, executors
from skillopt.executors.in_process import InProcess
from skillopt.executors.processes import ProcessPool

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture(params=[InProcess, partial(ProcessPool, 2)], ids=["in_process", "processes"])
async def executor(request: pytest.FixtureRequest) -> AsyncIterator[Executor]:
    made = request.param()
    yield made
    await made.close()


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    made = ProcessPool(2)
    yield made
    await made.close()


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended while it was read
        return False


def gone(pid: int, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


async def test_every_executor_is_made_by_its_name() -> None:
    assert executors.names() == ["in_process", "processes", "ray"]
    for name in ("in_process", "processes"):  # the third in tests/real/test_ray.py
        made: Executor = executors.get(name)(2)
        assert await made.run(partial(_work.double, 4)) == 8
        await made.close()


async def test_work_comes_back_with_its_result(executor: Executor) -> None:
    assert await asyncio.gather(*(executor.run(partial(_work.double, n)) for n in range(8))) == [
        0,
        2,
        4,
        6,
        8,
        10,
        12,
        14,
    ]


async def test_an_object_keeps_its_state_and_its_calls_never_overlap(executor: Executor) -> None:
    one, other = (
        await executor.open(partial(_work.Counter, 0)),
        await executor.open(partial(_work.Counter, 100)),
    )
    await asyncio.gather(*(handle.call("add", 1, 0.01) for handle in (one, other) for _ in range(5)))
    assert (await one.call("add", 0), await other.call("add", 0)) == (5, 105)
    await one.close()
    await one.close()
    with pytest.raises(Fault, match="the handle is closed"):
        await one.call("add", 1)
    assert await other.call("add", 1) == 106


@pytest.mark.parametrize(
    ("method", "kind", "words"),
    [
        ("break_down", "sandbox", "ValueError: it broke"),
        ("fault", "contract", "not like this"),
        ("missing", "sandbox", "AttributeError"),
    ],
)
async def test_what_work_raises_is_a_fault_and_the_object_lives_on(
    executor: Executor, method: str, kind: str, words: str
) -> None:
    handle = await executor.open(partial(_work.Counter, 1))
    with pytest.raises(Fault, match=words) as caught:
        await handle.call(method)
    assert caught.value.kind == kind
    assert await handle.call("add", 1) == 2


async def test_an_object_that_cannot_be_made_is_a_fault(executor: Executor) -> None:
    with pytest.raises(Fault, match="TypeError"):
        await executor.open(partial(_work.Counter, "too", "many"))


async def test_after_close_nothing_runs(executor: Executor) -> None:
    handle = await executor.open(partial(_work.Counter, 1))
    await executor.close()
    with pytest.raises(Fault, match="closed"):
        await executor.run(partial(_work.double, 1))
    with pytest.raises(Fault, match="closed"):
        await handle.call("add", 1)


async def test_objects_are_spread_over_as_many_processes_as_there_may_be(pool: ProcessPool) -> None:
    handles = [await pool.open(partial(_work.Counter, 0)) for _ in range(6)]
    pids = [await handle.call("pid") for handle in handles]
    assert len(set(pids)) == 2
    assert sorted(pids.count(pid) for pid in set(pids)) == [3, 3]
    assert os.getpid() not in pids


async def test_a_process_that_made_many_objects_is_replaced_when_they_are_closed() -> None:
    pool = ProcessPool(1, renewed_after=2)
    try:
        first, second = await pool.open(partial(_work.Counter, 0)), await pool.open(partial(_work.Counter, 0))
        old = await first.call("pid")
        third = await pool.open(partial(_work.Counter, 0))
        assert await second.call("pid") == old != await third.call("pid")
        await first.close()
        assert await second.call("add", 1) == 1  # what is open stays
        await second.close()
        assert await asyncio.to_thread(gone, old)
        assert await third.call("add", 1) == 1
    finally:
        await pool.close()


async def test_what_work_prints_is_not_taken_for_its_answer(pool: ProcessPool) -> None:
    assert [await pool.run(partial(_work.chatty, n)) for n in range(3)] == [0, 1, 2]


async def test_no_credential_reaches_a_worker(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    found = await pool.run(_work.environment)
    assert "planted-key" not in str(found)
    assert found["PYTHONHASHSEED"] == "0"


@pytest.mark.slow
async def test_a_process_that_dies_loses_its_objects_and_nobody_else_s(pool: ProcessPool) -> None:
    doomed, other = await pool.open(partial(_work.Counter, 1)), await pool.open(partial(_work.Counter, 1))
    with pytest.raises(Fault, match=r"exit code 7\): the last words") as caught:
        await doomed.call("die")
    assert caught.value.kind == "sandbox"
    with pytest.raises(Fault, match="exit code 7"):
        await doomed.call("add", 1)
    await doomed.close()
    assert await other.call("add", 1) == 2
    assert await (await pool.open(partial(_work.Counter, 5))).call("add", 1) == 6


@pytest.mark.slow
async def test_work_that_hangs_is_ended_with_its_process() -> None:
    pool = ProcessPool(1, timeout=3)
    try:
        handle = await pool.open(partial(_work.Counter, 1))
        pid = await handle.call("pid")
        started = time.monotonic()
        with pytest.raises(Fault, match=r"did not end within 3 s") as caught:
            await handle.call("add", 1, 60)
        assert caught.value.kind == "timeout"
        assert time.monotonic() - started < 30
        assert await asyncio.to_thread(gone, pid)
        with pytest.raises(Fault, match="took too long"):
            await handle.call("add", 1)
        assert await pool.run(partial(_work.double, 4)) == 8
    finally:
        await pool.close()


async def test_what_cannot_be_sent_is_said_and_harms_nothing(pool: ProcessPool) -> None:
    with pytest.raises(Fault, match="cannot be sent") as caught:
        await pool.run(lambda: 1)
    assert caught.value.kind == "contract"
    handle = await pool.open(partial(_work.Counter, 1))
    with pytest.raises(Fault, match="this result cannot be sent"):
        await handle.call("unpicklable")
    assert await handle.call("add", 1) == 2


async def test_a_call_that_nobody_waits_for_does_not_answer_the_next_one(pool: ProcessPool) -> None:
    handle = await pool.open(partial(_work.Counter, 0))
    waiting = asyncio.ensure_future(handle.call("add", 5, 0.2))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await handle.call("add", 1) == 6


async def test_closing_ends_every_process_also_a_busy_one() -> None:
    pool = ProcessPool(2)
    pids = [await (await pool.open(partial(_work.Counter, 0))).call("pid") for _ in range(2)]
    busy = asyncio.ensure_future(pool.run(partial(time.sleep, 60)))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    await pool.close()
    assert time.monotonic() - started < 30
    assert [alive(pid) for pid in pids] == [False, False]
    with pytest.raises(Fault):
        await busy


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to look for processes")
def test_a_worker_ends_when_its_parent_is_killed_in_the_middle_of_work(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, sys\nfrom functools import partial\nfrom executors import _work\nfrom"
        " skillopt.executors.processes import"
        " ProcessPool\nasyncio.run(ProcessPool(1).run(partial(_work.write_pid_and_sleep, sys.argv[1])))\n"
    )
    noted = tmp_path / "pid"
    paths = os.pathsep.join([str(TESTS), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, str(script), str(noted)], env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        until = time.monotonic() + 20
        while not (noted.exists() and noted.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        worker = int(noted.read_text())
        assert "skillopt.executors._worker" in _work.argv_of(worker)
        parent.send_signal(signal.SIGKILL)
        assert gone(worker)
    finally:
        parent.kill()
        parent.wait()
