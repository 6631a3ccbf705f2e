"""The test suite cannot leave the machine, and sees nothing of the person who runs it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ELSEWHERE = "192.0.2.1"  # RFC 5737: belongs to nobody
LEAKY = {
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "AZURE_OPENAI_ENDPOINT",
    "SOME_VENDOR_API_KEY",
    "https_proxy",
    "SKILLOPT_CACHE",
    "XDG_CONFIG_HOME",
}


def test_no_address_but_loopback_can_be_reached() -> None:
    with socket.socket() as sock:
        with pytest.raises(BaseException, match="only loopback is open"):
            sock.connect((ELSEWHERE, 80))
        with pytest.raises(BaseException, match="only loopback is open"):
            sock.connect_ex((ELSEWHERE, 80))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        pytest.raises(BaseException, match="only loopback is open"),
    ):
        sock.sendto(b"x", (ELSEWHERE, 53))


async def test_no_name_but_a_local_one_is_looked_up() -> None:
    with pytest.raises(BaseException, match="only loopback is open"):
        await asyncio.open_connection("example.com", 80)
    assert socket.getaddrinfo("localhost", 80)


def test_a_name_that_can_never_resolve_fails_as_dns_does() -> None:
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("provider.invalid", 443)


async def test_loopback_works_as_ever() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()


def test_no_credential_reaches_a_test() -> None:
    assert not LEAKY & set(os.environ)


@pytest.mark.slow
def test_credentials_of_the_person_who_runs_the_tests_are_removed() -> None:
    selected = f"{__file__}::test_no_credential_reaches_a_test"
    leaking = {**os.environ, **dict.fromkeys(LEAKY, "http://127.0.0.1:9")}
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", selected],
        env=leaking,
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0 and "1 passed" in child.stdout, child.stdout


def test_the_home_folder_is_a_temporary_one(machine_env: Mapping[str, str]) -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import pathlib; print(pathlib.Path.home())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(child.stdout.strip()) == Path.home() != Path(machine_env.get("HOME", "/"))
