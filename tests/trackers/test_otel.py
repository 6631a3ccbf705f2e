"""OpenTelemetry: a collector on loopback receives the spans, and the run does not need one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from skillopt.events import Called
from trackers._runs import STEPS, trained, warnings


class Collector:
    """Takes OTLP over HTTP, or refuses it."""

    def __init__(self, status: int = 200) -> None:
        self.spans: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                if status == 200:
                    request = ExportTraceServiceRequest.FromString(body)
                    collector.spans += [
                        s
                        for resource in request.resource_spans
                        for scope in resource.scope_spans
                        for s in scope.spans
                    ]
                self.send_response(status)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def collector() -> Iterator[Collector]:
    one = Collector()
    yield one
    one.server.shutdown()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@pytest.mark.slow
async def test_a_collector_receives_a_span_for_every_call_inside_its_step(
    tmp_path: Path, collector: Collector
) -> None:
    events = await trained(tmp_path / "run", "tracking.use=otel", f"tracking.otel_endpoint={collector.url}")
    assert warnings(events) == []
    calls = [event for event in events if isinstance(event, Called)]
    chats = [span for span in collector.spans if span.name.startswith("chat ")]
    assert len(chats) == len(calls) > 50
    assert sorted(attributes(span)["skillopt.events.place"] for span in chats) == sorted(
        call.place for call in calls
    )
    assert sum(attributes(span)["gen_ai.usage.input_tokens"] for span in chats) == sum(
        call.input_tokens or 0 for call in calls
    )
    steps = {span.span_id: span.name for span in collector.spans if not span.name.startswith("chat ")}
    assert {f"step {number}" for number in range(1, STEPS + 1)} <= set(steps.values())
    assert {span.parent_span_id for span in chats} <= set(steps)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)
    assert {attributes(span)["gen_ai.operation.name"] for span in chats} == {"chat"}


async def test_calls_are_told_only_where_a_tracker_wants_them(tmp_path: Path) -> None:
    events = await trained(tmp_path / "run", "tracking.use=tensorboard")
    assert not [event for event in events if isinstance(event, Called)]
