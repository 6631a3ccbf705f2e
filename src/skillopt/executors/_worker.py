"""The program of a worker process: does what stdin says, one thing after another, and ends with it.

Requests and answers are an eight-byte length and a pickle of that length. What the work prints goes to
stderr, so that it is never taken for an answer. Stdin is read by a thread of its own: when the other side is
gone, however it went, the process ends at once, also in the middle of its work.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from skillopt.errors import Fault
from skillopt.executors.port import told

LENGTH = 8


def main() -> None:
    """Serve until stdin closes."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(asked, requests), daemon=True).start()
    kept: dict[int, object] = {}
    while True:
        body = answered(partial(_do, requests.get(), kept))
        answers.write(len(body).to_bytes(LENGTH, "big") + body)
        answers.flush()


def _listen(asked: BinaryIO, requests: queue.Queue[bytes]) -> None:
    while True:
        head = asked.read(LENGTH)
        body = asked.read(int.from_bytes(head, "big"))
        if len(head) < LENGTH or len(body) < int.from_bytes(head, "big"):
            os._exit(0)
        requests.put(body)


def pickled(value: Any, what: str = "work") -> bytes:
    """Work, or its result, as it is sent to another process."""
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Fault("contract", f"this {what} cannot be sent to another process: {error}") from error


def answered(work: Callable[[], Any]) -> bytes:
    """What became of work as it is sent back: `("done", result)` or `("failed", kind, detail)`."""
    try:
        return pickled(("done", work()), "result")
    except Exception as error:  # noqa: BLE001 - work may raise anything, and all of it is told
        return pickle.dumps(("failed", *told(error)))


def result_of(answer: bytes) -> Any:
    """The result that an answer holds, or the fault."""
    kind, *rest = pickle.loads(answer)
    if kind == "failed":
        raise Fault(*rest)
    return rest[0]


def _do(request: bytes, kept: dict[int, object]) -> Any:
    what, *rest = pickle.loads(request)
    if what == "run":
        return rest[0]()
    if what == "open":
        number, make = rest
        kept[number] = make()
        return None
    if what == "close":
        kept.pop(rest[0], None)
        return None
    number, method, arguments = rest
    return getattr(kept[number], method)(*arguments)


if __name__ == "__main__":
    main()
