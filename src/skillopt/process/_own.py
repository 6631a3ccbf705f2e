"""Programs that are started apart: our own by this interpreter, and those that outlive us.

`python -m` looks for modules in the working directory before anywhere else. That is somebody's project: a
file `typer.py` in it would run in place of the library. `-P` forbids it, but only from Python 3.11 on.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt.errors import UsageError

_START = (
    "import sys; sys.path[:] = [path for path in sys.path if path]; sys.argv[0] = {name!r}; from {module}"
    " import main; main()"
)


def own_program(module: str = "skillopt.cli", *, name: str = "skillopt") -> list[str]:
    """The words that start `main` of a module of ours; its arguments follow them."""
    return [sys.executable, "-c", _START.format(module=module, name=name)]


def start_detached(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, output: Path
) -> subprocess.Popen[bytes]:
    """Start a program that outlives us and return at once: it has a session of its own, and no signal meant
    for us reaches it. Both its streams are appended to `output`, which only the user can
    read.

    Raises `UsageError` when it cannot be started. The handle tells how it ended, should we live to see it.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        output.touch(mode=0o600)
        with output.open("ab") as file:
            return subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=_alone(),
            )
    except OSError as error:
        raise UsageError(f"{argv[0]} could not be started in {cwd}: {error.strerror or error}.") from error


def _alone() -> int:
    """What `start_new_session` is on Windows, where it does nothing."""
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS
    return 0
