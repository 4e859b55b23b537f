"""A line of the log for each execution that ends badly, delivery given up, and firing that was missed."""

from collections.abc import Callable, Iterator

from scheduler_service.domain.execution import (
    DeliveryState,
    ExecutionState,
    FiringOutcome,
    JobState,
    TriggeredBy,
    write_execution_id,
)
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    ExecutionRecord,
    FiringRecord,
    StepEnded,
)
from scheduler_service.domain.tracing import trace_in, trace_of
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.logs import host_of, safe_message, shorten

EXHAUSTED = frozenset({"limit", "policy_spent"})
"""The reasons of `engine.retry.GiveUp` that say that retries are used up."""

# A look into an enum costs ten times as much as one at these.
TERMINATED, CANCELLED, SKIPPED = ExecutionState.TERMINATED, ExecutionState.CANCELLED, ExecutionState.SKIPPED
TIMER = TriggeredBy.TIMER
FIRED, LATE = FiringOutcome.FIRED, FiringOutcome.LATE

MISFIRE = "misfire"
LONGEST_ERROR = 64


class FailureLog:
    """Watches the records of turns in which something went wrong (`turn_observers.RecordObserver`).

    `tries` is how often a notification is tried before it is given up: what is in the outbox then is told
    once. A line has the host of the target and no more of its address, the code of the error, and the message
    where this program wrote it: nothing that a target or a definition put into a body, header or path.
    """

    def __init__(self, *, log: Log, tries: int) -> None:
        self._log = log
        self._tries = tries

    def __call__(self, batch: Batch) -> None:
        """Writes what these records say."""
        for record in batch.records:
            if type(record) is ExecutionRecord:
                if record.state is TERMINATED:
                    self._failed(batch, record)
                elif record.state is CANCELLED:
                    self._cancelled(batch, record)
                elif record.state is SKIPPED and record.triggered_by is not TIMER:
                    self._skipped(batch, record)
            elif type(record) is FiringRecord:
                if record.outcome is LATE:
                    self._delayed(batch, record)
                elif record.outcome is not FIRED:
                    self._not_fired(batch, record)
            elif type(record) is AttemptEnded:
                if record.retry_in is not None:
                    self._attempt(batch, record)
            elif type(record) is DeliveryRecord:
                self._delivery(batch, record)

    def _failed(self, batch: Batch, record: ExecutionRecord) -> None:
        number = record.execute_number
        keys = {
            **_whose(batch, number),
            "attempts": record.attempt_count,
            "error": _code(record.error),
            "failureType": record.failure_type,
            "reason": record.reason,
            **_details(batch, number),
            "traceId": trace_in(record.trace) or trace_of(batch.uid, number),
        }
        if record.reason in EXHAUSTED and record.attempt_count > 1:
            self._log("retries_exhausted", **keys)
        else:
            self._log("execution_failed", **keys)

    def _cancelled(self, batch: Batch, record: ExecutionRecord) -> None:
        self._log("execution_cancelled", **_whose(batch, record.execute_number), reason=record.reason)

    def _skipped(self, batch: Batch, record: ExecutionRecord) -> None:
        self._log("trigger_skipped", **_whose(batch, record.execute_number), reason=record.reason)

    def _attempt(self, batch: Batch, record: AttemptEnded) -> None:
        self._log(
            "attempt_failed",
            **_whose(batch, record.execute_number),
            error=_code(record.error),
            failureType=record.failure_type,
            retryInMs=record.retry_in,
        )

    def _delivery(self, batch: Batch, record: DeliveryRecord) -> None:
        tries, state = len(record.tries), record.state
        if state is not DeliveryState.FAILED and (state is not DeliveryState.OUTBOX or tries > self._tries):
            return
        latest = record.tries[-1] if record.tries else None
        self._log(
            "delivery_failed",
            **_whose(batch, record.execute_number),
            delivery=record.delivery_id,
            notification=record.event,
            state=state.value,
            tries=tries,
            error=None if latest is None else latest.error,
            target=host_of(record.url),
        )

    def _delayed(self, batch: Batch, record: FiringRecord) -> None:
        self._log(
            "firing_delayed",
            jobId=batch.job_id,
            plannedAt=rfc3339(record.planned_at),
            lateMs=batch.at - record.planned_at,
            executionId=_execution_of(batch, record),
        )

    def _not_fired(self, batch: Batch, record: FiringRecord) -> None:
        planned = rfc3339(record.planned_at)
        if record.outcome is FiringOutcome.SKIPPED and record.reason == MISFIRE:
            if record.count is not None:  # else a later record has it
                until = None if record.until is None else rfc3339(record.until)
                self._log(
                    "firings_missed", jobId=batch.job_id, plannedAt=planned, until=until, count=record.count
                )
        elif record.outcome is FiringOutcome.SKIPPED:
            self._log(
                "firing_skipped",
                jobId=batch.job_id,
                plannedAt=planned,
                reason=record.reason,
                executionId=_execution_of(batch, record),
            )


