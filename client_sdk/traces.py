"""The context of a trace (W3C `traceparent`): joined during a call, and passed on with what it sends."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TRACEPARENT = "traceparent"
_RECEIVED: ContextVar[str] = ContextVar("client_sdk_traceparent", default="")
_VERSION = "00"


@contextmanager
def joined(traceparent: str) -> Iterator[None]:
    """Inside, `traceparent` is the current context; empty: nothing changes.

    Where the application uses OpenTelemetry, spans that it begins inside are below that of the caller.
    """
    if not traceparent:
        yield
        return
    token = _RECEIVED.set(traceparent)
    try:
        with _joined_there(traceparent):
            yield
    finally:
        _RECEIVED.reset(token)


def current_traceparent() -> str:
    """The header for what is sent now: of the current span of OpenTelemetry, else of `joined`; or empty."""
    if _is_used():
        from opentelemetry import trace

        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            return f"{_VERSION}-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags) & 0xFF:02x}"
    return _RECEIVED.get()


def _is_used() -> bool:
    """Whether the application has loaded OpenTelemetry; the SDK itself never does."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def _joined_there(traceparent: str) -> Iterator[None]:
    parts = traceparent.split("-")
    if not _is_used() or [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        yield
        return
    from opentelemetry import context, trace

    try:
        trace_id, span_id, flags = (int(part, 16) for part in parts[1:4])
    except ValueError:
        yield
        return
    remote = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(remote)))
    try:
        yield
    finally:
        context.detach(token)
