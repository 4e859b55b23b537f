"""Makes occurrences of records and log lines, and hands them to those who asked for them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from scheduler_service.domain.execution import DeliveryState, ExecutionState, FiringOutcome
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.records import (
    AttemptEnded,
    DeliveryRecord,
    ExecutionRecord,
    FiringRecord,
)
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.logs import told_message

Take = Callable[[Occurrence], None]
"""Takes an occurrence: at once, on the event loop's thread; never raises, never waits."""
Leave = Callable[[], None]
"""Ends what was asked for; a second call does nothing."""
TellInterest = Callable[[bool], None]
"""Is told whether anybody takes occurrences. Never raises, never waits."""

_ENDS = {
    ExecutionState.SUCCEEDED: OccurrenceKind.FINAL_SUCCEED,
    ExecutionState.TERMINATED: OccurrenceKind.FINAL_FAILED,
    ExecutionState.CANCELLED: OccurrenceKind.FINAL_FAILED,
    ExecutionState.SKIPPED: OccurrenceKind.SKIPPED,
}
_DELIVERIES = {
    DeliveryState.DELIVERED: OccurrenceKind.DELIVERED,
    DeliveryState.FAILED: OccurrenceKind.UNDELIVERABLE,
    DeliveryState.OUTBOX: OccurrenceKind.UNDELIVERABLE,
}
_MISFIRES = (FiringOutcome.SKIPPED, FiringOutcome.LATE)


class Occurrences:
    """Hands each occurrence of this process to its takers; while there is none, making them costs nothing.

    `are_wanted`: whether anybody takes them.
    """

    def __init__(self) -> None:
        self.are_wanted = False  # a plain member: each durable turn looks at it
        self._takers: tuple[Take, ...] = ()
        self._listeners: tuple[Take, ...] = ()
        self._followers: tuple[TellInterest, ...] = ()

    def subscribe(self, take: Take) -> Leave:
        """Hands every later occurrence to `take`; returns what ends that."""
        self._change((*self._takers, take))
        return lambda: self._change(tuple(one for one in self._takers if one is not take))

    def listen(self, take: Take) -> Leave:
        """As `subscribe`, for one who needs what happens to the service alone: nothing is made for it."""
        self._listeners = (*self._listeners, take)

        def leave() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not take)

        return leave

    def follow_interest(self, tell: TellInterest) -> Leave:
        """Calls `tell` now, and at each change; returns what ends that."""
        self._followers = (*self._followers, tell)
        tell(self.are_wanted)

        def leave() -> None:
            self._followers = tuple(one for one in self._followers if one is not tell)

        return leave

    def publish(self, occurrence: Occurrence) -> None:
        """Hands one to every taker."""
        for take in self._takers:
            take(occurrence)
        for take in self._listeners:
            take(occurrence)

    def observe(self, batch: Batch) -> None:
        """Publishes what the records of a turn say (`telemetry.turn_observers.RecordObserver`)."""
        for occurrence in occurrences_of(batch):
            self.publish(occurrence)

    def _change(self, takers: tuple[Take, ...]) -> None:
        was_wanted, self._takers, self.are_wanted = self.are_wanted, takers, bool(takers)
        if was_wanted != self.are_wanted:
            for tell in self._followers:
                tell(self.are_wanted)


def occurrences_of(batch: Batch) -> list[Occurrence]:
    """What the records of one turn say, in their order."""
    found = []
    for record in batch.records:
        # By its type, not by `match`: each execution comes here while anybody follows.
        make = _MAKERS.get(type(record))
        if make is not None and (occurrence := make(batch, record)) is not None:
            found.append(occurrence)
    return found


def _execution(batch: Batch, record: ExecutionRecord) -> Occurrence | None:
    kind = _ENDS.get(record.state)
    if kind is None:
        # A firing that was decided ahead may have started later than its turn, never before it.
        if record.state is not ExecutionState.PROCESSING or (record.started_at or 0) < batch.at:
            return None
        kind = OccurrenceKind.STARTED
    started = record.started_at
    return _make(
        kind,
        batch,
        record,
        triggered_by=record.triggered_by,
        state=record.state.value,
        reason=record.reason,
        error=record.error,
        failure_type=record.failure_type,
        planned_at=record.planned_at,
        lateness_ms=None if started is None else max(0, started - record.planned_at),
        count=record.attempt_count,
        message=None if record.error is None else told_message(_failure_of(batch, record)),
    )


def _failure_of(batch: Batch, record: ExecutionRecord) -> AttemptEnded | None:
    """The attempt with which the execution failed in this turn."""
    for one in reversed(batch.records):
        if type(one) is AttemptEnded and one.execute_number == record.execute_number:
            return one
    return None