def _whose(batch: Batch, execute_number: int) -> dict[str, str]:
    """The keys that name the execution."""
    return {"jobId": batch.job_id, "executionId": write_execution_id(batch.uid, execute_number)}


def _details(batch: Batch, number: int) -> dict[str, object]:
    """Step, target and message of the failure, as far as the history keeps them."""
    found: dict[str, object] = {}
    for record in batch.records:
        if type(record) is StepEnded:
            if record.error is not None and record.execute_number == number:
                found["step"], found["target"] = record.index, host_of(record.exchange.url)
        elif type(record) is CheckEnded:
            if record.error is not None and record.execute_number == number:
                found["target"] = host_of(record.exchange.url)
        elif type(record) is AttemptEnded:
            message = safe_message(record) if record.execute_number == number else None
            if message is not None:
                found["message"] = message
    return found


def _code(error: str | None) -> str | None:
    """The code of an error; one that a target reports may be any text."""
    return None if error is None else shorten(error, LONGEST_ERROR)


def _execution_of(batch: Batch, record: FiringRecord) -> str | None:
    return None if record.execute_number is None else write_execution_id(batch.uid, record.execute_number)


class JobLife:
    """Publishes the changes between two catalogue entries of a job; `wall` gives wall ms.

    No record says them, and the store alone does not know the entry before: turns show both.
    """

    def __init__(self, *, occurrences: Occurrences, wall: Callable[[], int]) -> None:
        self._occurrences = occurrences
        self._wall = wall

    def observe(self, before: CatalogueEntry | None, after: CatalogueEntry) -> None:
        """A turn made `after` of `before` (`hosts.host_dependencies.ObserveJob`). Never raises."""
        occurrences = self._occurrences
        if occurrences.are_wanted and not (before is not None and _is_alike(before, after)):
            for kind in changes_of(before, after):
                occurrences.publish(
                    Occurrence(
                        kind=kind,
                        at=self._wall(),
                        tenant=after.tenant,
                        job_id=after.job_id,
                        uid=after.uid,
                        state=after.state.value,
                        revision=after.revision,
                    )
                )


def _is_alike(before: CatalogueEntry, after: CatalogueEntry) -> bool:
    """Whether the turn was about executions alone, as most are."""
    return before.state is after.state and before.revision == after.revision and before.uid == after.uid


def changes_of(before: CatalogueEntry | None, after: CatalogueEntry) -> Iterator[OccurrenceKind]:
    """What happened to the job, in order. `before` None: there was no such job."""
    old = None if before is None or before.state is JobState.DESTROYED else before
    if after.state is JobState.DESTROYED:
        if old is not None:
            yield OccurrenceKind.JOB_DESTROYED
        return
    if old is None or old.uid != after.uid:
        yield OccurrenceKind.JOB_CREATED
        return
    if old.revision != after.revision:
        yield OccurrenceKind.JOB_UPDATED
    if old.state is not after.state:
        yield from _change_of_state(old, after)


def _change_of_state(old: CatalogueEntry, after: CatalogueEntry) -> Iterator[OccurrenceKind]:
    match after.state:
        case JobState.PAUSED:
            yield OccurrenceKind.JOB_PAUSED
        case JobState.FINISHED:
            yield OccurrenceKind.JOB_FINISHED
        case JobState.ACTIVE if old.state is JobState.PAUSED or old.revision == after.revision:
            # A finished job that gets another timer is updated, and not resumed.
            yield OccurrenceKind.JOB_RESUMED
