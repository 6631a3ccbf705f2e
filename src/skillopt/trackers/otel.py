"""OpenTelemetry: a trace of each session, with a span for every step and, below it, one for every call to a
model.

Spans of calls use the GenAI semantic conventions (`gen_ai.*`), which any viewer of traces knows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from skillopt.events import Called, Checkpoint, Event, Judged
from skillopt.trackers.port import Opening, TrackerPlugin, TrackerSettings

_AT_ONCE = 256
_TIMEOUT_SECONDS = 10


class OpenTelemetrySettings(TrackerSettings):
    """The keys below `tracking.otel`."""

    endpoint: str | None = None
    """OTLP collector over HTTP; unset leaves it to OpenTelemetry's own variables."""


class OpenTelemetry:
    """Sends spans by OTLP over HTTP to `tracking.otel.endpoint`, or where OpenTelemetry's variables say."""

    reference = None

    def __init__(self, opening: Opening) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        given = opening.own.endpoint
        endpoint = None if given is None else given.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"
        self._exporter: Any = OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_SECONDS)
        # No processor: theirs go on when nothing can be sent, and a person would never learn of it.
        provider = TracerProvider(resource=Resource.create({"service.name": opening.project}))
        self._tracer: Any = provider.get_tracer("skillopt")
        self._ended: list[Any] = []
        self._attributes = {"skillopt.run": opening.name, "skillopt.identity": opening.identity}
        self._session: Any = None
        self._step: Any = None
        self._last = 0

    def tell(self, event: Event) -> None:
        now = int(datetime.fromisoformat(event.time).timestamp() * 1e9)
        if self._session is None:
            start = self._tracer.start_span
            self._session = start("skillopt session", start_time=now, attributes=self._attributes)
        self._last = max(self._last, now)
        if isinstance(event, Called):
            self._called(event, now)
        elif isinstance(event, Judged):
            told = {"place": event.place, "action": event.action, "why": event.why}
            self._open_step(now).add_event("verdict", told, timestamp=now)
        elif isinstance(event, Checkpoint):
            span = self._open_step(now)
            span.update_name(event.kind if event.kind != "step" else f"step {event.state.step}")
            for name in ("action", "rollout_hard", "candidate_gate_score", "best_score"):
                if (value := getattr(event.record, name, None)) is not None:
                    span.set_attribute(f"skillopt.{name}", value)
            self._end(span, now)
            self._step = None
            self._send()
        elif event.id is not None:
            self._open_step(now)
        if len(self._ended) >= _AT_ONCE:
            self._send()

    def close(self) -> None:
        if self._step is not None:  # left open by a stop; the next session has a span of its own for it
            self._end(self._step, self._last)
        if self._session is not None:
            self._end(self._session, self._last)
        self._send()
        self._exporter.shutdown()

    def _called(self, call: Called, now: int) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        figures = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": call.provider,
            "gen_ai.request.model": call.model,
            "gen_ai.usage.input_tokens": call.input_tokens,
            "gen_ai.usage.output_tokens": call.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
            "skillopt.role": call.role,
            "skillopt.stage": call.stage,
            "skillopt.events.place": call.place,
            "skillopt.outcome": call.outcome,
            "skillopt.usd": call.usd,
        }
        began = now - int(call.seconds * 1e9)
        span = self._tracer.start_span(
            f"chat {call.model}",
            context=_inside(self._open_step(began)),
            kind=SpanKind.CLIENT,
            start_time=began,
            attributes={name: value for name, value in figures.items() if value is not None},
        )
        if call.outcome != "settled":
            span.set_status(Status(StatusCode.ERROR, call.outcome))
        self._end(span, now)

    def _open_step(self, now: int) -> Any:
        if self._step is None:
            inside = _inside(self._session)
            self._step = self._tracer.start_span("skillopt step", context=inside, start_time=now)
        return self._step

    def _end(self, span: Any, now: int) -> None:
        span.end(end_time=now)
        self._ended.append(span)

    def _send(self) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans, self._ended = self._ended, []
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise ConnectionError(f"the collector did not take {len(spans)} spans")


def _inside(span: Any) -> Any:
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(span)


PLUGIN = TrackerPlugin(
    open=OpenTelemetry,
    Settings=OpenTelemetrySettings,
    module="opentelemetry.exporter.otlp.proto.http.trace_exporter",
    extra="otel",
    wants_calls=True,
)
