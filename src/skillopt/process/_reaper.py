"""Ends what a process left behind: its group and, where /proc tells, everything that carries its mark.

Also a program of its own (`python _reaper.py`), which imports nothing of ours: it is told on stdin of the
children that a trainer starts and ends, and when its stdin closes - because the trainer died, however it did
- it ends those that are left, with the folders they had.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "SKILLOPT_PROCESS"
"""The variable whose value a child and all it starts have in their environment."""
_ROUNDS = 20


def end_tree(pid: int, mark: str | None = None) -> None:
    """Kill the process group `pid` and every process that carries the mark, also one that left the group."""
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, capture_output=True, creationflags=subprocess.CREATE_NO_WINDOW, check=False)
        return
    # macOS says the latter of a group of zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # the session it was started in has its own pid as group id
    if mark is None:
        return
    for _ in range(_ROUNDS):  # what is being killed may fork once more
        found = marked(mark)
        for other in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


def marked(mark: str) -> list[int]:
    """The living processes that carry a mark; none where there is no /proc."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):  # empty for a zombie
                found.append(int(folder.name))
        except OSError:  # gone meanwhile, or somebody else's
            continue
    return found


def main() -> None:
    """Read `+[pid, mark, folder]` and `-[pid, mark, folder]` until stdin closes; then end all that were not
    taken back.
    """
    alive: dict[str, None] = {}
    for line in sys.stdin:
        if line[0] == "+":
            alive[line[1:]] = None
        else:
            alive.pop(line[1:], None)
    for child in alive:
        pid, mark, folder = json.loads(child)
        end_tree(pid, mark)
        if folder is not None:
            _remove(folder)


def _remove(folder: str) -> None:
    """Remove a tree, also the folders in it that are read-only."""
    for above, names, _ in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a link that leads nowhere
                if not os.path.islink(os.path.join(above, name)):  # noqa: PTH114, PTH118 - as os.walk has them
                    os.chmod(os.path.join(above, name), 0o700)  # noqa: PTH101, PTH118
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
