"""Every metric that is exported, and its figures as they are counted and travel (docs/metrics.md)."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from scheduler_service.domain.moments import SECOND


class MetricKind(StrEnum):
    """The types of Prometheus that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """A metric. A counter's name stands here with `_total`; `labels` are those beside `process`.

    `bounds` are those of the buckets of a histogram, in the unit of the metric.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


_LATENESS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
_DURATION = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800)
_CALLS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_COMMITS = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_LAG = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)
_ANSWERS = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

_COUNTER, _GAUGE, _HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

# Executions and firings.
FIRING_LATENESS = Family(
    "punctual_firing_lateness_seconds", _HISTOGRAM,
    "How long after its planned moment an execution of a timer began.", bounds=_LATENESS,
)  # fmt: skip
FIRINGS = Family(
    "punctual_firings_total", _COUNTER,
    "Planned firings by what became of them: fired, late, skipped.", ("outcome",),
)  # fmt: skip
TENANT_LIMITS = Family(
    "punctual_tenant_limits_reached_total", _COUNTER,
    "What was refused or had to wait by a limit of its tenant.", ("limit",),
)  # fmt: skip
EXECUTIONS = Family(
    "punctual_executions_total", _COUNTER,
    "Executions that have ended, by their last state and the type of the failure (none: there was none).",
    ("outcome", "error"),
)  # fmt: skip
EXECUTION_DURATION = Family(
    "punctual_execution_duration_seconds", _HISTOGRAM,
    "From the beginning of an execution to its end, retries included.", bounds=_DURATION,
)  # fmt: skip
ATTEMPTS = Family(
    "punctual_attempts_total", _COUNTER, "Attempts of the executions that have ended."
)  # fmt: skip
ATTEMPT_FAILURES = Family(
    "punctual_attempt_failures_total", _COUNTER,
    "Attempts that have failed, by the type of the failure; not those of jobs whose history has no detail.",
    ("error",),
)  # fmt: skip
TURNS = Family("punctual_turns_total", _COUNTER, "Turns of jobs that had something for the history.")
JOB_EXECUTIONS = Family(
    "punctual_job_executions_total", _COUNTER,
    "Executions that have ended, of the jobs that metrics.jobs names.", ("job_id", "outcome"),
)  # fmt: skip
JOB_LATENESS = Family(
    "punctual_job_firing_lateness_seconds", _HISTOGRAM,
    "How late executions of a timer began, of the jobs that metrics.jobs names.", ("job_id",), _LATENESS,
)  # fmt: skip
JOB_LAST_SUCCESS = Family(
    "punctual_job_last_success_timestamp_seconds", _GAUGE,
    "When an execution last succeeded since the start, of the jobs that metrics.jobs names.", ("job_id",),
)  # fmt: skip

# Calls to targets, and deliveries of notifications.
CALLS = Family(
    "punctual_calls_total", _COUNTER,
    "Requests that went out, by the class of the status (2xx) or by why no answer came.", ("outcome",),
)  # fmt: skip
CALL_DURATION = Family(
    "punctual_call_duration_seconds", _HISTOGRAM,
    "From a request to its answer, or to its failure.", bounds=_CALLS,
)  # fmt: skip
CALLS_IN_FLIGHT = Family(
    "punctual_calls_in_flight", _GAUGE, "Calls of executions whose outcome the job does not have yet."
)
CALL_CONNECTIONS = Family(
    "punctual_call_connections", _GAUGE,
    "Connections to targets: busy, idle, or being opened.", ("state",),
)  # fmt: skip
CALLS_WAITING = Family("punctual_calls_waiting", _GAUGE, "Calls that wait for a connection.")
CALL_DESCRIPTORS = Family(
    "punctual_call_descriptors_limit", _GAUGE, "How many connections to targets there may be."
)
RESPONSE_BYTES = Family(
    "punctual_response_bytes", _GAUGE,
    "What responses of more than 64 KiB take that are being read, or that their jobs have not taken yet.",
)  # fmt: skip
RESPONSES_WAITING = Family(
    "punctual_responses_waiting", _GAUGE, "Responses of more than 64 KiB that wait to be read."
)
DELIVERIES = Family(
    "punctual_deliveries_total", _COUNTER,
    "Tries of notifications by what followed: delivered, retried, failed, outbox; superseded and dismissed.",
    ("outcome",),
)  # fmt: skip
NOTIFICATIONS_PENDING = Family(
    "punctual_notifications_pending", _GAUGE, "Notifications that wait for a try or are being sent."
)
OUTBOX = Family(
    "punctual_outbox_deliveries", _GAUGE,
    "Notifications that were given up and lie in the outbox; at most 10,000, or 80 MiB of them, are counted.",
)  # fmt: skip
OUTBOX_AGE = Family(
    "punctual_outbox_oldest_seconds", _GAUGE, "The age of the oldest notification in the outbox."
)

# Jobs.
JOBS = Family("punctual_jobs", _GAUGE, "Jobs by their state.", ("state",))
FIRINGS_DUE = Family("punctual_firings_due", _GAUGE, "Jobs whose planned firing is due and has not begun.")
EXECUTIONS_WAITING = Family("punctual_executions_waiting", _GAUGE, "Executions that wait for capacity.")
EXECUTIONS_RUNNING = Family(
    "punctual_executions_running", _GAUGE, "Executions that run, or wait for a retry."
)
JOBS_HELD = Family("punctual_jobs_held", _GAUGE, "Jobs in memory.")
JOBS_RUNNING = Family(
    "punctual_jobs_running", _GAUGE, "Jobs in memory whose executions run or wait for a retry."
)
OPEN_BYTES = Family(
    "punctual_open_bytes", _GAUGE, "Bytes that open executions keep in memory, of jobs that keep much."
)
QUEUE_DEPTH = Family("punctual_queue_depth", _GAUGE, "Parts that wait to be claimed.", ("queue",))
QUEUE_OLDEST = Family(
    "punctual_queue_oldest_seconds", _GAUGE, "How long the oldest waiting part has waited.", ("queue",)
)
QUEUE_LEASED = Family("punctual_queue_leased", _GAUGE, "Parts that are leased.", ("queue",))
QUEUE_PAUSED = Family(
    "punctual_queue_paused_seconds", _GAUGE, "How long a queue that is paused has been so.", ("queue",)
)

# Stores and history.
COMMIT_SIZE = Family(
    "punctual_commit_size", _HISTOGRAM, "Writes of one transaction of the state.", bounds=_SIZES
)
COMMIT_DURATION = Family(
    "punctual_commit_duration_seconds", _HISTOGRAM,
    "How long one transaction of the state took.", bounds=_COMMITS,
)  # fmt: skip
STORE_UP = Family("punctual_store_up", _GAUGE, "Whether the latest use of a store succeeded.", ("store",))
STORE_ERRORS = Family(
    "punctual_store_errors_total", _COUNTER,
    "Writes that a store failed, for the history tries to write.", ("store",),
)  # fmt: skip
HISTORY_QUEUE = Family(
    "punctual_history_queue_batches", _GAUGE, "Batches of records that the history has not written yet."
)
HISTORY_BYTES = Family("punctual_history_queue_bytes", _GAUGE, "About how much memory they take.")

# The process.
LOOP_LAG = Family(
    "punctual_event_loop_lag_seconds", _HISTOGRAM,
    "How late the beats of the event loop were, five a second.", bounds=_LAG,
)  # fmt: skip
LARGE_WORK = Family(
    "punctual_large_work_total", _COUNTER, "Pieces of large work that were done beside the event loop."
)
LARGE_WORK_SECONDS = Family(
    "punctual_large_work_seconds_total", _COUNTER, "How long the thread for large work was busy."
)
LARGE_WORK_WAITING = Family(
    "punctual_large_work_waiting", _GAUGE, "Pieces of large work that wait or are being done."
)
PROCESS_UP = Family("punctual_process_up", _GAUGE, "Whether a process of the service has given its figures.")
PROCESS_START = Family("punctual_process_start_time_seconds", _GAUGE, "When the process started, since 1970.")
PROCESS_CPU = Family("punctual_process_cpu_seconds_total", _COUNTER, "Time of processors, user and system.")
PROCESS_MEMORY = Family("punctual_process_resident_memory_bytes", _GAUGE, "Resident memory.")
PROCESS_FDS = Family("punctual_process_open_fds", _GAUGE, "Open descriptors.")
PROCESS_MAX_FDS = Family("punctual_process_max_fds", _GAUGE, "How many descriptors there may be.")

# Traces.
SPANS_EXPORTED = Family("punctual_spans_exported_total", _COUNTER, "Spans that a collector has taken.")
SPANS_DROPPED = Family(
    "punctual_spans_dropped_total", _COUNTER,
    "Spans that no collector gets: queue_full, refused by it, stopped with the process.", ("reason",),
)  # fmt: skip
SPANS_WAITING = Family(
    "punctual_spans_waiting", _GAUGE, "Spans that wait for a collector, or are being sent."
)

# The service.
API_REQUESTS = Family(
    "punctual_api_requests_total", _COUNTER,
    "Answered requests by method, template of the route and status.", ("method", "route", "status"),
)  # fmt: skip
API_DURATION = Family(
    "punctual_api_request_duration_seconds", _HISTOGRAM,
    "From the head of a request to the beginning of its answer.", ("method", "route"), _ANSWERS,
)  # fmt: skip
API_CONNECTIONS = Family(
    "punctual_api_connections", _GAUGE, "Open connections of callers, by listener.", ("listener",)
)
API_CONNECTIONS_LIMIT = Family(
    "punctual_api_connections_limit", _GAUGE, "How many there may be.", ("listener",)
)
API_CONNECTIONS_CLOSED = Family(
    "punctual_api_connections_closed_total", _COUNTER,
    "Connections that were closed or refused, by the reason.", ("listener", "reason"),
)  # fmt: skip
INSTANCES = Family(
    "punctual_instances", _GAUGE,
    "Registered instances by service and state; other: those beyond 100 services and of further tenants.",
    ("service", "state"),
)  # fmt: skip
SERVICE_PAUSED = Family(
    "punctual_service_paused_seconds", _GAUGE, "How long a service that is paused has been so.", ("service",)
)
NODES = Family("punctual_nodes", _GAUGE, "Nodes of the cluster by their state.", ("state",))
BUILD_INFO = Family(
    "punctual_build_info", _GAUGE, "1; its labels name the version, the node and the host.",
    ("version", "node", "host"),
)  # fmt: skip
SCRAPE_ERRORS = Family(
    "punctual_scrape_errors", _GAUGE,
    "1: this part did not answer in time, or failed, and its metrics are absent.", ("part",),
)  # fmt: skip
SCRAPE_SECONDS = Family("punctual_scrape_duration_seconds", _GAUGE, "How long the figures were gathered.")

FAMILIES = tuple(one for one in list(globals().values()) if isinstance(one, Family))
"""All of them, in the order in which they stand here."""


class Sample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One figure of the family of this name; `labels` are the values of its labels, in their order.

    Of a histogram, `value` is the sum, and `buckets` counts what was up to each of its bounds and above the
    one before, with what was above the last bound at the end. The label `process` is added at the scrape.
    """

    family: str
    labels: tuple[str, ...]
    value: float
    buckets: tuple[int, ...] = ()


