"""Real agent CLIs and other packages from npm, installed once into a cache folder of this machine's user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from _needs import NO_NPM

SECONDS = 100


def cli(package: str, version: str, binary: str, *, env: Mapping[str, str] | None = None) -> Path:
    """The path of a package's program, as `installed` finds it."""
    return installed(package, version, f".bin/{binary}.cmd" if os.name == "nt" else f".bin/{binary}", env=env)


def installed(package: str, version: str, file: str, *, env: Mapping[str, str] | None = None) -> Path:
    """A file below `node_modules`, installed where it is missing; skips with the reason where it cannot be
    had.

    `env` is the environment npm runs in (the fixture `machine_env`): tests have a home of their own, npm
    needs its user's.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip(NO_NPM)
    environment = dict(os.environ if env is None else env)
    home = cache_folder(environment, "npm") / f"{package.replace('/', '_')}-{version}"
    program = home / "node_modules" / file
    if not program.exists():
        with home.with_name(f"{home.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # tests in other processes wait for the first one's installation
            if not program.exists():
                _install(npm, f"{package}@{version}", home, environment)
    return program


def cache_folder(env: Mapping[str, str], kind: str) -> Path:
    """Where the packages of one kind are kept."""
    given = env.get("XDG_CACHE_HOME") or (
        Path(env["HOME"]) / ".cache" if env.get("HOME") else tempfile.gettempdir()
    )
    folder = Path(given) / "skillopt-tests" / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _install(npm: str, wanted: str, home: Path, env: Mapping[str, str]) -> None:
    """Install beside the place and move it there whole: two test runs at once do not see half a package."""
    aside = Path(tempfile.mkdtemp(dir=home.parent))
    try:
        command = [
            npm,
            "install",
            "--prefix",
            str(aside),
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            wanted,
        ]
        try:
            ran = subprocess.run(
                command, env=dict(env), capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm could not install {wanted} within {SECONDS} s")
        if ran.returncode != 0:
            pytest.skip(f"npm could not install {wanted}: {ran.stderr.strip()[-300:]}")
        with contextlib.suppress(OSError):  # somebody else was quicker
            aside.rename(home)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
