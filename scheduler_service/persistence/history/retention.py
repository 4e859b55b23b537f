"""Removes history that is kept no longer, in small steps between the writer's own (SPEC section 12).

Each step works on many rows at once, in a transaction of the writer. The keys of the rows to delete are found
once: other nodes may write between two statements (`Dialect.hold`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple

from scheduler_service.domain.execution import TERMINAL
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_statistics import SLOT, SLOT_DAYS, fold_days
from scheduler_service.persistence.history.schema import (
    deliveries,
    entries,
    executions,
    firings,
    statistic_cells,
    statistic_days,
    statistic_slots,
)
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import IsIn, StoredSize, json_rows
from scheduler_service.persistence.tables.audit_lines import audit

# Removal under pressure goes on to this part of `max_bytes`, so that the next flush does not reach it again.
TARGET_FILL = 0.9


class RemovedRows(msgspec.Struct, frozen=True):
    """How much was removed; `entries` are rows of detail removed because of `max_bytes`."""

    executions: int = 0
    notifications: int = 0
    firings: int = 0
    entries: int = 0

    def plus(self, other: "RemovedRows") -> "RemovedRows":
        """Both together."""
        return RemovedRows(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class Retention:
    """What is kept: of each job the newest `count` executions, and all that ended less than `age` ms ago.

    `ages` has other ages for outcomes (terminal states). `max_bytes` None: no bound on the size.
    `statistics_days` are kept of the statistics per day, and `audit_age` ms of the audit, whatever becomes of
    the executions. `most_of` is how many executions of a tenant are kept at most; 0: any number. Those of
    `system_jobs`, the scheduler's own work in the tenant `default`, are none of them.
    """

    def __init__(
        self,
        *,
        writer: HistoryWriter,
        count: int = 10,
        age: int = 5 * DAY,
        ages: Mapping[str, int] | None = None,
        max_bytes: int | None = None,
        statistics_days: int = 400,
        audit_age: int = 365 * DAY,
        most_of: Callable[[str], int] | None = None,
        system_jobs: Collection[str] = (),
    ) -> None:
        self._writer = writer
        self._removal = Removal(writer.dialect)
        self._count = count
        self._ages = dict.fromkeys(TERMINAL, age) | dict(ages or {})
        self._max_bytes = max_bytes
        self._statistics_days = statistics_days
        self._audit_age = audit_age
        self._most_of = most_of
        self._system_jobs = system_jobs

    async def run(self, now: int) -> RemovedRows:
        """One pass at `now` (wall ms): by age, then by size; then unused space goes back to the disk.

        Days of the statistics that are over are folded, old ones removed.

        Executions that have not ended stay. Raises StoreUnavailable; what was removed by then is gone.
        """
        before = {state: now - age for state, age in self._ages.items()}
        removed = await self._walk(retain=self._count, before=before, tenant=None)
        removed = removed.plus(await self._limit_tenants())
        firings = await self._repeat(partial(self._removal.remove_firings, min(before.values())))
        removed = removed.plus(RemovedRows(firings=firings))
        await self._repeat(partial(self._removal.remove_old, audit.c.at, now - self._audit_age))
        await self._tend_statistics(now // DAY)
        removed = removed.plus(await self._relieve())
        await self._repeat(self._removal.give_back)
        return removed

    async def clean(
        self,
        *,
        retain: int,
        destroyed: Sequence[str] = (),
        spared: Sequence[str] = (),
        tenant: str | None = None,
    ) -> dict[str, int]:
        """Removes all of the `destroyed` lives (uids), and of every job but the `spared` ones all but its
        newest `retain`.

        Returns `{jobs, executions, notifications}`; `jobs` counts the lives of which there was history
        (`DELETE /main/schedule/clean`, SPEC section 10). `tenant` None: of all. Raises StoreUnavailable.
        """
        removed = RemovedRows()
        uids = list(destroyed)
        jobs = await self._writer.perform(partial(self._removal.count_lives, uids))
        while (
            batch := await self._writer.perform(partial(self._removal.remove_lives, uids))
        ) != RemovedRows():
            removed = removed.plus(batch)
        removed = removed.plus(await self._walk(retain=retain, before=None, tenant=tenant, spared=spared))
        await self._repeat(self._removal.give_back)
        return {"jobs": jobs, "executions": removed.executions, "notifications": removed.notifications}

    async def lives(self, tenant: str, jobs: Mapping[str, int]) -> list[str]:
        """All lives (uids) with executions, up to the last `executeNumber` of each job. Numbers go on from
        life to life, so a life that began since then is not among them. Raises StoreUnavailable.
        """
        return await self._writer.perform(partial(self._removal.find_lives, jobs, tenant))

    async def _repeat(self, step: Callable[[sa.Connection], int]) -> int:
        """Takes small steps until there is nothing to do; the history is written between them. Their sum."""
        total = 0
        while number := await self._writer.perform(step):
            total += number
        return total

    async def _walk(
        self,
        *,
        retain: int,
        before: Mapping[str, int] | None,
        tenant: str | None,
        spared: Sequence[str] = (),
    ) -> RemovedRows:
        trim = Trim(retain=retain, before=before, tenant=tenant, spared=spared)
        removed, mark = await self._writer.perform(partial(self._removal.trim, trim, None))
        while mark is not None:
            batch, mark = await self._writer.perform(partial(self._removal.trim, trim, mark))
            removed = removed.plus(batch)
        return removed

    async def _limit_tenants(self) -> RemovedRows:
        """Of each tenant with more executions than it may have, the oldest that have ended."""
        removed = RemovedRows()
        tenant = None if self._most_of is None else await self._writer.perform(self._removal.first_tenant)
        while tenant is not None and self._most_of is not None:
            without = self._system_jobs if tenant == DEFAULT_TENANT else ()
            counted = LimitedExecutions(tenant, without)
            since = await self._writer.perform(
                partial(self._removal.oldest_kept, counted, self._most_of(tenant))
            )
            step = partial(self._removal.remove_before, counted, since)
            while since is not None and (batch := await self._writer.perform(step)) != RemovedRows():
                removed = removed.plus(batch)
            tenant = await self._writer.perform(partial(self._removal.first_tenant, after=tenant))
        return removed

    async def _tend_statistics(self, today: int) -> None:
        """The day before today may still get executions that run over midnight: it is left as it is."""
        oldest = today - self._statistics_days
        for age, before in (
            (statistic_cells.c.day, oldest),
            (statistic_days.c.day, oldest),
            (statistic_slots.c.slot, (today - SLOT_DAYS) * DAY // SLOT),
        ):
            await self._repeat(partial(self._removal.remove_old, age, before))
        await self._repeat(partial(fold_days, self._writer.dialect, today - 1))

    async def _relieve(self) -> RemovedRows:
        """Removes detail, oldest first, but never the executions' own rows."""
        removed = RemovedRows()
        if self._max_bytes is None:
            return removed
        used = await self._writer.perform(self._removal.measure)
        if used <= self._max_bytes:
            return removed
        while used > self._max_bytes * TARGET_FILL:
            entries, used = await self._writer.perform(partial(self._removal.drop_detail, used))
            if not entries:
                break
            removed = removed.plus(RemovedRows(entries=entries))
        return removed


