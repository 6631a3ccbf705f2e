"""Work that tests send to executors; it stands in a module, as work must."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from skillopt.errors import Fault


class Counter:
    """Something with a state."""

    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, number: int, pause: float = 0.0) -> int:
        before = self.value
        time.sleep(pause)
        self.value = before + number
        return self.value

    def pid(self) -> int:
        return os.getpid()

    def die(self) -> None:
        print("the last words", file=sys.stderr, flush=True)
        os._exit(7)

    def break_down(self) -> None:
        raise ValueError("it broke")

    def fault(self) -> None:
        raise Fault("contract", "not like this")

    def unpicklable(self) -> Any:
        return lambda: None


def double(number: int) -> int:
    return 2 * number


def chatty(number: int) -> int:
    """Prints on every channel it can find; none of it may be taken for an answer."""
    print("noise")
    sys.stdout.flush()
    os.write(1, b"more noise\n")
    sys.stdin.read()
    subprocess.run(["echo", "noise of a child"], check=True)
    return number


def environment() -> dict[str, str]:
    return dict(os.environ)


def write_pid_and_sleep(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def pid() -> int:
    return os.getpid()


def argv_of(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text()
