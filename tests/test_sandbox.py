"""What runs in the sandbox gets its inputs, a little time and memory, and nothing else - and nothing of it is
left.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from _hostile import ABSTRACT, GOLDEN, HOSTILE, PORT
from _needs import BUBBLEWRAP, needs_bubblewrap
from skillopt.errors import ConfigError, Fault
from skillopt.process.sandbox import Mode, ProcessLimits, Sandbox, _place, _run, is_there, require
from skillopt.process.sandbox._place import call_filter

SECRET = "the-golden-value-4711"
SMALL = ProcessLimits(seconds=20, memory=512 << 20, disk=64 << 20)


def shut(**changes: object) -> Sandbox:
    return Sandbox("bubblewrap", **{"limits": SMALL, **changes})  # type: ignore[arg-type]


async def python(code: str, sandbox: Sandbox | None = None, **arguments: object):
    return await (sandbox or shut()).run(["python", "-c", code], **arguments)  # type: ignore[arg-type]


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)  # whoever could get here could read it
    file = tmp_path / "1_golden.xlsx"
    file.write_text(SECRET)
    file.chmod(0o666)
    return file


@pytest.fixture
def listening() -> Iterator[tuple[int, str, list[socket.socket]]]:
    """A server on loopback and one on an abstract socket, which nobody inside may reach."""
    name = f"skillopt-test-{os.getpid()}"
    servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
    servers[1].bind(f"\0{name}")
    servers[1].listen()
    yield servers[0].getsockname()[1], name, servers
    for server in servers:
        server.close()


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_program_gets_nothing_and_ends_in_time(
    name: str, golden: Path, listening: tuple[int, str, list[socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    port, abstract, servers = listening
    code = HOSTILE[name].replace(GOLDEN, str(golden)).replace(PORT, str(port)).replace(ABSTRACT, abstract)
    before = time.monotonic()
    ran = await python(code, collect=["output.xlsx"], limits=replace(SMALL, seconds=1))
    assert time.monotonic() - before < 8
    everything = ran.stdout + ran.stderr + b"".join(ran.files.values())
    assert SECRET.encode() not in everything
    assert b"GOT" not in ran.stdout
    assert not ran.files
    assert golden.read_text() == SECRET
    assert len(everything) <= 2 * SMALL.output
    for server in servers:
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not [line for line in commands() if "5731" in line or code[:60] in line]


def commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize(
    ("name", "stopped"),
    [
        ("loops for ever", "time"),
        ("allocates in many processes", "memory"),
        ("kills whatever it can", "time"),
        ("allocates 4 GB", None),
    ],
)
async def test_the_limit_that_ended_a_program_is_named(name: str, stopped: str | None) -> None:
    ran = await python(HOSTILE[name], limits=replace(SMALL, seconds=1.5) if stopped == "time" else SMALL)
    assert ran.stopped == stopped
    assert not ran.succeeded


SIGNALS = """
import os, signal, time
for number in signal.valid_signals():
    try:
        os.kill(os.getppid(), number)
    except OSError:
        pass
time.sleep(0.2)
print("still here")
"""


@needs_bubblewrap
async def test_no_signal_from_inside_ends_the_watcher() -> None:
    ran = await python(SIGNALS)
    assert (ran.code, ran.stdout) == (0, b"still here\n")


async def test_a_program_handles_signals_as_it_would_elsewhere() -> None:
    code = """
import os, signal
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
os.kill(os.getpid(), signal.SIGTERM)
"""
    assert (await python(code, Sandbox("limits", limits=SMALL))).code == -signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "stopped"), [("SIGKILL", None), pytest.param("SIGSTOP", "time", marks=pytest.mark.slow)]
)
async def test_where_nothing_shuts_it_in_ending_the_watcher_is_the_program_s_failure(
    number: str, stopped: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_run, "_GRACE", 2.0)
    code = f"import os, signal, time; os.kill(os.getppid(), signal.{number}); time.sleep(60)"
    ran = await python(
        code, Sandbox("limits", limits=SMALL), limits=replace(SMALL, seconds=1), collect=["output.xlsx"]
    )
    assert ran.stopped == stopped
    assert not ran.succeeded
    assert ran.lost == {"output.xlsx": "missing"}


KEYRING = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
session = libc.syscall(number, 0, -3, 0)  # KEYCTL_GET_KEYRING_ID of KEY_SPEC_SESSION_KEYRING
print("GOT" if session >= 0 else "refused", ctypes.get_errno())
"""
VSOCK = """
import socket
for family in (40, 38, 31, 17):  # VSOCK, ALG, BLUETOOTH, PACKET
    try:
        socket.socket(family, socket.SOCK_STREAM, 0)
    except OSError as error:
        print(error.errno)
    else:
        print("GOT", family)
for family in (socket.AF_UNIX, socket.AF_INET):
    socket.socket(family).close()
print("usual ones work")
"""


