"""A line of the log for each execution that ends badly, delivery given up, and firing that was missed."""

from collections.abc import Callable, Iterator
from typing import Any

from scheduler_service.domain.execution import (
    DeliveryState,
    ExecutionState,
    FailureType,
    FiringOutcome,
    write_execution_id,
)
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    ExecutionRecord,
    FiringRecord,
    Record,
    StepEnded,
)
from scheduler_service.domain.tracing import trace_in, trace_of
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.wording import hide_quoted, host_of, shorten

EXHAUSTED = frozenset({"limit", "policy_spent"})
"""The reasons of `engine.retry.GiveUp` that say that retries are used up."""

MISFIRE = "misfire"
OF_TARGETS = frozenset({FailureType.BUSINESS, FailureType.CHECK, FailureType.PARTIAL})
"""Failures whose message a target wrote, in a body."""

LONGEST_ERROR = 64


class BadEndings:
    """Watches the records of turns (`telemetry.observation.RecordObserver`).

    `tries` is how often a notification is tried before it is given up: what is in the outbox then is told
    once. A line has the host of the target and no more of its address, the code of the error, and the message
    where this program wrote it: nothing that a target or a definition put into a body, header or path.
    """

    def __init__(self, *, log: Log, tries: int) -> None:
        self._log = log
        self._tries = tries
        self._tell: dict[type[Record], Callable[[Batch, Any], None]] = {
            ExecutionRecord: self._execution,
            AttemptEnded: self._attempt,
            DeliveryRecord: self._delivery,
            FiringRecord: self._firing,
        }

    def __call__(self, batch: Batch) -> None:
        """Writes what these records say."""
        for record in batch.records:
            tell = self._tell.get(type(record))
            if tell is not None:
                tell(batch, record)

    def _execution(self, batch: Batch, record: ExecutionRecord) -> None:
        number = record.execute_number
        if record.state is ExecutionState.TERMINATED:
            keys = {
                "jobId": batch.job_id,
                "executionId": write_execution_id(batch.uid, number),
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
        elif record.state is ExecutionState.CANCELLED:
            execution_id = write_execution_id(batch.uid, number)
            self._log(
                "execution_cancelled", jobId=batch.job_id, executionId=execution_id, reason=record.reason
            )

    def _attempt(self, batch: Batch, record: AttemptEnded) -> None:
        if record.retry_in is None:
            return
        self._log(
            "attempt_failed",
            jobId=batch.job_id,
            executionId=write_execution_id(batch.uid, record.execute_number),
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
            jobId=batch.job_id,
            executionId=write_execution_id(batch.uid, record.execute_number),
            delivery=record.delivery_id,
            notification=record.event,
            state=state.value,
            tries=tries,
            error=None if latest is None else str(latest.status or latest.fault),
            target=host_of(record.url),
        )

    def _firing(self, batch: Batch, record: FiringRecord) -> None:
        planned = rfc3339(record.planned_at)
        if record.outcome is FiringOutcome.LATE:
            self._log(
                "firing_delayed",
                jobId=batch.job_id,
                plannedAt=planned,
                lateMs=batch.at - record.planned_at,
                executionId=_execution_of(batch, record),
            )
        elif record.outcome is FiringOutcome.SKIPPED and record.reason == MISFIRE:
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


def _details(batch: Batch, number: int) -> dict[str, object]:
    """Step, target and message of the failure, as far as the history keeps them."""
    found: dict[str, object] = {}
    for record in _records_of(batch, number):
        match record:
            case StepEnded(error=str()):
                found |= {"step": record.index, "target": host_of(record.exchange.url)}
            case CheckEnded(error=str()):
                found["target"] = host_of(record.exchange.url)
            case AttemptEnded(message=str() as message):
                found["message"] = _message(message, record.failure_type)
    return {name: value for name, value in found.items() if value is not None}


def _records_of(batch: Batch, number: int) -> Iterator[Record]:
    return (one for one in batch.records if getattr(one, "execute_number", None) == number)


def _message(text: str, failure_type: FailureType | None) -> str | None:
    if failure_type in OF_TARGETS:
        return None
    return shorten(hide_quoted(text) if failure_type is FailureType.TEMPLATE else text)


def _code(error: str | None) -> str | None:
    """The code of an error; one that a target reports may be any text."""
    return None if error is None else shorten(error, LONGEST_ERROR)


def _execution_of(batch: Batch, record: FiringRecord) -> str | None:
    return None if record.execute_number is None else write_execution_id(batch.uid, record.execute_number)
