"""The program of a worker process: does what it is told on stdin, one thing after another, and ends when its
stdin does.

Requests and answers are an eight-byte length and a pickle of that length. What the work prints goes to
stderr, so that it is never taken for an answer. Stdin is read by a thread of its own: when the other side is
gone, however it went, the process ends at once, also in the middle of its work.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
from pathlib import Path
from typing import Any, BinaryIO

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
        body = _answer(requests.get(), kept)
        answers.write(len(body).to_bytes(LENGTH, "big") + body)
        answers.flush()


def _listen(asked: BinaryIO, requests: queue.Queue[bytes]) -> None:
    while True:
        head = asked.read(LENGTH)
        body = asked.read(int.from_bytes(head, "big"))
        if len(head) < LENGTH or len(body) < int.from_bytes(head, "big"):
            os._exit(0)
        requests.put(body)


def _answer(request: bytes, kept: dict[int, object]) -> bytes:
    """`("done", result)` or `("failed", kind, detail)`."""
    try:
        return pickle.dumps(("done", _do(pickle.loads(request), kept)))
    except Exception as error:  # noqa: BLE001 - work may raise anything, and all of it is told
        return pickle.dumps(("failed", *told(error)))


def _do(request: tuple[Any, ...], kept: dict[int, object]) -> Any:
    what, *rest = request
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
