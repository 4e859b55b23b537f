"""The statements by which the history is read; one page needs one statement."""

from typing import Any

import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.persistence.common.pagination import read_cursor
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery, FiringQuery, Place
from scheduler_service.persistence.history.schema import (
    NOT_SUCCEEDED,
    deliveries,
    entries,
    executions,
    firings,
)

Selection = sa.Select[tuple[object, ...]]
# An execution that polls for days has more entries; only so many are read.
MOST_ENTRIES = 5_000


def select_executions(query: ExecutionQuery, without: frozenset[str]) -> Selection:
    """One row more than `query.limit`: it shows whether another page follows.

    Executions of the jobs `without` are included only where the query names such a job.
    """
    table = executions.c
    conditions = [table.tenant == query.tenant]
    if query.job_id is not None:
        conditions.append(table.job_id == query.job_id)
    if query.job_ids is not None:
        conditions.append(table.job_id.in_(query.job_ids))
    if query.job_id is None and without:
        conditions.append(table.job_id.not_in(without))
    if query.state is not None:
        conditions.append(table.state == query.state.value)
        if query.state is not ExecutionState.SUCCEEDED:
            conditions.append(NOT_SUCCEEDED)
    if query.error is not None:
        conditions += [table.error == query.error, NOT_SUCCEEDED]
    if query.triggered_by is not None:
        conditions.append(table.triggered_by == query.triggered_by.value)
    conditions += _between(table.planned_at, query.planned_from, query.planned_to)
    place = (table.created_at, table.execute_number, table.uid)
    columns = [column for column in table if column is not table.params]
    return _page(sa.select(*columns).where(*conditions), place, query.cursor, query.limit)


def select_firings(query: FiringQuery) -> Selection:
    """The ledger of one life, latest planned moment first."""
    table = firings.c
    conditions = [table.uid == query.uid, *_between(table.planned_at, query.planned_from, query.planned_to)]
    place = (table.planned_at, table.execute_number, sa.cast(table.until, sa.String))
    return _page(sa.select(firings).where(*conditions), place, query.cursor, query.limit)


def select_deliveries(query: DeliveryQuery) -> Selection:
    """Deliveries, newest first."""
    table = deliveries.c
    conditions = [table.tenant == query.tenant]
    if query.job_id is not None:
        conditions.append(table.job_id == query.job_id)
    if query.job_ids is not None:
        conditions.append(table.job_id.in_(query.job_ids))
    if query.state is not None:
        conditions.append(table.state == query.state)
    if query.event is not None:
        conditions.append(table.event == query.event)
    place = (table.created_at, table.execute_number, table.delivery_id)
    return _page(sa.select(deliveries).where(*conditions), place, query.cursor, query.limit)


def select_execution(uid: str, execute_number: int) -> Selection:
    """The row of one execution."""
    table = executions.c
    return sa.select(executions).where(table.uid == uid, table.execute_number == execute_number)


def select_newest(tenant: str, job_id: str) -> Selection:
    """The newest execution of one job."""
    table = executions.c
    return (
        sa.select(executions)
        .where(table.tenant == tenant, table.job_id == job_id)
        .order_by(table.created_at.desc(), table.execute_number.desc())
        .limit(1)
    )


def select_entries(uid: str, execute_number: int) -> sa.Select[tuple[bytes]]:
    """The entries of one execution, oldest first."""
    table = entries.c
    return (
        sa.select(table.payload)
        .where(table.uid == uid, table.execute_number == execute_number)
        .order_by(table.first, table.last)
        .limit(MOST_ENTRIES)
    )


def select_notifications(uid: str, execute_number: int) -> Selection:
    """The deliveries of one execution in order of their creation."""
    table = deliveries.c
    return (
        sa.select(deliveries)
        .where(table.uid == uid, table.execute_number == execute_number)
        .order_by(table.created_at, table.delivery_id)
        .limit(MOST_ENTRIES)
    )


def _between(
    column: sa.ColumnElement[int], first: int | None, last: int | None
) -> list[sa.ColumnElement[bool]]:
    lower = [] if first is None else [column >= first]
    return lower if last is None else [*lower, column <= last]


def _page(
    selection: Selection, place: tuple[sa.ColumnElement[Any], ...], cursor: str | None, limit: int
) -> Selection:
    if cursor is not None:
        # By the first condition the index finds the position; the second orders rows of one moment.
        last = read_cursor(cursor, Place)
        values = (last.moment, last.number, last.name)
        selection = selection.where(place[0] <= last.moment, sa.tuple_(*place) < values)
    return selection.order_by(*(column.desc() for column in place)).limit(limit + 1)
