"""Child processes: their output, their environment, and their end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from _cancelled import DEAF, POLITE
from skillopt.errors import Fault
from skillopt.files import remove
from skillopt.process import _reaper, minimal_env, run_process


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


async def run(
    argv: list[str],
    *,
    stdin: bytes | None = None,
    timeout: float = 10,
    max_output: int = 1 << 20,
    cwd: Path | None = None,
):
    return await run_process(
        argv, input=stdin, env=minimal_env(), cwd=cwd, timeout=timeout, max_output=max_output
    )


async def test_input_goes_in_and_both_streams_and_the_code_come_out(tmp_path: Path) -> None:
    done = await run(
        python(
            "import os, sys; print(sys.stdin.read().upper()); print(os.getcwd(), file=sys.stderr);"
            " sys.exit(3)"
        ),
        stdin=b"hi",
        cwd=tmp_path,
    )
    assert (done.code, done.stdout.strip(), Path(done.stderr.decode().strip()).name) == (
        3,
        b"HI",
        tmp_path.name,
    )
    assert not done.cut


async def test_without_input_stdin_is_empty_and_not_ours() -> None:
    assert (await run(python("import sys; print(repr(sys.stdin.read()))"))).stdout.strip() == b"''"


async def test_output_beyond_the_limit_is_dropped_and_said_and_the_child_is_not_blocked() -> None:
    done = await run(
        python("import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('e')"), max_output=1000
    )
    assert (done.code, done.stdout, done.stderr, done.cut) == (0, b"x" * 1000, b"e", True)


async def test_a_child_that_never_reads_a_large_input_still_ends() -> None:
    assert (await run(python("print('ok')"), stdin=b"x" * 5_000_000)).stdout.strip() == b"ok"


@pytest.mark.parametrize("argv", [["no-such-program-here"], ["/"], [sys.executable, "nul\0byte"]])
async def test_what_cannot_be_started_is_a_spawn_fault(argv: list[str]) -> None:
    with pytest.raises(Fault) as caught:
        await run(argv)
    assert caught.value.kind == "spawn"
    assert argv[0] in str(caught.value)


GRANDCHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(str(child.pid))
{end}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="looks a process up by signal 0")
@pytest.mark.timeout(30)
async def test_a_timeout_kills_the_whole_tree(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(Fault) as caught:
        await run([*python(GRANDCHILD.format(end="time.sleep(60)")), str(note)], timeout=1.0)
    assert caught.value.kind == "timeout"
    assert is_gone(int(note.read_text()))


@pytest.mark.skipif(sys.platform == "win32", reason="looks a process up by signal 0")
async def test_what_a_finished_program_leaves_behind_is_ended_and_its_own_result_kept(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    done = await run([*python(GRANDCHILD.format(end="print('score', flush=True)")), str(note)], timeout=30)
    assert (done.code, done.stdout.strip()) == (0, b"score")
    assert is_gone(int(note.read_text()))


@pytest.mark.skipif(sys.platform == "win32", reason="looks a process up by signal 0")
async def test_a_cancelled_call_kills_the_whole_tree(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    work = asyncio.ensure_future(
        run([*python(GRANDCHILD.format(end="time.sleep(60)")), str(note)], timeout=60)
    )
    for _ in range(200):
        await asyncio.sleep(0.02)
        if note.exists() and note.read_text():
            break
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert is_gone(int(note.read_text()))


async def test_a_child_never_sees_our_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-children")
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert "OPENAI_API_KEY" not in minimal_env()
    assert minimal_env({"EXTRA": "1"}) == {**minimal_env(), "EXTRA": "1"}
    assert minimal_env()["LANG"] == "C.UTF-8"
    done = await run(python("import os; print(dict(os.environ))"))
    assert b"sk-not-for-children" not in done.stdout
    assert b"PATH" in done.stdout


@pytest.mark.slow
async def test_many_processes_at_once_each_keep_their_own_output() -> None:
    done = await asyncio.gather(
        *(run(python("import sys; print(sys.stdin.read())"), stdin=str(n).encode()) for n in range(20))
    )
    assert [int(each.stdout) for each in done] == list(range(20))


def is_gone(pid: int) -> bool:
    """True when the process has ended; a zombie that nobody has collected yet has ended too."""
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        try:
            os.kill(pid, 0)
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):  # it may end between two looks
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("ticks", range(6))
async def test_a_program_that_is_withdrawn_while_it_starts_neither_hangs_nor_lives_on(ticks: int) -> None:
    running = asyncio.ensure_future(run([*python("import time; time.sleep(60)"), f"withdrawn-{ticks}-5741"]))
    for _ in range(ticks):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=10)
    assert done
    assert running.cancelled()
    await asyncio.sleep(0.1)
    assert not [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"withdrawn-{ticks}-5741".encode() in path.read_bytes()
    ]


@pytest.mark.skipif(
    sys.platform == "win32" or not Path("/usr/bin/python3").exists(),
    reason="needs a Python that everybody may start",
)
def test_the_guard_of_a_dead_trainer_also_removes_read_only_folders() -> None:
    # root minds no permission
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="guarded-"))
    try:
        (folder / "documents").mkdir()
        (folder / "documents" / "one.txt").write_text("text")
        ended = subprocess.Popen(["/usr/bin/true"])
        ended.wait(10)
        for path in (folder, folder / "documents", folder / "documents" / "one.txt"):
            os.chown(path, nobody.get("user", -1), -1)
        (folder / "documents").chmod(0o555)
        program = Path(_reaper.__file__).read_text()
        told = f"+{json.dumps([ended.pid, None, str(folder)])}\n"
        subprocess.run(
            ["/usr/bin/python3", "-IS", "-c", program],
            input=told.encode(),
            timeout=30,
            check=True,
            cwd="/",
            **nobody,
        )
        assert not folder.exists()
    finally:
        remove(folder)


async def started(code: str, *arguments: str, grace: float) -> asyncio.Future[Any]:
    """A program that has begun."""
    ready = asyncio.Event()
    argv = [sys.executable, "-I", "-S", "-c", code, *arguments]
    how: Any = {"input": None, "env": minimal_env(), "cwd": None, "timeout": 60, "grace": grace}
    running = asyncio.ensure_future(run_process(argv, heard=lambda data: ready.set(), **how))
    await asyncio.wait_for(ready.wait(), 20)
    return running


async def ended(running: asyncio.Future[Any]) -> float:
    """How long a cancelled program took to end."""
    begun = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return time.monotonic() - begun


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("code", "grace", "least", "most", "closes"),
    [(POLITE, 20, 0, 15, True), (POLITE, 0, 0, 10, False), (DEAF, 0.3, 0.3, 10, False)],
    ids=["polite", "without grace", "deaf"],
)
async def test_a_cancelled_program_may_close_what_it_has_open_within_its_grace(
    tmp_path: Path, code: str, grace: float, least: float, most: float, closes: bool
) -> None:
    note = tmp_path / "note"
    assert least <= await ended(await started(code, str(note), grace=grace)) < most
    assert (note.read_text() if note.exists() else "") == ("closed" if closes else "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
async def test_a_second_cancellation_does_not_wait() -> None:
    running = await started(DEAF, grace=60)
    running.cancel()
    await asyncio.sleep(0.1)
    assert not running.done()
    assert await ended(running) < 10
