"""Reads the history for lists, pages and the console; the loop never waits for the disk."""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, parse_execution_id
from scheduler_service.domain.records import Exchange, ResultKept
from scheduler_service.persistence.common.pagination import mark_list, read_cursor, write_cursor
from scheduler_service.persistence.history.answer_budget import AnswerBudget
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.day_statistics import DayQuery, collect_days, collect_top
from scheduler_service.persistence.history.execution_log import AnyRow, LinePlace, read_lines
from scheduler_service.persistence.history.full_executions import (
    NewestExecutions,
    read_in_full,
    read_newest_of_each,
)
from scheduler_service.persistence.history.history_counts import (
    collect_counts,
    collect_delivery_counts,
    collect_outcomes,
)
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    FiringQuery,
    Listing,
    ListPage,
    PlannedExecution,
    RowPlace,
    SeriesQuery,
    Wire,
    find_numbered,
    select_deliveries,
    select_execution,
    select_executions,
    select_firings,
    select_planned,
    select_runs,
)
from scheduler_service.persistence.history.row_shapes import (
    delivery_wire,
    execution_wire,
    firing_wire,
)
from scheduler_service.persistence.history.schema import deliveries
from scheduler_service.persistence.history.series import collect_series, collect_statistics, count_begun
from scheduler_service.persistence.history.stored_records import (
    read_callers,
    read_deliveries,
    read_failures,
    read_last_exchanges,
    read_result,
)
from scheduler_service.persistence.sql.database import DatabaseThreads

READERS = 2
PAGE_BYTES = 4 << 20
Shape = Callable[[sa.Connection, Sequence[AnyRow]], list[Wire]]
"""Rows of a list in wire form, with what else has to be read of them: the first ones where they are large."""


class FoundResult(msgspec.Struct, frozen=True):
    """How an execution stands, why it failed, whether its detail was dropped; `result` None: it has none."""

    state: ExecutionState
    error: str | None
    message: str | None
    dropped: bool
    result: ResultKept | None


