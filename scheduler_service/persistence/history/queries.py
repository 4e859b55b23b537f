"""Queries of the history, the positions where its pages end, and the statements; a page needs one."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import PLANNED, ExecutionState, TriggeredBy
from scheduler_service.persistence.common.pagination import Number, mark_list, read_cursor
from scheduler_service.persistence.history.schema import (
    NOT_SUCCEEDED,
    deliveries,
    entries,
    executions,
    firings,
)
from scheduler_service.persistence.sql.expressions import JsonLists

Wire = dict[str, object]
MOST_LIVES = 100
"""An execution of a number is looked for in so many lives of a job."""
MOST_PLANNED = 20_000


class ExecutionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions, newest first. `planned_from` and `planned_to` (wall ms) are both included.

    `job_ids` restricts the result to these jobs: for a filter by `labels` they come from the catalogue.
    """

    tenant: str
    job_id: str | None = None
    job_ids: frozenset[str] | None = None
    state: ExecutionState | None = None
    error: str | None = None
    triggered_by: TriggeredBy | None = None
    uid: str | None = None
    execute_number: int | None = None
    planned_from: int | None = None
    planned_to: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    limit: int = 50
    cursor: str | None = None

    @property
    def mark(self) -> str:
        """That of its cursors. Jobs that get a label between two pages do not change it."""
        asked = (self.job_id, self.labels, self.state, self.error, self.triggered_by)
        return mark_list("executions", self.tenant, *asked)


class PlannedExecution(msgspec.Struct, frozen=True):
    """What became of a moment of a timer."""

    planned_at: int
    state: ExecutionState
    uid: str
    execute_number: int


class SeriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Buckets of `width` ms, a multiple of SLOT, from `first` (wall ms, a multiple of `width`) to `last`.

    `executions` says of which executions; its own span of time is not looked at.
    """

    executions: ExecutionQuery
    first: int
    last: int
    width: int


class FiringQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the ledger of one life of a job, newest first; both bounds are included."""

    uid: str
    planned_from: int | None = None
    planned_to: int | None = None
    limit: int = 50
    cursor: str | None = None

    @property
    def mark(self) -> str:
        """That of its cursors."""
        return mark_list("firings", self.uid)


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries, newest first."""

    tenant: str
    job_id: str | None = None
    job_ids: frozenset[str] | None = None
    state: str | None = None
    event: str | None = None
    limit: int = 50
    cursor: str | None = None

    @property
    def mark(self) -> str:
        """That of its cursors."""
        return mark_list("deliveries", self.tenant, self.job_id, self.state, self.event)


class ListPage(msgspec.Struct, frozen=True):
    """A part of a list in its wire form, and the cursor of what follows (None: nothing does)."""

    items: list[Wire]
    next_cursor: str | None = None

    def wire(self) -> Wire:
        """The list as the API returns it."""
        return {"items": self.items, "nextCursor": self.next_cursor}


class RowPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last row of a page: its moment, its number and its name, as the list is ordered."""

    moment: Number
    number: Number
    name: str


Selection = sa.Select[tuple[object, ...]]


class Listing(msgspec.Struct, frozen=True):
    """The first rows of a selection in the descending order of `place`, one more than a page has.

    It shows whether another page follows.
    """

    selection: Selection
    place: tuple[sa.ColumnElement[Any], ...]
    limit: int


def select_executions(query: ExecutionQuery, without: frozenset[str]) -> Listing:
    """Executions, newest first.

    Those of the jobs `without` are included only where the query names such a job.
    """
    table = executions.c
    conditions = [table.tenant == query.tenant]
    if query.job_id is not None:
        conditions.append(table.job_id == query.job_id)
    if query.job_ids is not None:
        conditions.append(table.job_id.in_(query.job_ids))
    if query.error is not None or query.state not in (None, ExecutionState.SUCCEEDED):
        conditions.append(NOT_SUCCEEDED)
    conditions += [*other_conditions(query, without), *between(table.planned_at, query)]
    place = (table.created_at, table.execute_number, table.uid)
    columns = [column for column in table if column is not table.params]
    return _page(sa.select(*columns).where(*conditions), place, query)


