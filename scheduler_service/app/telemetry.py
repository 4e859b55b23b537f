"""What one process shows of itself: its log, and those who see the records of its turns."""

import time

import msgspec

from scheduler_service.app.alert_jobs import made_here
from scheduler_service.app.connections import Connections
from scheduler_service.app.metrics import add_connections, make_metrics
from scheduler_service.app.traces import open_traces
from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings
from scheduler_service.telemetry.bad_endings import BadEndings
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.event_source import EventSource
from scheduler_service.telemetry.history_watch import HistoryWatch
from scheduler_service.telemetry.job_life import JobLife
from scheduler_service.telemetry.log_occurrences import OccurrenceLog
from scheduler_service.telemetry.metrics.executions import ExecutionMetrics
from scheduler_service.telemetry.metrics.samples import Sample, Source
from scheduler_service.telemetry.observation import TurnObservers, observed
from scheduler_service.telemetry.occurrences import Occurrences
from scheduler_service.telemetry.standstills import Standstills
from scheduler_service.telemetry.tally import Tally


class Telemetry:
    """Built first in a service, a worker process and a node, and handed to all that is built later.

    `log` writes to the log that was given and publishes what its lines mean; `decorators` are those that were
    given, with the observers of `settings` in front. Raises SettingsError where traces cannot be exported.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        log: Log,
        decorators: PortDecorators = NO_DECORATORS,
    ) -> None:
        self._clock: Clock | None = None
        self._settings = settings
        self._feed: EventFeed | None = None
        self.occurrences = Occurrences()
        self.standstills = Standstills()
        self.history_watch = HistoryWatch()
        self.log: Log = OccurrenceLog(log=log, publish=self.occurrences.publish, wall=self._now)
        self._traces = open_traces(settings, log=self.log)
        self._failed = Tally("observer_failed", log=log)
        life = JobLife(occurrences=self.occurrences, wall=self._now)
        self.metrics = make_metrics(settings)
        if self._traces is not None:
            self.show("traces", self._traces.samples)
        self.decorators = msgspec.structs.replace(
            observed(decorators, self._make_observers(settings)),
            observe_job=life.observe,
            observe_call=None if self.metrics is None else self.metrics.calls.count,
        )

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
        troubles = BadEndings(log=self.log, tries=settings.notification.retries + 1)
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
