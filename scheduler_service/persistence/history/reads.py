"""Reads the history for lists, pages and the console; the loop never waits for the disk."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import TypeVar

import sqlalchemy as sa

from scheduler_service.domain.execution import parse_execution_id
from scheduler_service.domain.records import Detail, Exchange, StepEnded
from scheduler_service.persistence.common.pagination import CursorError, Number, read_cursor, write_cursor
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.day_reads import DayQuery, collect_days, collect_top
from scheduler_service.persistence.history.delivery_counts import collect_delivery_counts
from scheduler_service.persistence.history.detail import assemble_attempts, parse_kept, trace_id
from scheduler_service.persistence.history.detail_blob import decode_entries
from scheduler_service.persistence.history.execution_counts import collect_counts
from scheduler_service.persistence.history.failures import failure_in, read_failures
from scheduler_service.persistence.history.log import AnyRow, write_log
from scheduler_service.persistence.history.outcomes import collect_outcomes
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    FiringQuery,
    Page,
    Place,
    SeriesQuery,
    Wire,
)
from scheduler_service.persistence.history.schema import deliveries
from scheduler_service.persistence.history.selections import (
    Selection,
    select_deliveries,
    select_entries,
    select_execution,
    select_executions,
    select_firings,
    select_newest,
    select_notifications,
)
from scheduler_service.persistence.history.series import collect_series
from scheduler_service.persistence.history.shapes import (
    delivery_wire,
    execution_wire,
    firing_wire,
    notification_wire,
)
from scheduler_service.persistence.history.statistics import collect_statistics
from scheduler_service.ports.errors import store_closed

T = TypeVar("T")
READERS = 2
Shape = Callable[[sa.Connection, Sequence[AnyRow]], list[Wire]]
"""Rows of a list in wire form, with what else has to be read of them."""


class HistoryReads:
    """Results in wire form (SPEC section 10); None: the tenant has no such object.

    Everything raises StoreUnavailable; lists raise CursorError for a cursor of another list.

    Executions of `system_jobs`, the scheduler's own work, are listed only for a query that names one. A
    thread reads within `reading()`, which may see to it that others get the interpreter meanwhile.
    """

    def __init__(
        self,
        *,
        database: HistoryDatabase,
        system_jobs: frozenset[str] = frozenset(),
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._database = database
        self._system_jobs = system_jobs
        self._reading = reading
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="history-reader")
        self._is_closed = False

    async def executions(self, query: ExecutionQuery) -> Page:
        """Executions, newest first."""
        selection = select_executions(query, self._system_jobs)
        return await self._page(selection, query.limit, _list_executions, _execution_place)

    async def firings(self, query: FiringQuery) -> Page:
        """The ledger, latest planned moment first."""
        return await self._page(select_firings(query), query.limit, _each(firing_wire), _firing_place)

    async def deliveries(self, query: DeliveryQuery) -> Page:
        """Deliveries, newest first."""
        return await self._page(select_deliveries(query), query.limit, _each(delivery_wire), _delivery_place)

    async def delivery(self, tenant: str, delivery_id: str) -> Wire | None:
        """One delivery with its tries."""
        table = deliveries.c
        selection = sa.select(deliveries).where(table.delivery_id == delivery_id, table.tenant == tenant)
        found = await self._run(lambda connection: connection.execute(selection).first())
        return None if found is None else delivery_wire(found)

    async def execution(self, tenant: str, execution_id: str) -> Wire | None:
        """One execution in full: attempts with steps, checks and feedback, and notifications."""
        return await self._run(lambda connection: _full(connection, tenant, execution_id))

    async def log(
        self, tenant: str, execution_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page | None:
        """The log of an execution in order of time."""
        start = 0 if cursor is None else read_cursor(cursor, Number)
        if start < 0:
            raise CursorError(f"{cursor!r} is not a cursor of this list; begin again without a cursor")
        return await self._run(lambda connection: _log(connection, tenant, execution_id, start, limit))

    async def exchanges(self, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
        """The requests and responses of the last attempt, masked and cut, by step (for a replay).

        Where that attempt began at a later step (`retryFrom`), the responses that it reused are included.
        """
        return await self._run(lambda connection: _exchanges(connection, tenant, execution_id))

    async def params(self, tenant: str, execution_id: str) -> bytes | None:
        """The exact trigger parameters (for a replay); None where they were masked, cut or dropped."""
        row = await self._run(lambda connection: _find(connection, tenant, execution_id))
        return row.params if row is not None and row.params_complete else None

    async def children_latest(self, tenant: str, job_ids: Iterable[str]) -> list[Wire]:
        """The newest execution of each of these jobs, in full; a job without any is left out."""
        wanted = list(job_ids)
        return await self._run(
            lambda connection: [
                _fill(connection, row)
                for job_id in wanted
                for row in connection.execute(select_newest(tenant, job_id))
            ]
        )

    async def outcomes(self, tenant: str, job_ids: Collection[str], count: int) -> Mapping[str, list[Wire]]:
        """Of each of these jobs its newest `count` executions, in brief, the newest last."""
        return await self._run(lambda connection: collect_outcomes(connection, tenant, job_ids, count))

    async def counts(self, query: ExecutionQuery) -> Wire:
        """`total`, `byState` and `byError` of the executions that `query` finds, of the newest of them."""
        return await self._run(lambda connection: collect_counts(connection, query, self._system_jobs))

    async def delivery_counts(self, query: DeliveryQuery) -> Wire:
        """`total` and `byState` of the notifications that `query` finds, of the newest of them."""
        return await self._run(lambda connection: collect_delivery_counts(connection, query))

    async def series(self, query: SeriesQuery) -> Wire:
        """`buckets` of a span of time, and whether some of what was planned in it was not looked at."""
        return await self._run(lambda connection: collect_series(connection, query, self._system_jobs))

    async def statistics(self, tenant: str, now: int) -> Wire:
        """`byState`, `lateness` and `perMinute` over the hour before `now` (wall ms)."""
        own = self._system_jobs
        return await self._run(lambda connection: collect_statistics(connection, tenant, now, own))

    async def days(self, query: DayQuery) -> Wire:
        """The statistics per day: `total` and `days`."""
        return await self._run(lambda connection: collect_days(connection, query))

    async def top(self, query: DayQuery) -> Wire:
        """The jobs that failed most and those that took longest: `failing` and `slowest`."""
        return await self._run(lambda connection: collect_top(connection, query, self._system_jobs))

    async def close(self) -> None:
        """Ends the reading threads; the database is its opener's to close."""
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def _run(self, read: Callable[[sa.Connection], T]) -> T:
        def work() -> T:
            with self._reading(), self._database.reading() as connection:
                return read(connection)

        if self._is_closed:
            raise store_closed()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _page(
        self,
        selection: Selection,
        limit: int,
        shape: Shape,
        place: Callable[[AnyRow], Place],
    ) -> Page:
        def read(connection: sa.Connection) -> Page:
            rows = connection.execute(selection).all()
            more = write_cursor(place(rows[limit - 1])) if len(rows) > limit else None
            return Page(shape(connection, rows[:limit]), more)

        return await self._run(read)


