"""Batches as a turn hands them over."""

from typing import Any

from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    Exchange,
    ExecutionRecord,
    FiringRecord,
    Record,
    StepEnded,
)
from scheduler_service.ports.history import Batch

START = 1_790_000_000_000


def batch(sequence: int, *records: Record, uid: str = "u1", job_id: str = "job", **changes: Any) -> Batch:
    values: dict[str, Any] = {"tenant": "default", "at": START + sequence, **changes}
    return Batch(uid=uid, job_id=job_id, sequence=sequence, records=records, **values)


def execution(number: int = 1, state: str = "processing", **changes: Any) -> ExecutionRecord:
    values: dict[str, Any] = {
        "revision": 1,
        "triggered_by": TriggeredBy.TIMER,
        "planned_at": START + number * 1_000,
        "created_at": START + number * 1_000 + 5,
        **changes,
    }
    return ExecutionRecord(execute_number=number, state=ExecutionState(state), **values)


def exchange(**changes: Any) -> Exchange:
    values: dict[str, Any] = {
        "method": "POST",
        "url": "http://127.0.0.1/work",
        "request_headers": (("X-One", "1"), ("X-Two", "a"), ("X-Two", "b")),
        "request_body": b'{"n":1}',
        "status": 200,
        "response_headers": (("Content-Type", "application/json"),),
        "response_body": b'{"ok":true}',
        "sent_at": START + 20,
        "duration": 7,
        **changes,
    }
    return Exchange(**values)


def attempt(number: int, request_counts: int, *, error: str | None = None) -> tuple[Record, ...]:
    """An attempt of one step, from its beginning to its end."""
    at = START + number * 1_000
    return (
        AttemptStarted(execute_number=number, request_counts=request_counts, at=at + 10),
        StepEnded(
            execute_number=number,
            request_counts=request_counts,
            index=0,
            at=at + 30,
            exchange=exchange(status=500 if error else 200),
            error=error,
        ),
        AttemptEnded(execute_number=number, request_counts=request_counts, at=at + 31, error=error),
    )


def turns_of(number: int) -> list[Batch]:
    """The two turns of a short execution that its timer started, of a job of its own."""
    began, step, ended = attempt(1, 1)
    life = {"uid": f"{START:012x}{number:020x}", "job_id": f"job-{number}"}
    fired = FiringRecord(planned_at=START, outcome=FiringOutcome.FIRED, execute_number=1)
    return [
        batch(2, fired, execution(), began, **life),
        batch(
            3, execution(state="succeeded", started_at=START + 10, ended_at=START + 31), step, ended, **life
        ),
    ]
