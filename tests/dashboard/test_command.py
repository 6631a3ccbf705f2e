"""`skillopt dashboard` and its door: what they refuse, and in which words."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli._commands import run


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("dashboard", "--port", str(port), "--no-open")
    assert done.code == 2
    assert f"Cannot listen on 127.0.0.1 port {port}" in done.err and "--port 0" in done.err


def test_an_address_that_is_not_ours_is_a_sentence() -> None:
    done = run("dashboard", "--port", "0", "--host", "192.0.2.1", "--no-open")
    assert done.code == 2 and "Cannot listen on 192.0.2.1" in done.err


def test_share_and_a_host_of_its_own_are_refused_together() -> None:
    done = run("dashboard", "--share", "--host", "192.0.2.1", "--no-open")
    assert done.code == 2 and "Keep one of them" in done.err


@pytest.mark.parametrize("where", [["--share"], ["--host", "0.0.0.0"]])
def test_no_other_machine_is_let_in_without_a_token(where: list[str]) -> None:
    done = run("dashboard", *where, "--no-token", "--no-open", "--port", "0")
    assert done.code == 2 and "--no-token is for this machine's own address" in done.err


def test_a_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run("dashboard", "--root", str(tmp_path / "none"), "--no-open")
    assert done.code == 2 and "There is no folder" in done.err


@pytest.mark.slow
def test_the_door_of_the_public_name_takes_the_public_options() -> None:
    command = [sys.executable, "-m", "skillopt_webui.app", "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={"COLUMNS": "200", "NO_COLOR": "1"}
    )
    assert done.returncode == 0
    for option in ("--port", "--host", "--share"):
        assert option in done.stdout