class HistoryReads:
    """Results in wire form (SPEC section 10); None: the tenant has no such object.

    Everything raises StoreUnavailable; lists raise CursorError for a cursor of another list.

    Executions of `system_jobs`, the scheduler's own work, are listed only for a query that names one.
    """

    def __init__(self, *, database: HistoryDatabase, system_jobs: frozenset[str] = frozenset()) -> None:
        self._database = database
        self._system_jobs = system_jobs
        threads = DatabaseThreads(database, name="history-reader", count=READERS)
        self._run = threads.read
        self.close = threads.close

    async def executions(self, query: ExecutionQuery) -> ListPage:
        """Executions, newest first."""
        listing = select_executions(query, self._system_jobs)
        return await self._page(listing, query, _list_executions, _execution_place)

    async def planned(self, tenant: str, job_id: str, first: int, last: int) -> Sequence[PlannedExecution]:
        """The newest 20,000 executions of a job's timer, and of backfills, between two planned moments."""
        wanted = select_planned(tenant, job_id, first, last)
        rows = await self._run(lambda connection: connection.execute(wanted).all())
        return [
            PlannedExecution(row.planned_at, ExecutionState(row.state), row.uid, row.execute_number)
            for row in rows
        ]

    async def life_of(self, tenant: str, job_id: str, number: int) -> str | None:
        """The uid of the newest life of a job that has an execution of this number, or None."""
        return await self._run(lambda connection: find_numbered(connection, tenant, job_id, number))

    async def planned_runs(
        self, uid: str, first: int, last: int, most: int
    ) -> Sequence[tuple[int, int, int | None]]:
        """First and last moment and count of the oldest `most` entries of a ledger that touch a span."""
        wanted = select_runs(uid, first, last, most)
        rows = await self._run(lambda connection: connection.execute(wanted).all())
        return [(row.planned_at, row.until, row.moments) for row in rows]

    async def firings(self, query: FiringQuery) -> ListPage:
        """The ledger, latest planned moment first."""
        return await self._page(select_firings(query), query, _each(firing_wire), _firing_place)

    async def deliveries(self, query: DeliveryQuery) -> ListPage:
        """Deliveries, newest first; a page ends early where it has PAGE_BYTES."""
        return await self._page(select_deliveries(query), query, _list_deliveries, _delivery_place)

    async def delivery(self, tenant: str, delivery_id: str) -> Wire | None:
        """One delivery with its tries."""
        table = deliveries.c
        selection = sa.select(deliveries).where(table.delivery_id == delivery_id, table.tenant == tenant)
        found = await self._run(lambda connection: connection.execute(selection).first())
        return None if found is None else delivery_wire(found)

    async def execution(
        self, tenant: str, execution_id: str, request_counts: int | None = None
    ) -> Wire | None:
        """One execution in full: attempts with steps, checks and feedback, and notifications.

        Of more than an answer has room for (`AnswerRoom`) the newest. `request_counts`: that attempt alone.
        """

        def read(connection: sa.Connection) -> Wire | None:
            row = _find(connection, tenant, execution_id)
            return None if row is None else read_in_full(connection, row, AnswerBudget(), request_counts)

        return await self._run(read)

    async def log(
        self, tenant: str, execution_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> ListPage | None:
        """The log of an execution in order of time."""
        mark = mark_list("log", tenant, execution_id)
        after = None if cursor is None else read_cursor(mark, cursor, LinePlace)

        def read(connection: sa.Connection) -> ListPage | None:
            row = _find(connection, tenant, execution_id)
            if row is None:
                return None
            lines = read_lines(connection, row, after=after, limit=limit + 1)
            more = write_cursor(mark, lines[limit - 1][0]) if len(lines) > limit else None
            return ListPage([line.wire() for _, line in lines[:limit]], more)

        return await self._run(read)

    async def exchanges(self, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
        """The requests and responses of the last attempt, masked and cut, by step (for a replay).

        Where that attempt began at a later step (`retryFrom`), the responses that it reused are included.
        """

        def read(connection: sa.Connection) -> dict[int, Exchange] | None:
            row = _find(connection, tenant, execution_id)
            return None if row is None else read_last_exchanges(connection, row.uid, row.execute_number)

        return await self._run(read)

    async def result(self, tenant: str, execution_id: str) -> FoundResult | None:
        """How an execution stands, and what it was answered last, where that is kept (`keepResult`)."""

        def read(connection: sa.Connection) -> FoundResult | None:
            row = _find(connection, tenant, execution_id)
            if row is None:
                return None
            state, failures = ExecutionState(row.state), read_failures(connection, [row])
            kept = read_result(connection, row) if state is ExecutionState.SUCCEEDED else None
            failure = failures.get((row.uid, row.execute_number))
            message = None if failure is None else failure.message
            return FoundResult(state, row.error, message, bool(row.dropped), kept)

        return await self._run(read)

    async def params(self, tenant: str, execution_id: str) -> bytes | None:
        """The exact trigger parameters (for a replay); None where they were masked, cut or dropped."""
        row = await self._run(lambda connection: _find(connection, tenant, execution_id))
        return row.params if row is not None and row.params_complete else None

    async def children_latest(
        self, tenant: str, job_ids: Sequence[str], *, room: AnswerBudget, limit: int
    ) -> NewestExecutions:
        """The newest execution of each of these jobs, in full, as far as `room` and `limit` go.

        A job without any is left out. What is in `room` already is of the same answer.
        """
        return await self._run(
            lambda connection: read_newest_of_each(connection, tenant, job_ids, room, limit)
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

    async def begun(self, tenant: str, now: int) -> int:
        """How many executions began within the minute before `now` (wall ms)."""
        own = self._system_jobs
        return await self._run(lambda connection: count_begun(connection, tenant, now, own))

    async def days(self, query: DayQuery) -> Wire:
        """The statistics per day: `total` and `days`."""
        return await self._run(lambda connection: collect_days(connection, query))

    async def top(self, query: DayQuery) -> Wire:
        """The jobs that failed most and those that took longest: `failing` and `slowest`."""
        return await self._run(lambda connection: collect_top(connection, query, self._system_jobs))

    async def _page(
        self,
        listing: Listing,
        query: ExecutionQuery | FiringQuery | DeliveryQuery,
        shape: Shape,
        place: Callable[[AnyRow], RowPlace],
    ) -> ListPage:
        limit, dialect = query.limit, self._database.dialect

        def read(connection: sa.Connection) -> ListPage:
            rows = dialect.first_rows(connection, listing.selection, listing.place, listing.limit)
            items = shape(connection, rows[:limit])
            goes_on = len(items) < len(rows)
            return ListPage(items, write_cursor(query.mark, place(rows[len(items) - 1])) if goes_on else None)

        return await self._run(read)


def _each(shape: Callable[[AnyRow], Wire]) -> Shape:
    return lambda connection, rows: [shape(row) for row in rows]


def _list_executions(connection: sa.Connection, rows: Sequence[AnyRow]) -> list[Wire]:
    failures, callers = read_failures(connection, rows), read_callers(connection, rows)
    keyed = (((row.uid, row.execute_number), row) for row in rows)
    return [execution_wire(row, failures.get(key), callers.get(key)) for key, row in keyed]


def _list_deliveries(connection: sa.Connection, rows: Sequence[AnyRow]) -> list[Wire]:
    items: list[Wire] = []
    size = 0
    for row in read_deliveries(connection, [(one.delivery_id, one.size) for one in rows]):
        item = delivery_wire(row)
        size += len(msgspec.json.encode(item))
        if items and size > PAGE_BYTES:
            break
        items.append(item)
    return items


def _find(connection: sa.Connection, tenant: str, execution_id: str) -> AnyRow | None:
    key = parse_execution_id(execution_id)
    row = None if key is None else connection.execute(select_execution(*key)).first()
    return row if row is not None and row.tenant == tenant else None


def _execution_place(row: AnyRow) -> RowPlace:
    return RowPlace(row.created_at, row.execute_number, row.uid)


def _firing_place(row: AnyRow) -> RowPlace:
    return RowPlace(row.planned_at, row.execute_number, str(row.until))


def _delivery_place(row: AnyRow) -> RowPlace:
    return RowPlace(row.created_at, row.execute_number, row.delivery_id)
