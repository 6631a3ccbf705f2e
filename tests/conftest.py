"""What every test can rely on: no network but loopback, no credentials, a home folder of its own.

Each run ends with the CPU seconds of its tests, and names those that should be marked `slow`.
"""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import resource
import signal
import socket
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Proxies go too: with one set, a call to loopback would leave the machine. SKILLOPT_TEST_* says where test
# data lies.
SCRUBBED = re.compile(
    r"(OPENAI|ANTHROPIC|AZURE|XDG|SKILLOPT(?!_TEST))_.*|.*_API_KEY|(HTTPS?|ALL)_PROXY", re.IGNORECASE
)
MACHINE_ENV = MappingProxyType(dict(os.environ))

# A shell that starts us in the background has Ctrl-C ignored, which every process of a test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# At import, so that modules read during collection already see the clean environment.
for _name in filter(SCRUBBED.fullmatch, list(os.environ)):
    del os.environ[_name]


class NetworkBlocked(BaseException):
    """A test reached for the network. A BaseException, because SDKs turn every Exception into a connection
    error and retry it.
    """


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_power_cut() -> Iterator[None]:
    """Tests kill processes and never the machine: waiting for the disk would show nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_Unsynced))
        yield


class _Unsynced(sqlite3.Connection):
    """A run's database that never waits for the disk, from its first statement on."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous=OFF"
        elif sql == "PRAGMA journal_mode=WAL":
            super().execute("PRAGMA synchronous=OFF")
        return super().execute(sql, *parameters)


@pytest.fixture(scope="session", autouse=True)
def _strict_apis() -> Iterator[None]:
    """Simulated providers refuse what the vendors' published schemas do not allow, in every test."""
    from _api import strict
    from _loopback import LoopbackProvider

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopbackProvider, "default_check", staticmethod(strict()))
        yield


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    connect, connect_ex, sendto, getaddrinfo = (
        socket.socket.connect,
        socket.socket.connect_ex,
        socket.socket.sendto,
        socket.getaddrinfo,
    )

    def guard(sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
            raise NetworkBlocked(f"a test tried to reach {address[0]}; only loopback is open in tests")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        guard(self, address)
        return connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        guard(self, address)
        return connect_ex(self, address)

    def guarded_sendto(self: socket.socket, data: bytes, *flags_and_address: Any) -> int:
        guard(self, flags_and_address[-1])
        return sendto(self, data, *flags_and_address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        # RFC 6761: never resolves, so tests use it for DNS failures
        if isinstance(name, str) and name.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if not _is_local(name):
            raise NetworkBlocked(f"a test tried to look up {name}; only loopback is open in tests")
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket.socket, "sendto", guarded_sendto)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


def _is_local(host: str | None) -> bool:
    if not host or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(scope="session")
def machine_env() -> Mapping[str, str]:
    """The environment the tests were started in, for tools such as pip that need the real home and proxies;
    never for our own code.
    """
    return MACHINE_ENV


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of public benchmark data; tests that need it are skipped without it."""
    return _folder("SKILLOPT_TEST_DATA", "benchmark data")


@pytest.fixture(scope="session")
def test_models() -> Path:
    """The folder of small models for the CPU; tests that need it are skipped without it."""
    return _folder("SKILLOPT_TEST_MODELS", "models")


def _folder(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: it names the folder of {what}")
    folder = Path(value)
    if not folder.is_dir():
        pytest.fail(f"{variable}={value} is not a folder")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays to the end: no sweep for garbage looks at it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes begins first, so that no worker is left alone with it in the end."""
    if config.getoption("dist", "no") == "loadgroup":
        items.sort(key=lambda item: "real/" not in item.nodeid and not item.get_closest_marker("timeout"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file with a group, or with something made once for all its tests, is run by one worker, the largest
    first. xdist 3.8 loses its groups with pytest 9.2.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class FileOrTest(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            text = (config.rootpath / file).read_text(encoding="utf-8")
            return file if "xdist_group(" in text or 'scope="module"' in text else nodeid

    return FileOrTest(config, log)


SLOW_SECONDS = 2.0
"""A test that needs this much CPU, its children's included, should be marked `slow`; those marked need about
half of it, which a busy machine and first imports can double.
"""

_STARTED = pytest.StashKey[float]()


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_STARTED] = _cpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "teardown":  # user_properties travel from an xdist worker with the report
        item.user_properties.append(("cpu", _cpu() - item.stash[_STARTED]))
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for group in terminalreporter.stats.values()
        for report in group
        if isinstance(report, pytest.TestReport)
    ]
    seconds = {
        report.nodeid: value
        for report in reports
        for name, value in report.user_properties
        if name == "cpu" and report.when == "teardown"
    }
    marked = {report.nodeid for report in reports if {"slow", "real", "model"} & set(report.keywords)}
    terminalreporter.write_line(f"CPU: {sum(seconds.values()):.0f} s in {len(seconds)} tests")
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True):
        if seconds[name] > SLOW_SECONDS and name not in marked:
            terminalreporter.write_line(f"  {seconds[name]:.1f} s and not marked slow: {name}")
