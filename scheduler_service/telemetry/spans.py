"""Makes spans of the records of a turn, after what they tell of has ended (SPEC section 14)."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from scheduler_service.domain.execution import DeliveryState, ExecutionState
from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    StepEnded,
)
from scheduler_service.domain.tracing import (
    ATTEMPT,
    CHECK,
    DELIVERY,
    STEP,
    SpanPlace,
    execution_span,
    feedback_span,
    span_in,
    span_of,
    trace_in,
    trace_of,
)
from scheduler_service.ports.history import Batch

INTERNAL, CLIENT, CONSUMER = 1, 3, 5
"""Kinds of spans, as OTLP numbers them."""
TERMINAL = frozenset(
    {
        ExecutionState.SUCCEEDED,
        ExecutionState.TERMINATED,
        ExecutionState.CANCELLED,
        ExecutionState.SKIPPED,
    }
)
UNTRIED = frozenset({DeliveryState.SUPERSEDED, DeliveryState.DISMISSED})
Attributes = tuple[tuple[str, str | int], ...]


class Span(msgspec.Struct, frozen=True, gc=False):
    """A span that has ended: ids in hex, `parent` empty at a root, times in ms since 1970.

    `error` None: it succeeded. `links` name other spans: (trace, span). `caller` is the context from outside
    to which the trace belongs (`tracing.read_traceparent`), if any: it has decided on sampling.
    """

    trace: str
    span: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    attributes: Attributes
    error: str | None = None
    links: tuple[tuple[str, str], ...] = ()
    caller: str = ""


def spans_of(batch: Batch) -> Iterator[Span]:
    """The spans that ended with this turn; a batch that is shown again gives the same ones."""
    for record in batch.records:
        match record:
            case StepEnded() | CheckEnded():
                yield _Maker(batch, record.execute_number, record.trace).call(record)
            case AttemptEnded():
                yield _Maker(batch, record.execute_number, record.trace).attempt(record)
            case ExecutionRecord() if record.state in TERMINAL:
                yield _Maker(batch, record.execute_number, record.trace).execution(record)
            case DeliveryRecord() if record.tries and record.state not in UNTRIED:
                yield _Maker(batch, record.execute_number, record.trace).delivery(record)
            case FeedbackSeen(stale=False):
                yield _Maker(batch, record.execute_number, record.trace).feedback(record)


class _Maker:
    """Makes the spans of one execution."""

    def __init__(self, batch: Batch, execute_number: int, caller: str) -> None:
        self._batch = batch
        self._own = trace_of(batch.uid, execute_number)
        self._caller = caller
        self._trace = trace_in(caller) or self._own
        self._common: Attributes = (
            ("punctual.job_id", batch.job_id),
            ("punctual.tenant", batch.tenant),
            ("punctual.execute_number", execute_number),
        )

    def execution(self, record: ExecutionRecord) -> Span:
        start = record.created_at if record.started_at is None else record.started_at
        found: list[tuple[str, str | int]] = [
            ("punctual.state", record.state.value),
            ("punctual.triggered_by", record.triggered_by.value),
            ("punctual.attempts", record.attempt_count),
        ]
        if record.started_at is not None:
            found.append(("punctual.lateness_ms", max(0, record.started_at - record.planned_at)))
        if record.reason is not None:
            found.append(("punctual.reason", record.reason))
        return self._make(
            execution_span(self._own),
            span_in(self._caller),
            "execution",
            INTERNAL,
            (start, self._batch.at if record.ended_at is None else record.ended_at),
            tuple(found),
            record.error,
        )

    def attempt(self, record: AttemptEnded) -> Span:
        found: list[tuple[str, str | int]] = [("punctual.request_counts", record.request_counts)]
        if record.failure_type is not None:
            found.append(("punctual.failure_type", record.failure_type.value))
        if record.retry_in is not None:
            found.append(("punctual.retry_in_ms", record.retry_in))
        before = self._span(record.after, (ATTEMPT,)) if record.after else ""
        return self._make(
            self._span(record.request_counts, (ATTEMPT,)),
            execution_span(self._own),
            "attempt",
            INTERNAL,
            (record.began_at or record.at, record.at),
            tuple(found),
            record.error,
            ((self._trace, before),) if before else (),
        )

    def call(self, record: StepEnded | CheckEnded) -> Span:
        exchange = record.exchange
        found = _describe(exchange)
        found.append(("punctual.request_counts", record.request_counts))
        place: SpanPlace
        error = record.error
        if isinstance(record, StepEnded):
            name, place = f"step {record.index}", (STEP, record.index)
            found.append(("punctual.step", record.index))
            if record.part is not None:
                place = (STEP, record.index, record.part + 1)
                found.append(("punctual.part", record.part))
            if record.instance is not None:
                found.append(("punctual.instance", record.instance))
        else:
            name, place = "check", (CHECK, record.serial)
            found.append(("punctual.check", record.serial))
            error = error and _class_of(exchange)  # a text for people, perhaps with an address
        return self._make(
            self._span(record.request_counts, place),
            self._span(record.request_counts, (ATTEMPT,)),
            name,
            CLIENT,
            (exchange.sent_at, exchange.sent_at + exchange.duration),
            tuple(found),
            error,
        )

    def delivery(self, record: DeliveryRecord) -> Span:
        """One try of a notification, linked to the try before."""
        last, tried = record.tries[-1], (record.tried or len(record.tries)) - 1
        ordinal = int(record.delivery_id.rpartition("-")[2])
        found: list[tuple[str, str | int]] = [
            ("punctual.request_counts", record.request_counts),
            ("punctual.event", record.event),
            ("punctual.delivery_id", record.delivery_id),
            ("punctual.try", tried + 1),
            ("punctual.state", record.state.value),
        ]
        host = host_of(record.url)
        if host:
            found.append(("server.address", host))
        if last.status is not None:
            found.append(("http.response.status_code", last.status))
        is_taken = record.state is DeliveryState.DELIVERED
        failure = _first_word(last.error)
        before = self._span(record.request_counts, (DELIVERY, ordinal, tried - 1)) if tried else ""
        return self._make(
            self._span(record.request_counts, (DELIVERY, ordinal, tried)),
            execution_span(self._own),
            "notification",
            CLIENT,
            (last.at, last.at + last.duration),
            tuple(found),
            None if is_taken else failure,
            ((self._trace, before),) if before else (),
        )

    def feedback(self, record: FeedbackSeen) -> Span:
        found: list[tuple[str, str | int]] = [("punctual.request_counts", record.request_counts)]
        if record.part is not None:
            found.append(("punctual.part", record.part))
        said = f"{record.request_counts}:{record.at}:{record.part}:".encode() + record.body
        links = ((trace_in(record.reporter), span_in(record.reporter)),) if record.reporter else ()
        return self._make(
            feedback_span(self._own, said),
            self._span(record.request_counts, (ATTEMPT,)),
            "feedback",
            CONSUMER,
            (record.at, record.at),
            tuple(found),
            None,
            links,
        )

    def _span(self, request_counts: int, place: SpanPlace) -> str:
        return span_of(self._own, request_counts, place)

    def _make(
        self,
        span: str,
        parent: str,
        name: str,
        kind: int,
        times: tuple[int, int],
        attributes: Attributes,
        error: str | None,
        links: tuple[tuple[str, str], ...] = (),
    ) -> Span:
        start, end = times
        if error is not None:
            attributes = (*attributes, ("error.type", error))
        return Span(
            self._trace,
            span,
            parent,
            name,
            kind,
            start,
            max(start, end),
            (*self._common, *attributes),
            error,
            links,
            self._caller,
        )


def host_of(url: str) -> str:
    """The host of a URL, or the name of a service or queue; empty where there is none that can be read."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _describe(exchange: Exchange) -> list[tuple[str, str | int]]:
    found: list[tuple[str, str | int]] = [("http.request.method", exchange.method)]
    host = host_of(exchange.url)
    if host:
        found.append(("server.address", host))
    if exchange.status is not None:
        found.append(("http.response.status_code", exchange.status))
    return found


def _class_of(exchange: Exchange) -> str:
    if exchange.status is None:
        return "no_answer"
    return "no_report" if 200 <= exchange.status <= 299 else str(exchange.status)


def _first_word(fault: str | None) -> str:
    """The kind of a fault, without the text that may follow it."""
    return (fault or "no_answer").partition(":")[0]
