"""A provider that writes down what it is sent and says one word: just enough of two streaming wires for an
agent to finish a turn.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def recording() -> Iterator[tuple[str, list[str]]]:
    """Its address on this machine, and the bodies of the requests it got."""
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(200, b"")

        def do_GET(self) -> None:
            self._answer(404, b"{}")

        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])).decode())
            events = _MESSAGES if "/messages" in self.path else _RESPONSES
            stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._answer(200, stream.encode(), "text/event-stream")

        def _answer(self, status: int, data: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_USAGE = {"input_tokens": 1, "output_tokens": 1}
_STARTED = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "usage": _USAGE,
}
_MESSAGES: list[dict[str, Any]] = [
    {"type": "message_start", "message": _STARTED},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 1},
    },
    {"type": "message_stop"},
]
_ITEM = {
    "type": "message",
    "id": "i",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "done"}],
}
_RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "r"}},
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
    {
        "type": "response.completed",
        "response": {"id": "r", "output": [_ITEM], "usage": {**_USAGE, "total_tokens": 2}},
    },
]