@pytest.mark.slow
@pytest.mark.skipif(not call_filter(), reason=f"no system-call filter for {platform.machine()}")
@pytest.mark.parametrize("mode", ["bubblewrap", "limits"])
async def test_keyrings_and_odd_sockets_are_out_of_reach(mode: Mode) -> None:
    if mode == "bubblewrap" and not is_there():
        pytest.skip(BUBBLEWRAP)
    sandbox = Sandbox(mode, limits=SMALL)
    assert (await python(KEYRING, sandbox)).stdout == b"refused 1\n"
    told = (await python(VSOCK, sandbox)).stdout.decode().split("\n")
    assert told == ["97"] * 4 + ["usual ones work", ""]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_by_number_and_family(machine: str) -> None:
    """Run by a small interpreter of classic BPF, for both machines."""
    calls = {
        "x86_64": {"arch": 0xC000003E, "socket": 41, "keyctl": 250, "read": 0},
        "aarch64": {"arch": 0xC00000B7, "socket": 198, "keyctl": 219, "read": 63},
    }[machine]
    allow, error = 0x7FFF0000, 0x00050000

    def judged(arch: int, number: int, first: int = 0) -> int:
        return interpreted(call_filter(machine), {0: number, 4: arch, 16: first})

    assert judged(calls["arch"], calls["read"]) == allow
    assert judged(calls["arch"], calls["keyctl"]) == error | 1
    assert judged(calls["arch"], 425) == error | 1  # io_uring_setup
    assert [judged(calls["arch"], calls["socket"], family) for family in (1, 2, 10, 16)] == [allow] * 4
    assert judged(calls["arch"], calls["socket"], 40) == error | 97
    assert judged(0x40000003, calls["read"]) == error | 38  # 32-bit calls
    if machine == "x86_64":
        assert judged(calls["arch"], 0x40000000 + 250) == error | 38
    assert call_filter("riscv64") == b""


def interpreted(program: bytes, data: dict[int, int]) -> int:
    steps = list(struct.iter_unpack("<HBBI", program))
    at = loaded = 0
    while True:
        code, true, false, value = steps[at]
        at += 1
        if code == 0x20:
            loaded = data[value]
        elif code == 0x06:
            return int(value)
        else:
            at += true if (loaded == value if code == 0x15 else loaded >= value) else false


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("folder", [".", "/tmp", "/dev/shm"])
async def test_a_program_that_makes_files_without_end_is_stopped(folder: str) -> None:
    code = f"import os\nfor n in range(10**9): os.close(os.open('{folder}/' + str(n), os.O_CREAT))"
    ran = await python(code, limits=replace(SMALL, files=2_000))
    assert ran.stopped == "files"


@pytest.mark.slow
@needs_bubblewrap
async def test_disk_and_output_are_cut_at_their_limits() -> None:
    filled = dict(
        line.split() for line in (await python(HOSTILE["fills the disk"])).stdout.decode().splitlines()
    )
    assert 40 < int(filled["/tmp"]) <= 64
    assert 40 < int(filled["."]) <= 64
    assert int(filled["/dev/shm"]) <= 16
    printed = await python("print('x' * 1_000_000)")
    assert (len(printed.stdout), printed.cut, printed.code) == (SMALL.output, True, 0)


