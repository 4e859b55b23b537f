"""Spans as an OTLP request in protobuf; imported only where traces are exported (extra `otel`)."""

from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WrittenSpan

from scheduler_service.telemetry.spans import Span

NANOSECONDS = 1_000_000
_ERROR = Status(code=Status.STATUS_CODE_ERROR)


class SpanWriter:
    """Writes requests; `resource` describes this process, `scope` is the name and version of the program."""

    def __init__(self, *, resource: Mapping[str, str | int], scope: tuple[str, str]) -> None:
        self._resource = Resource(attributes=[_pair(name, value) for name, value in resource.items()])
        self._scope = InstrumentationScope(name=scope[0], version=scope[1])

    def write(self, spans: Sequence[Span]) -> bytes:
        """The body of one request to a collector."""
        scoped = ScopeSpans(scope=self._scope, spans=[_write(span) for span in spans])
        found = ResourceSpans(resource=self._resource, scope_spans=[scoped])
        body: bytes = ExportTraceServiceRequest(resource_spans=[found]).SerializeToString()
        return body


def _write(span: Span) -> WrittenSpan:
    return WrittenSpan(
        trace_id=bytes.fromhex(span.trace),
        span_id=bytes.fromhex(span.span),
        parent_span_id=bytes.fromhex(span.parent),
        name=span.name,
        kind=span.kind,  # type: ignore[arg-type]
        start_time_unix_nano=span.start * NANOSECONDS,
        end_time_unix_nano=span.end * NANOSECONDS,
        attributes=[_pair(name, value) for name, value in span.attributes],
        links=[
            WrittenSpan.Link(trace_id=bytes.fromhex(trace), span_id=bytes.fromhex(one))
            for trace, one in span.links
        ],
        status=None if span.error is None else _ERROR,
    )


def _pair(name: str, value: str | int) -> KeyValue:
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    return KeyValue(key=name, value=AnyValue(string_value=value.encode("utf-8", "replace").decode()))