def other_conditions(query: ExecutionQuery, without: frozenset[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Those beside the tenant, the jobs that are asked for, and the time."""
    table = executions.c
    if query.job_id is None and without:
        yield table.job_id.not_in(without)
    if query.state is not None:
        yield table.state == query.state.value
    if query.error is not None:
        yield table.error == query.error
    if query.triggered_by is not None:
        yield table.triggered_by == query.triggered_by.value
    if query.uid is not None:
        yield table.uid == query.uid
    if query.execute_number is not None:
        yield table.execute_number == query.execute_number


def select_firings(query: FiringQuery) -> Listing:
    """The ledger of one life, latest planned moment first, with the states of the executions."""
    table = firings.c
    started = sa.and_(executions.c.uid == table.uid, executions.c.execute_number == table.execute_number)
    conditions = [table.uid == query.uid, *between(table.planned_at, query)]
    place = (table.planned_at, table.execute_number, sa.cast(table.until, sa.String))
    rows = sa.select(firings, executions.c.state).outerjoin_from(firings, executions, started)
    return _page(rows.where(*conditions), place, query)


def select_runs(uid: str, first: int, last: int, most: int) -> Selection:
    """Moments and counts of the oldest entries of the ledger of one life that touch this span."""
    table = firings.c
    touches = (table.uid == uid, table.planned_at <= last, table.until >= first)
    return (
        sa.select(table.planned_at, table.until, table.count.label("moments"))
        .where(*touches)
        .order_by(table.planned_at)
        .limit(most)
    )


def select_deliveries(query: DeliveryQuery) -> Listing:
    """The ids of deliveries, newest first, with their bytes and what their order needs."""
    table = deliveries.c
    place = (table.created_at, table.execute_number, table.delivery_id)
    size = (sa.func.length(table.payload) + sa.func.length(table.url)).label("size")
    wanted = sa.select(size, *place).where(table.tenant == query.tenant, *delivery_conditions(query))
    return _page(wanted, place, query)


def delivery_conditions(query: DeliveryQuery) -> Iterator[sa.ColumnElement[bool]]:
    """Those beside the tenant."""
    table = deliveries.c
    if query.job_id is not None:
        yield table.job_id == query.job_id
    if query.job_ids is not None:
        yield table.job_id.in_(query.job_ids)
    if query.state is not None:
        yield table.state == query.state
    if query.event is not None:
        yield table.event == query.event


def select_planned(tenant: str, job_id: str, first: int, last: int) -> Selection:
    """The columns of `PlannedExecution`, of the newest executions of a job's timer between two moments."""
    table = executions.c
    triggers = [trigger.value for trigger in PLANNED]
    is_wanted = (table.tenant == tenant, table.job_id == job_id, table.triggered_by.in_(triggers))
    return (
        sa.select(table.planned_at, table.state, table.uid, table.execute_number)
        .where(*is_wanted, table.planned_at.between(first, last))
        .order_by(table.created_at.desc())
        .limit(MOST_PLANNED)
    )


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


def find_numbered(connection: sa.Connection, tenant: str, job_id: str, number: int) -> str | None:
    """The uid of the life of a job that has an execution of this number; None: none of its lives has.

    Life by life from the newest on, each by its keys, so the number of executions does not matter.
    """
    table = executions.c
    own = sa.select(table.uid).where(table.tenant == tenant, table.job_id == job_id)
    newest = own.order_by(table.created_at.desc(), table.execute_number.desc()).limit(1)
    begun = sa.select(table.created_at).order_by(table.execute_number).limit(1)
    known: list[str] = []
    while len(known) < MOST_LIVES and (uid := connection.scalar(newest)) is not None:
        its = table.uid == uid
        if connection.scalar(sa.select(table.uid).where(its, table.execute_number == number)) is not None:
            return str(uid)
        known.append(uid)
        newest = newest.where(
            table.created_at <= connection.scalar(begun.where(its)), table.uid.not_in(known)
        )
    return None


def select_entry_sizes(
    uid: str, execute_number: int, after: tuple[int, int] | None, limit: int, *, is_newest_first: bool
) -> Selection:
    """`id`, `first`, `last` and `size` (bytes) of entries of one execution, in the order of their turns.

    `after`: `first` and `last` of the row before.
    """
    table = entries.c
    place = sa.tuple_(table.first, table.last)
    selection = sa.select(table.id, table.first, table.last, sa.func.length(table.payload).label("size"))
    selection = selection.where(table.uid == uid, table.execute_number == execute_number)
    if after is not None:
        selection = selection.where(place < after if is_newest_first else place > after)
    order = (table.first.desc(), table.last.desc()) if is_newest_first else (table.first, table.last)
    return selection.order_by(*order).limit(limit)


def select_notification_sizes(
    uid: str, execute_number: int, limit: int, request_counts: int | None = None
) -> Selection:
    """The ids of deliveries of one execution, or of one attempt of it, and their bytes; newest first."""
    table = deliveries.c
    selection = sa.select(table.delivery_id, sa.func.length(table.payload))
    selection = selection.where(table.uid == uid, table.execute_number == execute_number)
    if request_counts is not None:
        selection = selection.where(table.request_counts == request_counts)
    return selection.order_by(table.created_at.desc(), table.delivery_id.desc()).limit(limit)


def read_lists(
    connection: sa.Connection,
    rows: sa.Select[Any] | sa.TextualSelect,
    values: Mapping[str, object] | None = None,
) -> list[Any]:
    """The rows, a list each, by one JSON text: for each row the thread would wait for the interpreter."""
    text = connection.execute(sa.select(JsonLists(*rows.subquery("found").c)), values).scalar_one()
    found: list[Any] = msgspec.json.decode(text or "[]")
    return found


def between(
    column: sa.ColumnElement[int], query: ExecutionQuery | FiringQuery
) -> Iterator[sa.ColumnElement[bool]]:
    """Whether the column lies in the span of the query."""
    if query.planned_from is not None:
        yield column >= query.planned_from
    if query.planned_to is not None:
        yield column <= query.planned_to


def _page(
    selection: Selection,
    place: tuple[sa.ColumnElement[Any], ...],
    query: ExecutionQuery | FiringQuery | DeliveryQuery,
) -> Listing:
    if query.cursor is not None:
        # By the first condition the index finds the position; the second orders rows of one moment.
        last = read_cursor(query.mark, query.cursor, RowPlace)
        values = (last.moment, last.number, last.name)
        selection = selection.where(place[0] <= last.moment, sa.tuple_(*place) < values)
    return Listing(selection, place, query.limit + 1)