# How many rows one step looks at: longer ones keep the writer from its load.
WINDOW_ROWS = 2_000
# Rows of detail are larger.
DETAIL_ROWS = WINDOW_ROWS // 4
# What a row of detail takes beside its content, roughly.
ROW_BYTES = 250
# What `max_bytes` counts, where tables are measured one by one.
MEASURED = (executions, entries, firings, deliveries, statistic_cells, statistic_days)
# Parameters that say nothing stay where detail is removed.
NO_PARAMS = b"{}"
# A part of the statement's text: where it is a parameter, PostgreSQL comes to plan for far fewer rows.
_WINDOW = sa.literal_column(str(WINDOW_ROWS), sa.Integer)
_LAST = sa.literal_column(str(WINDOW_ROWS - 1), sa.Integer)

# Where a walk goes on: the last row that it has seen, in `Dialect.row_order`.
Mark = tuple[object, ...]


class Trim(msgspec.Struct, frozen=True, kw_only=True):
    """What ended before the moment of its state (None: whenever), but the newest `retain` of each job, and
    all of the `spared` jobs.
    """

    retain: int
    before: Mapping[str, int] | None
    tenant: str | None
    spared: Sequence[str] = ()


class LimitedExecutions(msgspec.Struct, frozen=True):
    """The executions of a tenant that its limit is about: all but those of the jobs `without`."""

    tenant: str
    without: Collection[str]

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Of their rows. Where no job is left out, an index has all that is read."""
        table = executions.c
        own = table.tenant == self.tenant
        return [own, table.job_id.not_in(self.without)] if self.without else [own]


class Removal:
    """The steps of a removal; each runs in a transaction that its caller opens."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def trim(
        self, trim: Trim, mark: Mark | None, connection: sa.Connection
    ) -> tuple[RemovedRows, Mark | None]:
        """Looks at a window of rows behind `mark`; what was removed, and where to go on (None: the end)."""
        order = self._dialect.row_order(executions)
        # By the first column all databases find the position; the rest orders rows that have it in common.
        within = [] if mark is None else [order[0] >= mark[0], sa.tuple_(*order) > _literal(mark)]
        window = sa.select(*order).select_from(executions).where(*within).order_by(*order)
        last = connection.execute(window.limit(1).offset(_LAST)).first()
        if last is not None:  # else it is the last window: what comes meanwhile has none of its own
            within += [order[0] <= last[0], sa.tuple_(*order) <= _literal(last)]
        removed = self._remove(connection, [*within, *_trimmed(trim)])
        return removed, None if last is None else tuple(last)

    def first_tenant(self, connection: sa.Connection, after: str = "") -> str | None:
        """The first tenant after this one that has executions; None: there is none."""
        statement = sa.select(sa.func.min(executions.c.tenant)).where(executions.c.tenant > after)
        found: str | None = connection.execute(statement).scalar_one()
        return found

    def oldest_kept(self, counted: LimitedExecutions, most: int, connection: sa.Connection) -> int | None:
        """When the oldest of the newest `most` executions was created (wall ms); None: there are not so many,
        or `most` is 0. It reads so many rows: once in a pass.
        """
        table = executions.c
        newest = sa.select(table.created_at).where(*counted.conditions()).order_by(table.created_at.desc())
        found: int | None = connection.execute(newest.limit(1).offset(most - 1)).scalar() if most else None
        return found

    def remove_before(
        self, counted: LimitedExecutions, since: int | None, connection: sa.Connection
    ) -> RemovedRows:
        """Removes some of the executions that were created before `since` and have ended."""
        table = executions.c
        has_ended = table.state.in_([str(state) for state in TERMINAL])
        return self._remove(connection, [*counted.conditions(), table.created_at < since, has_ended])

    def find_lives(self, jobs: Mapping[str, int], tenant: str, connection: sa.Connection) -> list[str]:
        """The lives (uids) with executions up to the last `executeNumber` of each job."""
        wanted, table = _rows(jobs.items()), executions.c
        found = (
            sa.select(table.uid)
            .distinct()
            .join_from(wanted, executions, table.job_id == wanted.c.name)
            .where(table.tenant == tenant, table.execute_number <= wanted.c.number)
        )
        return list(connection.scalars(found))

    def count_lives(self, uids: Sequence[str], connection: sa.Connection) -> int:
        """Of how many of these lives there is history."""
        wanted = _rows((uid,) for uid in uids)
        has_history = [
            sa.select(1).where(table.c.uid == wanted.c.name).exists() for table in (executions, firings)
        ]
        statement = sa.select(sa.func.count()).select_from(wanted).where(sa.or_(*has_history))
        return connection.execute(statement).scalar_one()

    def remove_lives(self, uids: Sequence[str], connection: sa.Connection) -> RemovedRows:
        """Removes a part of what there is of these lives; nothing removed: nothing is left."""
        removed = self._remove(connection, [_is_of(executions, uids)])
        if removed.executions:
            return removed
        # What belongs to no execution: missed firings, and deliveries that came too late.
        return RemovedRows(
            firings=self._delete_window(connection, firings, [_is_of(firings, uids)]),
            notifications=self._delete_window(connection, deliveries, [_is_of(deliveries, uids)]),
        )

    def remove_firings(self, before: int, connection: sa.Connection) -> int:
        """Removes firings recorded before a moment that never had an execution, or have it no more."""
        its = (executions.c.uid == firings.c.uid) & (executions.c.execute_number == firings.c.execute_number)
        is_orphan = ~sa.select(1).where(its).exists()
        return self._delete_window(connection, firings, [firings.c.at < before, is_orphan])

    def remove_old(self, age: sa.Column[int], before: int, connection: sa.Connection) -> int:
        """Removes some rows of the table of `age` where that is less than `before`; how many."""
        return self._delete_window(connection, age.table, [age < before])

    def drop_detail(self, used: int, connection: sa.Connection) -> tuple[int, int]:
        """Removes the oldest detail and marks its executions: how many rows, and the bytes in use then."""
        table = entries.c
        oldest = sa.select(table.uid, table.execute_number, table.id).order_by(table.id).limit(DETAIL_ROWS)
        held = self._dialect.hold(connection, oldest)
        is_held = self._dialect.among((table.id,), (held.c.other,))
        size = sa.func.coalesce(sa.func.sum(StoredSize(table.payload) + ROW_BYTES), 0)
        freed = int(connection.execute(sa.select(size).where(is_held)).scalar_one())
        self._mark_cleared(connection, held)
        gone = connection.execute(sa.delete(entries).where(is_held)).rowcount
        return gone, self._dialect.used_after(connection, used - freed)

    def _remove(self, connection: sa.Connection, conditions: Iterable[sa.ColumnElement[Any]]) -> RemovedRows:
        """Removes executions, at most WINDOW_ROWS, with all that belongs to them."""
        table = executions.c
        found = sa.select(table.uid, table.execute_number, table.planned_at).where(*conditions).limit(_WINDOW)
        held = self._dialect.hold(connection, found)
        fired = (firings.c.uid, firings.c.planned_at, firings.c.execute_number)
        is_fired = self._dialect.among(fired, (held.c.name, held.c.other, held.c.number))
        notifications, _, started, ended = (
            connection.execute(sa.delete(one).where(condition)).rowcount
            for one, condition in (
                (deliveries, _among(self._dialect, deliveries, held)),
                (entries, _among(self._dialect, entries, held)),
                (firings, is_fired),
                (executions, _among(self._dialect, executions, held)),
            )
        )
        return RemovedRows(ended, notifications, started)

    def measure(self, connection: sa.Connection) -> int:
        """The bytes that the history uses."""
        return self._dialect.measure(connection, MEASURED)

    def give_back(self, connection: sa.Connection) -> bool:
        """Returns a part of the unused space to the disk; whether there is more."""
        return self._dialect.give_back(connection)

    def _mark_cleared(self, connection: sa.Connection, keys: sa.FromClause) -> None:
        table = executions.c
        is_bare = table.params == NO_PARAMS
        statement = sa.update(executions).where(_among(self._dialect, executions, keys))
        connection.execute(
            statement.values(
                dropped=1,
                params=sa.case((is_bare, table.params)),
                params_complete=sa.case((is_bare, table.params_complete), else_=0),
            )
        )

    def _delete_window(
        self, connection: sa.Connection, table: sa.Table, conditions: Iterable[sa.ColumnElement[Any]]
    ) -> int:
        key = tuple(table.primary_key)
        window = sa.select(*key).where(*conditions).limit(_WINDOW).correlate(None).subquery("window")
        return connection.execute(sa.delete(table).where(self._dialect.among(key, window.c))).rowcount


