"""Works of a server: heard, a few at a time, and stopped gently before they are stopped hard."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_server._client import processes_of
from skillopt.errors import UsageError
from skillopt.mcp.work import CommandRunner, program
from skillopt.process import Finished, minimal_env, run_process

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


@dataclass
class Heard:
    """A work whose command is a line of Python, and what it told."""

    shop: CommandRunner
    project: Path
    lines: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, *code: str, is_long: bool = True) -> asyncio.Future[Finished | None]:
        async def tell(line: str) -> None:
            self.lines.append(line)
            self.begun.set()

        how: Any = {"is_long": is_long, "environ": dict(os.environ), "tell": tell}
        return asyncio.ensure_future(self.shop.run(code, self.project, **how))

    async def ready(self) -> None:
        await asyncio.wait_for(self.begun.wait(), 20)
        assert self.lines == ["ready"]


def shop_of_code(**options: Any) -> CommandRunner:
    """Its works are lines of Python in place of commands."""
    return CommandRunner(program=lambda line: [sys.executable, "-I", "-S", "-c", *line], **options)


async def test_lines_are_told_as_they_come_and_an_overlong_one_is_cut(tmp_path: Path) -> None:
    code = (
        "import sys; sys.stderr.write('one\\ntw'); sys.stderr.flush(); sys.stderr.write('o\\n' + 'x' * 9000 +"
        " '\\n'); print(7)"
    )
    work = Heard(shop_of_code(), tmp_path)
    done = await work.start(code, is_long=False)
    assert [line[:2000] for line in work.lines] == ["one", "two", "x" * 2000]
    assert done is not None and done.stdout == b"7\n"


async def test_more_works_than_there_are_places_wait_and_are_told_so(tmp_path: Path) -> None:
    shop = shop_of_code(most_long=2)
    works = [Heard(shop, tmp_path) for _ in range(4)]
    code = "import time; time.sleep(0.2)"
    ended = await asyncio.gather(*(work.start(code, is_long=work is not works[3]) for work in works))
    assert [bool(work.lines) for work in works] == [False, False, True, False]
    assert works[2].lines[0].startswith("waiting")
    assert all(done is not None and done.code == 0 for done in ended)


@pytest.mark.slow
async def test_closing_stops_everything_and_leaves_no_process(tmp_path: Path) -> None:
    shop = shop_of_code(close_grace=2.0, cancel_grace=60)
    note = tmp_path / "note"
    polite, deaf = Heard(shop, tmp_path), Heard(shop, tmp_path)
    running = [polite.start(POLITE, str(note)), deaf.start(DEAF)]
    await polite.ready()
    await deaf.ready()
    await asyncio.wait_for(shop.close(), 20)
    assert await asyncio.gather(*running) == [None, None]
    with pytest.raises(UsageError, match="closing"):
        await polite.start("print(1)")
    assert note.read_text() == "closed"
    assert not processes_of(tmp_path)


async def test_a_work_begins_when_a_cancelled_one_of_its_project_has_closed(tmp_path: Path) -> None:
    shop = shop_of_code(cancel_grace=20)
    note = tmp_path / "note"
    first, second = Heard(shop, tmp_path), Heard(shop, tmp_path)
    running = first.start(POLITE, str(note))
    await first.ready()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    done = await second.start("import sys; print(open(sys.argv[1]).read())", str(note))
    assert second.lines[0].startswith("waiting for a cancelled work")
    assert done is not None and done.stdout == b"closed\n"


async def test_silence_is_broken_by_a_sign_of_life(tmp_path: Path) -> None:
    work = Heard(shop_of_code(heartbeat=0.1), tmp_path)
    await work.start("import time; time.sleep(0.5)")
    assert work.lines[0].startswith("still working")


def test_a_work_is_this_program_without_a_shell() -> None:
    line = program(["train", "$(id)"])
    assert line[0] == sys.executable and line[-2:] == ["train", "$(id)"]