@needs_bubblewrap
async def test_a_program_gets_its_files_and_hands_files_back() -> None:
    code = (
        "import sys; open('out/new.txt', 'w').write(open('in/a.txt').read() + sys.stdin.read());"
        " print(open('b').read())"
    )
    ran = await python(
        code,
        files={"in/a.txt": b"one ", "b": b"three", "out/keep": b""},
        input=b"two",
        collect=["out/new.txt", "none"],
    )
    assert (ran.code, ran.stdout, ran.stderr) == (0, b"three\n", b"")
    assert ran.files == {"out/new.txt": b"one two"}
    assert ran.lost == {"none": "missing"}
    assert ran.succeeded


@needs_bubblewrap
async def test_every_program_starts_in_an_empty_box() -> None:
    sandbox = shut()
    await python("open('left', 'w'); open('/tmp/left', 'w')", sandbox)
    seen = (await python("import os; print(os.listdir('.'), 'left' in os.listdir('/tmp'))", sandbox)).stdout
    assert seen == b"[] False\n"  # the way to an interpreter that lies below /tmp may be there


@pytest.mark.slow
@needs_bubblewrap
async def test_large_inputs_and_inputs_nobody_reads_do_no_harm() -> None:
    big = os.urandom(8 << 20)
    ran = await python("import sys; print(len(sys.stdin.buffer.read()))", input=big)
    assert ran.stdout == b"8388608\n"
    assert (await python("print(1)", input=big)).stdout == b"1\n"
    assert (await python("pass", files={"big": big}, collect=["big"])).files["big"] == big
    small = await python(
        "pass", files={"big": big}, collect=["big"], limits=ProcessLimits(seconds=3, collected=1 << 20)
    )
    assert small.lost == {"big": "too large"}


@needs_bubblewrap
async def test_hidden_folders_stay_hidden_inside_visible_ones(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "data", tmp_path / "data" / "golden"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    (tmp_path / "data" / "open.txt").write_text("open")
    (tmp_path / "data" / "golden" / "x.txt").write_text(SECRET)
    sandbox = shut(visible=[tmp_path / "data"], hidden=[tmp_path / "data" / "golden", tmp_path / "elsewhere"])
    look = (
        f"import os; print(open('{tmp_path}/data/open.txt').read(), os.listdir('{tmp_path}/data/golden'),"
        f" os.listdir('{tmp_path}'))"
    )
    assert (await python(look, sandbox)).stdout == b"open [] ['data']\n"
    assert (await python(f"open('{tmp_path}/data/open.txt', 'a')", sandbox)).code == 1


@needs_bubblewrap
@pytest.mark.slow
async def test_a_program_of_the_user_reads_everything_and_changes_nothing(tmp_path: Path) -> None:
    """The gentler form, for command scorers: no network, nothing written, but all files as the user sees
    them.
    """
    (tmp_path / "a.txt").write_text("mine")
    (tmp_path / "a.txt").chmod(0o600)
    sandbox = shut(own_program=True)
    assert (await python(f"print(open('{tmp_path}/a.txt').read())", sandbox)).stdout == b"mine\n"
    for attempt in (
        f"open('{tmp_path}/b.txt', 'w')",
        "import socket; socket.create_connection(('127.0.0.1', 1))",
        "import os; os.kill(1, 9); 1/0",
    ):
        assert (await python(attempt, sandbox)).code == 1
    assert not (tmp_path / "b.txt").exists()
    assert (
        await python("import tempfile; print(tempfile.TemporaryFile().write(b'abc'))", sandbox)
    ).stdout == b"3\n"
    ran = await python(HOSTILE["forks without end"], sandbox)
    assert ran.stopped == "processes" or ran.code != 0


@needs_bubblewrap
async def test_the_sandbox_s_own_failure_is_a_fault_and_the_program_s_is_not() -> None:
    with pytest.raises(Fault) as missing:
        await shut().run(["no-such-program"])
    assert missing.value.kind == "spawn"
    with pytest.raises(Fault) as broken:
        await python("print(1)", shut(visible=[Path("/no/such/folder")]))
    assert broken.value.kind == "sandbox"
    assert "/no/such/folder" in broken.value.detail
    assert (await python("import sys; sys.exit(3)")).code == 3
    assert (await python("import os; os.abort()")).code == -6


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", ""])
async def test_a_file_outside_the_box_is_refused_before_anything_runs(name: str) -> None:
    with pytest.raises(Fault) as caught:
        await python("pass", files={name: b""})
    assert caught.value.kind == "contract"


@pytest.mark.slow
@needs_bubblewrap
async def test_only_so_many_programs_run_at_once() -> None:
    sandbox = shut(at_once=2)
    spans = await asyncio.gather(
        *(
            python("import time; a = time.time(); time.sleep(0.2); print(a, time.time())", sandbox)
            for _ in range(5)
        )
    )
    times = sorted(tuple(map(float, ran.stdout.split())) for ran in spans)
    assert max(sum(start <= moment < end for start, end in times) for moment, _ in times) <= 2


@needs_bubblewrap
async def test_a_withdrawn_program_is_ended() -> None:
    running = asyncio.ensure_future(python("import time; mark = 'withdrawn-5733'; time.sleep(60)"))
    while not any("withdrawn-5733" in line for line in commands()):  # noqa: ASYNC110 - there is nobody who would tell
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0.2)
    assert not any("withdrawn-5733" in line for line in commands())