def _trimmed(trim: Trim) -> list[sa.ColumnElement[bool]]:
    """The conditions of rows of `executions` that `trim` removes."""
    table = executions.c
    conditions: list[sa.ColumnElement[bool]]
    if trim.before is None:
        conditions = [table.state.in_([str(state) for state in TERMINAL])]
    else:
        ended = sa.func.coalesce(table.ended_at, table.created_at)
        old = ((table.state == str(state)) & (ended < moment) for state, moment in trim.before.items())
        conditions = [sa.or_(*old)]
    if trim.tenant is not None:
        conditions.append(table.tenant == trim.tenant)
    if trim.spared:
        conditions.append(~IsIn(table.job_id, sa.literal(_encode(trim.spared))))
    if trim.retain:
        newer = executions.alias("newer").c
        later = sa.select(1).where(
            newer.tenant == table.tenant,
            newer.job_id == table.job_id,
            newer.created_at >= table.created_at,
            sa.tuple_(newer.created_at, newer.execute_number)
            > sa.tuple_(table.created_at, table.execute_number),
        )
        conditions.append(later.limit(1).offset(trim.retain - 1).exists())
    return conditions


def _among(dialect: Dialect, table: sa.Table, keys: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether a row belongs to one of the executions of `keys`."""
    return dialect.among((table.c.uid, table.c.execute_number), (keys.c.name, keys.c.number))


def _is_of(table: sa.Table, uids: Sequence[str]) -> IsIn:
    return IsIn(table.c.uid, sa.literal(_encode(uids)))


def _rows(rows: Iterable[tuple[object, ...]]) -> sa.TableValuedAlias:
    return json_rows(sa.literal(_encode(list(rows))))


def _encode(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()


def _literal(values: Iterable[object]) -> sa.Tuple:
    return sa.tuple_(*(sa.literal(value) for value in values))
