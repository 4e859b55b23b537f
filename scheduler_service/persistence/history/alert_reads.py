"""What of the history is worth an alert: what ended badly, was given up, or began late."""

from collections.abc import Sequence

import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState, ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.persistence.history.failures import read_failures
from scheduler_service.persistence.history.schema import ENDED_BADLY, GIVEN_UP, deliveries, executions
from scheduler_service.persistence.history.shapes import last_answer
from scheduler_service.ports.alerts import Run
from scheduler_service.telemetry.log_text import told_message

BESIDE = 100
"""Of a job's newest executions so many may be live, skipped or cancelled without hiding the others."""
_JUDGED = (ExecutionState.SUCCEEDED.value, ExecutionState.TERMINATED.value)
_SETTLED = (DeliveryState.DELIVERED.value, DeliveryState.DISMISSED.value)
_NOT_BEGUN = (ExecutionState.SCHEDULED.value, ExecutionState.ENQUEUED.value)


def read_ended_badly(connection: sa.Connection, since: int, limit: int, skip: int) -> list[Occurrence]:
    """Executions that failed or were cancelled from `since` on, in order of their end, but `skip` of them."""
    table = executions.c
    wanted = sa.select(
        table.uid, table.execute_number, table.sequence, table.job_id, table.tenant, table.state,
        table.triggered_by, table.planned_at, table.ended_at, table.reason, table.error, table.failure_type,
    ).where(ENDED_BADLY, table.ended_at >= since)  # fmt: skip
    rows = connection.execute(
        wanted.order_by(table.ended_at, table.uid, table.execute_number).limit(limit).offset(skip)
    ).all()
    failures = read_failures(connection, rows)
    return [
        Occurrence(
            kind=OccurrenceKind.FINAL_FAILED,
            at=row.ended_at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            triggered_by=TriggeredBy(row.triggered_by),
            state=row.state,
            reason=row.reason,
            error=row.error,
            failure_type=None if row.failure_type is None else FailureType(row.failure_type),
            planned_at=row.planned_at,
            message=told_message(failures.get((row.uid, row.execute_number))),
        )
        for row in rows
    ]


def read_given_up(connection: sa.Connection, since: int, limit: int, skip: int) -> list[Occurrence]:
    """Deliveries given up from `since` on that still are not delivered, in order, but `skip` of them.

    Once is enough: the outbox tries them again and again.
    """
    table = deliveries.c
    wanted = sa.select(
        table.delivery_id, table.uid, table.execute_number, table.request_counts, table.job_id, table.tenant,
        table.event, table.state, table.given_up_at, table.tries, table.payload,
    ).where(GIVEN_UP, table.given_up_at >= since, table.state.not_in(_SETTLED))  # fmt: skip
    rows = connection.execute(wanted.order_by(table.given_up_at, table.delivery_id).limit(limit).offset(skip))
    return [
        Occurrence(
            kind=OccurrenceKind.UNDELIVERABLE,
            at=row.given_up_at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            request_counts=row.request_counts,
            state=row.state,
            count=row.tries,
            subject=row.delivery_id,
            error=last_answer(row.payload),
            message=f"the notification of {row.event}",
        )
        for row in rows
    ]


def read_late(
    connection: sa.Connection, tenant: str, first: int, last: int, bound: int, limit: int, skip: int
) -> list[Occurrence]:
    """Firings planned in `first` to `last` that began more than `bound` ms late, or not yet."""
    table = executions.c
    is_waiting = table.started_at.is_(None) & table.state.in_(_NOT_BEGUN)
    wanted = sa.select(
        table.uid, table.execute_number, table.job_id, table.tenant, table.state, table.planned_at,
        table.started_at,
    ).where(
        table.tenant == tenant,
        table.planned_at >= first,
        table.planned_at <= last,
        table.triggered_by == TriggeredBy.TIMER.value,
        is_waiting | (table.started_at - table.planned_at > bound),
    )  # fmt: skip
    ordered = wanted.order_by(table.planned_at, table.uid, table.execute_number).limit(limit).offset(skip)
    return [
        Occurrence(
            kind=OccurrenceKind.OVERDUE,
            at=row.planned_at + bound if row.started_at is None else row.started_at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            state=row.state,
            planned_at=row.planned_at,
            lateness_ms=None if row.started_at is None else row.started_at - row.planned_at,
        )
        for row in connection.execute(ordered)
    ]


def read_runs(
    connection: sa.Connection, tenant: str, job_ids: Sequence[str], most: int
) -> dict[str, list[Run]]:
    """The newest executions of each job that succeeded or failed, the newest first."""
    return {job_id: _runs_of(connection, tenant, job_id, most) for job_id in job_ids}


def _runs_of(connection: sa.Connection, tenant: str, job_id: str, most: int) -> list[Run]:
    table = executions.c
    newest = (
        sa.select(table.state, table.ended_at)
        .where(table.tenant == tenant, table.job_id == job_id)
        .order_by(table.created_at.desc(), table.execute_number.desc())
        .limit(most + BESIDE)
    )
    found: list[Run] = []
    for state, ended_at in connection.execute(newest):
        if state in _JUDGED and ended_at is not None:
            found.append(Run(state == ExecutionState.TERMINATED.value, ended_at))
            if len(found) == most:
                break
    return found