Source = Callable[[], Iterable[Sample]]
"""Reads figures from memory: at once, without waiting."""
Ask = Callable[[], Awaitable[Sequence[Sample]]]
"""Asks a store, another process or a thread for figures; may raise anything."""


class Histogram:
    """Counts values by the bounds of `family`; belongs to one thread. A unit has `per_unit` of the values."""

    __slots__ = ("_bounds", "_family", "counts", "total")

    def __init__(self, family: Family, *, per_unit: float = 1) -> None:
        self._family = family
        self._bounds = [bound * per_unit for bound in family.bounds]
        self.counts = [0] * (len(self._bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def sample(self, *labels: str) -> Sample:
        """What was counted so far."""
        return Sample(self._family.name, labels, self.total, tuple(self.counts))


SHORT_MS = 1_024
"""Whole milliseconds below this are counted one by one, which takes a third of the time."""


class Milliseconds:
    """Counts times in whole ms by the bounds of `family`, which are in seconds; belongs to one thread.

    Whoever counts on the path of an execution adds to `short[ms]` itself where `0 <= ms < SHORT_MS`.
    """

    __slots__ = ("_family", "_long", "short")

    def __init__(self, family: Family) -> None:
        self._family = family
        self._long = Histogram(family, per_unit=SECOND)
        self.short = [0] * SHORT_MS

    def observe(self, ms: int) -> None:
        """One more time; below 0 counts as 0."""
        if ms < SHORT_MS:
            self.short[max(0, ms)] += 1
        else:
            self._long.observe(ms)

    def sample(self, *labels: str) -> Sample:
        """What was counted so far, in seconds."""
        counts, total = list(self._long.counts), self._long.total
        for ms, count in enumerate(self.short):
            if count:
                counts[bisect_left(self._family.bounds, ms / SECOND)] += count
                total += ms * count
        return Sample(self._family.name, labels, total / SECOND, tuple(counts))