def _failed_attempt(batch: Batch, record: AttemptEnded) -> Occurrence | None:
    if record.error is None or record.retry_in is None:
        return None
    return _make(
        OccurrenceKind.ATTEMPT_FAILED,
        batch,
        record,
        at=record.at,
        request_counts=record.request_counts,
        error=record.error,
        failure_type=record.failure_type,
        message=told_message(record),
    )


def _delivery(batch: Batch, record: DeliveryRecord) -> Occurrence | None:
    kind = _DELIVERIES.get(record.state)
    if kind is None:
        return None
    return _make(
        kind,
        batch,
        record,
        request_counts=record.request_counts,
        state=record.state.value,
        count=len(record.tries),
        subject=record.delivery_id,
    )


def _misfire(batch: Batch, record: FiringRecord) -> Occurrence | None:
    if record.outcome not in _MISFIRES:
        return None
    return _make(
        OccurrenceKind.MISFIRED,
        batch,
        record,
        state=record.outcome.value,
        reason=record.reason,
        planned_at=record.planned_at,
        count=record.count,
    )


def _make(
    kind: OccurrenceKind, batch: Batch, record: Any, *, at: int | None = None, **what: Any
) -> Occurrence:
    """What a record of a turn says; `at` where that is not the moment of the turn."""
    return Occurrence(
        kind=kind,
        at=batch.at if at is None else at,
        tenant=batch.tenant,
        job_id=batch.job_id,
        uid=batch.uid,
        execute_number=record.execute_number,
        **what,
    )


_MAKERS: dict[type, Callable[[Batch, Any], Occurrence | None]] = {
    ExecutionRecord: _execution,
    AttemptEnded: _failed_attempt,
    DeliveryRecord: _delivery,
    FiringRecord: _misfire,
}


def _error_of(keys: Mapping[str, object]) -> str | None:
    return str(keys["error"]) if keys.get("error") is not None else None


def _limit_of(keys: Mapping[str, object]) -> str:
    return f"limits.{keys['limit']} allows {keys['value']:,}"


class Meaning(NamedTuple):
    """The kind of an occurrence, and the keys of the line that name its subject, from the widest on.

    `name`: the subject where no key names it. `of_tenant`: it is of the tenant in the key `tenant`, or of
    that in which the key `service` names a service as jobs are named. `message`: makes that of its keys.
    """

    kind: OccurrenceKind
    subject: tuple[str, ...] = ()
    name: str | None = None
    of_tenant: bool = False
    message: Callable[[Mapping[str, object]], str | None] = _error_of


MEANINGS: Mapping[str, Meaning] = {
    "instance_lost": Meaning(OccurrenceKind.INSTANCE_LOST, ("service", "instance"), of_tenant=True),
    "instance_returned": Meaning(OccurrenceKind.INSTANCE_BACK, ("service", "instance"), of_tenant=True),
    "node_joined": Meaning(OccurrenceKind.NODE_JOINED, ("node",)),
    "node_left": Meaning(OccurrenceKind.NODE_LEFT, ("node",)),
    "node_lost": Meaning(OccurrenceKind.NODE_LOST, ("node",)),
    "worker_lost": Meaning(OccurrenceKind.WORKER_LOST, ("worker",)),
    "worker_restarted": Meaning(OccurrenceKind.WORKER_BACK, ("worker",)),
    "history_not_written": Meaning(OccurrenceKind.STORE_LOST, name="history"),
    "history_written_again": Meaning(OccurrenceKind.STORE_BACK, name="history"),
    "contexts_unreachable": Meaning(OccurrenceKind.STORE_LOST, name="contexts"),
    "contexts_reached_again": Meaning(OccurrenceKind.STORE_BACK, name="contexts"),
    "store_not_written": Meaning(OccurrenceKind.STORE_LOST),
    "store_written_again": Meaning(OccurrenceKind.STORE_BACK),
    "tenant_limited": Meaning(
        OccurrenceKind.LIMIT_REACHED, ("tenant", "limit"), of_tenant=True, message=_limit_of
    ),
}
"""The event words that are occurrences as well."""


class OccurrenceLog:
    """A log whose lines in `MEANINGS` are published too; `wall` gives wall ms."""

    def __init__(self, *, log: Log, publish: Take, wall: Callable[[], int]) -> None:
        self._log = log
        self._publish = publish
        self._wall = wall

    def __call__(self, event: str, /, **keys: object) -> None:
        """Writes the line, then publishes what it means. Never raises."""
        self._log(event, **keys)
        meaning = MEANINGS.get(event)
        if meaning is None:
            return
        tenant: str | None = None
        if meaning.of_tenant and "tenant" in keys:
            tenant = str(keys["tenant"])
        elif meaning.of_tenant:
            tenant, keys["service"] = read_job_key(str(keys["service"]))
        subject = "/".join(str(keys[key]) for key in meaning.subject if key in keys)
        self._publish(
            Occurrence(
                kind=meaning.kind,
                at=self._wall(),
                subject=subject or meaning.name,
                tenant=tenant,
                message=meaning.message(keys),
            )
        )
