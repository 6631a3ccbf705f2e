"""Works of a server: heard, a few at a time, and stopped gently before they are stopped hard."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from _cancelled import DEAF, POLITE
from mcp_server._client import processes_of
from skillopt.errors import UsageError
from skillopt.mcp.work import CommandRunner, program
from skillopt.process import Finished

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


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
