"""Builds the export of traces from settings (SPEC section 14); nothing of it is imported while it is off."""

import os
import socket
from importlib.util import find_spec

from scheduler_service import __version__, how_to_install
from scheduler_service.domain.tracing import sampling_of
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError
from scheduler_service.settings.traces import Traces as TraceSettings
from scheduler_service.telemetry.span_export import Collector, SpanExport, WriteSpans
from scheduler_service.telemetry.traces import Traces

ENDPOINT = "http://localhost:4318/v1/traces"
SCOPE = "punctual"


def open_traces(settings: Settings, *, log: Log) -> Traces | None:
    """The export of this process, None where it is off. Raises SettingsError where the extra is missing."""
    traces = settings.traces
    if not traces.is_on:
        return None
    if not is_installed():
        raise SettingsError(
            f"traces need the extra otel; {how_to_install('service', 'otel')}, "
            "or switch them off by OTEL_TRACES_EXPORTER=none"
        )
    return Traces(
        sampling=sampling_of(traces.sampler, traces.sampler_ratio),
        export=SpanExport(
            collector=_collector(traces),
            make_writer=lambda: _make_writer(traces),
            log=log,
            queue_size=traces.queue_size,
            batch_size=traces.batch_size,
            delay=traces.delay_seconds,
        ),
    )


def is_installed() -> bool:
    """Whether the messages of OTLP are."""
    try:
        return find_spec("opentelemetry.proto") is not None
    except ModuleNotFoundError:
        return False


def _collector(traces: TraceSettings) -> Collector:
    return Collector(
        endpoint=traces.endpoint or ENDPOINT,
        headers=traces.headers,
        timeout=traces.timeout_seconds,
        gzipped=traces.compression == "gzip",
        certificate=traces.certificate,
        client_certificate=traces.client_certificate,
        client_key=traces.client_key,
    )


def _make_writer(traces: TraceSettings) -> WriteSpans:
    from scheduler_service.telemetry.otlp import SpanWriter  # takes long, and belongs to an extra

    resource: dict[str, str | int] = {
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
        **traces.resource,
        "service.name": traces.service_name,
        "service.version": __version__,
    }
    return SpanWriter(resource=resource, scope=(SCOPE, __version__)).write
