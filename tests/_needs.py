"""What tests need of the machine beside Python: every condition on a program of it, and the reason that a skip gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skillopt.process.sandbox import is_there

BUBBLEWRAP = "bubblewrap is not installed or does not work here (apt install bubblewrap)"
NO_CHROMIUM = "no Chromium is installed (apt install chromium)"
NO_NPM = "npm and node are not installed (apt install npm)"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def needs_program(name: str, package: str) -> pytest.MarkDecorator:
    """Skip where the PATH does not have a program."""
    return pytest.mark.skipif(shutil.which(name) is None, reason=missing(name, package))


def missing(name: str, package: str) -> str:
    return f"{name} is not installed (apt install {package})"


def require_git() -> None:
    """Skip, from inside a fixture, where there is no git."""
    if shutil.which("git") is None:
        pytest.skip(missing("git", "git"))


needs_bubblewrap = pytest.mark.skipif(not is_there(), reason=BUBBLEWRAP)
needs_system_python = pytest.mark.skipif(
    not Path("/usr/bin/python3").exists(), reason="there is no /usr/bin/python3, which the sandbox shows"
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
needs_git = needs_program("git", "git")
