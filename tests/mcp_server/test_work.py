"""Works of a server: heard, a few at a time, and stopped gently before they are stopped hard."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import UsageError
from skillopt.mcp.work import CommandRunner, RunningCommand, program
from skillopt.process import minimal_env, run_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
POLITE = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (open(sys.argv[1], "w").write("closed"), sys.exit(130)))
print("ready", file=sys.stderr, flush=True)
time.sleep(60)
"""
DEAF = (
    "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', file=sys.stderr,"
    " flush=True); time.sleep(60)"
)


async def started(code: str, *arguments: str, grace: float) -> asyncio.Future[Any]:
    """A program that has begun."""
    ready = asyncio.Event()
    argv = [sys.executable, "-I", "-S", "-c", code, *arguments]
    running = asyncio.ensure_future(
        run_process(
            argv,
            input=None,
            env=minimal_env(),
            cwd=None,
            timeout=60,
            grace=grace,
            heard=lambda data: ready.set(),
        )
    )
    await asyncio.wait_for(ready.wait(), 20)
    return running


async def ended(running: asyncio.Future[Any]) -> float:
    """How long a cancelled program took to end."""
    begun = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return time.monotonic() - begun


async def test_a_cancelled_program_may_close_what_it_has_open(tmp_path: Path) -> None:
    note = tmp_path / "note"
    assert await ended(await started(POLITE, str(note), grace=20)) < 15
    assert note.read_text() == "closed"


async def test_a_program_may_close_too_when_it_is_cancelled_before_we_know_that_it_runs(
    tmp_path: Path,
) -> None:
    note, ready = tmp_path / "note", tmp_path / "ready"
    code = POLITE.replace("time.sleep(60)", "open(sys.argv[2], 'w').close(); time.sleep(60)")
    argv = [sys.executable, "-I", "-S", "-c", code, str(note), str(ready)]
    running = asyncio.ensure_future(
        run_process(argv, input=None, env=minimal_env(), cwd=None, timeout=60, grace=20)
    )
    for _ in range(2):  # it is started, and its pipes are not connected yet
        await asyncio.sleep(0)
    deadline = time.monotonic() + 20
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop stands still meanwhile, as on a busy machine
    await ended(running)
    assert note.read_text() == "closed"


async def test_without_grace_a_cancelled_program_is_ended_at_once(tmp_path: Path) -> None:
    note = tmp_path / "note"
    await ended(await started(POLITE, str(note), grace=0))
    assert not note.exists()


async def test_a_program_that_does_not_listen_is_ended_after_the_grace() -> None:
    assert 0.3 <= await ended(await started(DEAF, grace=0.3)) < 10


async def test_a_second_cancellation_does_not_wait() -> None:
    running = await started(DEAF, grace=60)
    running.cancel()
    await asyncio.sleep(0.1)
    assert not running.done()
    assert await ended(running) < 10


def shop_of_code(**options: Any) -> CommandRunner:
    """Its works are lines of Python in place of commands."""
    return CommandRunner(program=lambda line: [sys.executable, "-I", "-S", "-c", *line], **options)


async def heard(one: RunningCommand) -> list[str]:
    return [line async for line in one.news()]


async def test_lines_are_told_as_they_come_and_an_overlong_one_is_cut(tmp_path: Path) -> None:
    shop = shop_of_code()
    code = (
        "import sys; sys.stderr.write('one\\ntw'); sys.stderr.flush(); sys.stderr.write('o\\n' + 'x' * 9000 +"
        " '\\n'); print(7)"
    )
    one = shop.start([code], tmp_path, is_long=False, environ=dict(os.environ))
    assert [line[:2000] for line in await heard(one)] == ["one", "two", "x" * 2000]
    assert one.finished is not None and one.finished.stdout == b"7\n"


async def test_more_works_than_there_are_places_wait_and_are_told_so(tmp_path: Path) -> None:
    shop = shop_of_code(most_long=2)
    code = "import time; time.sleep(0.2)"
    works = [shop.start([code], tmp_path, is_long=True, environ=dict(os.environ)) for _ in range(3)]
    short = shop.start(["print(1)"], tmp_path, is_long=False, environ=dict(os.environ))
    told = await asyncio.gather(*map(heard, [*works, short]))
    assert [bool(lines) for lines in told] == [False, False, True, False]
    assert told[2][0].startswith("waiting")
    assert all(one.finished is not None and one.finished.code == 0 for one in works)


@pytest.mark.slow
async def test_closing_stops_everything_and_leaves_no_process(tmp_path: Path) -> None:
    shop = shop_of_code(close_grace=2.0, cancel_grace=60)
    note = tmp_path / "note"
    polite = shop.start([POLITE, str(note)], tmp_path, is_long=True, environ=dict(os.environ))
    deaf = shop.start([DEAF], tmp_path, is_long=True, environ=dict(os.environ))
    for one in (polite, deaf):
        assert await asyncio.wait_for(anext(one.news()), 20) == "ready"
    await asyncio.wait_for(shop.close(), 20)
    assert polite.finished is None and deaf.finished is None
    with pytest.raises(UsageError, match="closing"):
        shop.start(["print(1)"], tmp_path, is_long=False, environ=dict(os.environ))
    assert note.read_text() == "closed"
    assert not [path for path in Path("/proc").glob("[0-9]*/cwd") if target(path) == tmp_path]


def target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:
        return None


async def test_a_work_begins_when_a_cancelled_one_of_its_project_has_closed(tmp_path: Path) -> None:
    shop = shop_of_code(cancel_grace=20)
    note = tmp_path / "note"
    first = shop.start([POLITE, str(note)], tmp_path, is_long=True, environ=dict(os.environ))
    assert await asyncio.wait_for(anext(first.news()), 20) == "ready"
    shop.stop(first)
    second = shop.start(
        ["import sys; print(open(sys.argv[1]).read())", str(note)],
        tmp_path,
        is_long=True,
        environ=dict(os.environ),
    )
    assert (await heard(second))[0].startswith("waiting for a cancelled work")
    assert second.finished is not None and second.finished.stdout == b"closed\n"


async def test_silence_is_broken_by_a_sign_of_life(tmp_path: Path) -> None:
    one = shop_of_code(heartbeat=0.1).start(
        ["import time; time.sleep(0.5)"], tmp_path, is_long=False, environ=dict(os.environ)
    )
    assert (await heard(one))[0].startswith("still working")


def test_a_work_is_this_program_without_a_shell() -> None:
    assert program(["train", "$(id)"])[0] == sys.executable and program(["train", "$(id)"])[-2:] == [
        "train",
        "$(id)",
    ]