def _each(shape: Callable[[AnyRow], Wire]) -> Shape:
    return lambda connection, rows: [shape(row) for row in rows]


def _list_executions(connection: sa.Connection, rows: Sequence[AnyRow]) -> list[Wire]:
    failures = read_failures(connection, rows)
    return [execution_wire(row, failures.get((row.uid, row.execute_number))) for row in rows]


def _full(connection: sa.Connection, tenant: str, execution_id: str) -> Wire | None:
    row = _find(connection, tenant, execution_id)
    return None if row is None else _fill(connection, row)


def _fill(connection: sa.Connection, row: AnyRow) -> Wire:
    notifications = connection.execute(select_notifications(row.uid, row.execute_number))
    records = _records(connection, row)
    return {
        **execution_wire(row, None if row.error is None else failure_in(records)),
        "traceId": trace_id(row, records),
        "detail": "dropped" if row.dropped else "kept",
        "params": None if row.params is None else parse_kept(row.params),
        "paramsComplete": bool(row.params_complete),
        "attempts": assemble_attempts(records),
        "notifications": [notification_wire(found) for found in notifications],
    }


def _log(connection: sa.Connection, tenant: str, execution_id: str, start: int, limit: int) -> Page | None:
    row = _find(connection, tenant, execution_id)
    if row is None:
        return None
    notifications = connection.execute(select_notifications(row.uid, row.execute_number))
    lines = write_log(row, _records(connection, row), notifications)
    end = start + limit
    more = write_cursor(end) if len(lines) > end else None
    return Page([line.wire() for line in lines[start:end]], more)


def _exchanges(connection: sa.Connection, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
    row = _find(connection, tenant, execution_id)
    if row is None:
        return None
    steps = [record for record in _records(connection, row) if isinstance(record, StepEnded)]
    return _chain_of_last(step for step in steps if step.part is None)


def _chain_of_last(steps: Iterable[StepEnded]) -> dict[int, Exchange]:
    """What the last attempt sent, and before its first step what it kept of earlier ones (`retryFrom`)."""
    found: dict[int, Exchange] = {}
    newest_first = sorted(steps, key=_attempt_of, reverse=True)
    for _, sent in groupby(newest_first, key=_attempt_of):
        first = min(found, default=None)
        found |= {step.index: step.exchange for step in sent if first is None or step.index < first}
    return found


def _attempt_of(step: StepEnded) -> int:
    return step.request_counts


def _find(connection: sa.Connection, tenant: str, execution_id: str) -> AnyRow | None:
    key = parse_execution_id(execution_id)
    row = None if key is None else connection.execute(select_execution(*key)).first()
    return row if row is not None and row.tenant == tenant else None


def _records(connection: sa.Connection, row: AnyRow) -> list[Detail]:
    return decode_entries(connection.scalars(select_entries(row.uid, row.execute_number)))


def _execution_place(row: AnyRow) -> Place:
    return Place(row.created_at, row.execute_number, row.uid)


def _firing_place(row: AnyRow) -> Place:
    return Place(row.planned_at, row.execute_number, str(row.until))


def _delivery_place(row: AnyRow) -> Place:
    return Place(row.created_at, row.execute_number, row.delivery_id)
