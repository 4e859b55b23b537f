"""What one process shows of itself: its log, and those who see the records of its turns."""

import os
import socket
import time
from importlib.util import find_spec

from scheduler_service import __version__, how_to_install
from scheduler_service.app.metrics import add_connections, make_metrics
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.tracing import sampling_of
from scheduler_service.http_server.connections import Connections
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings, SettingsError
from scheduler_service.settings.model import Traces as TraceSettings
from scheduler_service.system_jobs.alert_jobs import made_here
from scheduler_service.telemetry.event_feed import EventFeed, EventSource
from scheduler_service.telemetry.event_source import OccurrenceLog, Occurrences
from scheduler_service.telemetry.failure_log import FailureLog, JobLife
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.metrics.execution_metrics import ExecutionMetrics
from scheduler_service.telemetry.metrics.metric_list import Sample, Source
from scheduler_service.telemetry.readiness import HistoryWatch, Standstills
from scheduler_service.telemetry.span_export import Collector, SpanExport, TraceExport, WriteSpans
from scheduler_service.telemetry.turn_observers import RecordObserver, TurnObservers, WrapSender

ENDPOINT = "http://localhost:4318/v1/traces"
SCOPE = "punctual"


class Telemetry:
    """Built first in a service, a worker process and a node, and handed to all that is built later.

    `log` writes to the log that was given and publishes what its lines mean. `observer` sees all records too,
    and `wrap_sender` all calls. Raises SettingsError where traces cannot be exported.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        log: Log,
        observer: RecordObserver | None = None,
        wrap_sender: WrapSender = lambda sender: sender,
    ) -> None:
        self.wrap_sender = wrap_sender
        self._clock: Clock | None = None
        self._settings = settings
        self._feed: EventFeed | None = None
        self.occurrences = Occurrences()
        self.standstills = Standstills()
        self.log: Log = OccurrenceLog(log=log, publish=self.occurrences.publish, wall=self._now)
        self.history_watch = HistoryWatch(self.log)
        self._traces = open_traces(settings, log=self.log)
        self._failed = Tally("observer_failed", log=log)
        self.observe_job = JobLife(occurrences=self.occurrences, wall=self._now).observe
        self.metrics = make_metrics(settings)
        if self._traces is not None:
            self.show("traces", self._traces.samples)
        self.observe_call = None if self.metrics is None else self.metrics.calls.count
        self.observers = self._make_observers(settings)
        if observer is not None:
            self.observers.add(observer)

    def follow(self, clock: Clock) -> None:
        """Takes its times from the clock of the host, which is known once the store is open."""
        self._clock = clock

    def feed_events(self, source: EventSource) -> EventFeed:
        """The event stream of this process, from `source`: made once, where there is an API."""
        self._feed = EventFeed(
            source=source, most_readers=self._settings.limits.event_readers, hidden=made_here(self._settings)
        )
        return self._feed

    async def end_events(self) -> None:
        """Ends the event stream: an open one would hold up the end of the API."""
        if self._feed is not None:
            await self._feed.close()

    def close(self) -> None:
        """Exports spans and writes the lines that wait for more of their kind; the last of a process."""
        if self._traces is not None:
            self._traces.close()
        self._failed.flush()
        if self.metrics is not None:
            self.metrics.gathering.close()

    async def collect(self) -> list[Sample]:
        """The figures of this process, within a second or so; none where metrics are off."""
        return [] if self.metrics is None else await self.metrics.gathering.collect()

    def note_lag(self, seconds: float) -> None:
        """A beat of the event loop was late by so much."""
        if self.metrics is not None:
            self.metrics.loop_lag.observe(seconds)

    def show(self, name: str, source: Source) -> None:
        """Shows figures of a part in the metrics."""
        if self.metrics is not None:
            self.metrics.gathering.read(name, source)

    def show_connections(self, listener: str, connections: Connections) -> None:
        """Shows the connections of a listener in the metrics."""
        if self.metrics is not None:
            add_connections(self.metrics.gathering, listener, connections)

    def _make_observers(self, settings: Settings) -> TurnObservers:
        executions = ExecutionMetrics() if self.metrics is None else self.metrics.executions
        troubles = FailureLog(log=self.log, tries=settings.notification.retries + 1)
        observers = TurnObservers(count=executions.count, troubles=troubles, failed=self._failed)
        if self._traces is not None:
            observers.add(self._traces.observe)
        occurrences = self.occurrences

        def follow(are_wanted: bool) -> None:
            (observers.add if are_wanted else observers.remove)(occurrences.observe)

        occurrences.follow_interest(follow)
        return observers

    def _now(self) -> int:
        return round(time.time() * SECOND) if self._clock is None else self._clock.now().wall


def open_traces(settings: Settings, *, log: Log) -> TraceExport | None:
    """The export of this process, None where it is off. Raises SettingsError where the extra is missing."""
    traces = settings.traces
    if not traces.is_on:
        return None
    if not is_installed():
        raise SettingsError(
            f"traces need the extra otel; {how_to_install('service', 'otel')}, "
            "or switch them off by OTEL_TRACES_EXPORTER=none"
        )
    return TraceExport(
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