KILLED = """
import asyncio, sys
from skillopt.process.sandbox import ProcessLimits, Sandbox
code = "import subprocess, time; subprocess.Popen(['sleep', '5737'], start_new_session=True); time.sleep(60)"
asyncio.run(Sandbox(sys.argv[1], limits=ProcessLimits(seconds=50)).run(["python", "-c", code]))
"""


@needs_bubblewrap
@pytest.mark.parametrize("mode", ["bubblewrap", "limits"])
def test_a_program_does_not_outlive_us_however_we_end(mode: str) -> None:
    def becomes(is_alive: bool) -> bool:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if any("sleep 5737" in line for line in commands()) is is_alive:
                return True
            time.sleep(0.02)
        return False

    child = subprocess.Popen([sys.executable, "-c", KILLED, mode])
    try:
        assert becomes(True)
    finally:
        child.kill()
        child.wait()
    assert becomes(False)


@pytest.mark.slow
async def test_limits_only_is_a_choice_of_its_own_and_keeps_its_limits() -> None:
    require("limits", remedy="")
    sandbox = Sandbox("limits", limits=SMALL)
    ran = await python(
        "open('out', 'w').write(open('in').read()); print(sorted(__import__('os').environ))",
        sandbox,
        files={"in": b"x"},
        collect=["out"],
    )
    assert ran.files == {"out": b"x"}
    assert b"HOME" in ran.stdout
    assert b"KEY" not in ran.stdout
    assert (
        await python(HOSTILE["loops for ever"], sandbox, limits=replace(SMALL, seconds=1))
    ).stopped == "time"
    assert (await python(HOSTILE["allocates 4 GB"], sandbox)).code != 0
    assert (await python(HOSTILE["allocates in many processes"], sandbox)).stopped == "memory"
    assert (
        await python(HOSTILE["hands back a link to a file of the machine"], sandbox, collect=["output.xlsx"])
    ).lost == {"output.xlsx": "unreadable"}
    await python(HOSTILE["leaves a process behind"], sandbox)
    assert not [line for line in commands() if "5731" in line]


def test_without_bubblewrap_nothing_runs_unless_the_weaker_mode_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "defpath", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    _place._trouble.cache_clear()
    try:
        assert not is_there()
        with pytest.raises(
            ConfigError,
            match=(
                r"'bwrap' is not installed\. Install .*apt install bubblewrap.*, or set env\.sandbox:"
                r" limits\."
            ),
        ):
            require("bubblewrap", remedy="set env.sandbox: limits")
        require("limits", remedy="")
    finally:
        _place._trouble.cache_clear()


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")
def test_a_bubblewrap_that_is_too_old_or_does_not_work_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    (tmp_path / "setpriv").symlink_to("/bin/sh")  # looked for where root runs the tests, and not started here
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    for text, words in (
        ("echo bubblewrap 0.6.1", "0.6.1 is too old"),
        ("[ $1 = --version ] && echo bubblewrap 0.9.0 || { echo no uid map >&2; exit 1; }", "no uid map"),
    ):
        fake.write_text(f"#!/bin/sh\n{text}\n")
        fake.chmod(0o755)
        _place._trouble.cache_clear()
        try:
            with pytest.raises(ConfigError, match=words):
                require("bubblewrap", remedy="")
        finally:
            _place._trouble.cache_clear()
