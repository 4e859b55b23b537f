"""The store of a service that is alone, or of one of its worker processes.

A turn is one transaction, as in a cluster; each process has the jobs that it owns, their notifications and
their records. A cluster does not enter such a database, and such a service does not enter a cluster's.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Self, TypeVar

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.common.packing import read_deliveries
from scheduler_service.persistence.common.pagination import count_fitting
from scheduler_service.persistence.job_store import counters_and_leases
from scheduler_service.persistence.job_store.claim_rows import (
    CHANGED_DELIVERIES,
    OWN_CLAIMS,
    RECORDS,
    SettledDeliveries,
    delivery_of,
    records_of,
)
from scheduler_service.persistence.job_store.database import JobDatabase, OnTrouble
from scheduler_service.persistence.job_store.database_lock import ServiceLock
from scheduler_service.persistence.job_store.job_store_schema import outbox, untold
from scheduler_service.persistence.job_store.record_groups import BEHIND_GROUPS, BatchKey, RecordGroups
from scheduler_service.persistence.job_store.row_cache import KnownRows
from scheduler_service.persistence.job_store.turn_store import (
    TurnStore,
    forget_job,
    plan_claims,
    read_batches,
)
from scheduler_service.persistence.queues.sql_queues import SqlQueues
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Contains, IsIn, TextBytes
from scheduler_service.persistence.sql.job_catalogue import write_ids
from scheduler_service.persistence.sql.job_tables import (
    ANSWERS,
    answer_of,
    forget_answers,
    jobs,
    recall,
    remember_first,
)
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, OpenJob, Remembered, Settlement, StoredJob
from scheduler_service.telemetry.metrics.metric_list import Sample

CLOCK_SKEW, NODE_ID = "clock_skew", "node_id"
OF_THIS_SERVICE = Holder("", "")
"""Rows name no other holder: all of them are of one service."""
Found = TypeVar("Found")
Work = Callable[[sa.Connection], object]
Write = TurnClaim | SettledDeliveries | Work
Conditions = Sequence[sa.ColumnElement[bool]]
Owns = Callable[[str], bool]
"""Whether a job belongs to this process."""
MAX_CONFIRMED = 1_024
"""So many records that the history has are left in the database."""
CONFIRMED_SECONDS = 10.0
"""Nor for longer: what is left at a kill is told to the history again, which may have removed it since."""
_DROP_DELIVERIES = sa.delete(outbox).where(IsIn(outbox.c.delivery_id, sa.bindparam("ids", type_=sa.Text)))
_AFTER: sa.BindParameter[str] = sa.bindparam("after", type_=sa.Text)
_LIMIT: sa.BindParameter[int] = sa.bindparam("limit", type_=sa.Integer)
_open = sa.select(jobs.c.job_id).where(jobs.c.live > 0, jobs.c.job_id > _AFTER)
_OPEN = _open.order_by(jobs.c.job_id).limit(_LIMIT)
_uid: sa.BindParameter[str] = sa.bindparam("uid", type_=sa.Text)
_sequence: sa.BindParameter[int] = sa.bindparam("sequence", type_=sa.BigInteger)
# MariaDB makes no range of a comparison of rows.
_is_later = (untold.c.uid >= _uid, sa.or_(untold.c.uid > _uid, untold.c.sequence > _sequence))


class _Page(msgspec.Struct, frozen=True):
    """A page of rows whose `content` may be large: their sizes, and then as many as fit."""

    sizes: sa.Select[Any]
    rows: sa.Select[Any]


def _page_of(table: sa.Table, conditions: Conditions, *columns: sa.ColumnElement[Any]) -> _Page:
    order = tuple(table.primary_key)
    sizes = sa.select(sa.func.length(table.c.content)).where(*conditions).order_by(*order).limit(_LIMIT)
    return _Page(sizes, sa.select(*columns).where(*conditions).order_by(*order).limit(_LIMIT))


_is_open, _place = outbox.c.done_at.is_(None), TextBytes(outbox.c.delivery_id)
_DELIVERIES, _DELIVERIES_BEHIND_DAMAGE = (
    _page_of(outbox, (is_later, _is_open), _place.label("place"), outbox.c.content)
    for is_later in (outbox.c.delivery_id > _AFTER, _place > sa.bindparam("after", type_=sa.LargeBinary))
)
_RECORDS = _page_of(untold, _is_later, untold.c.content)


def _select_due(due: sa.Column[int]) -> sa.Select[Any]:
    before, moment = (sa.bindparam(name, type_=sa.BigInteger) for name in ("before", "moment"))
    is_next = sa.or_(due > moment, sa.and_(due == moment, jobs.c.job_id > _AFTER))
    wanted = sa.select(due, jobs.c.job_id).where(due <= before, due >= moment, is_next)
    return wanted.order_by(due, jobs.c.job_id).limit(_LIMIT)


_DUE_WALL, _DUE_STEADY = map(_select_due, (jobs.c.due_wall, jobs.c.due_steady))


def owns_all(_: str) -> bool:
    """Of a service in one process."""
    return True


plan_own_claims = partial(plan_claims, statement=OWN_CLAIMS)


class SqlStateStore:
    """`ports.state.OpenStore`, which documents the methods.

    Several processes may have one open, each with the jobs that it `owns`: it alone commits their turns and
    forgets them. What a start asks for (alarms, open jobs, deliveries, records) are those of its own jobs;
    all else is the same in all processes, and written by any of them. Over a destroyed job a commit may
    expect 0 or the destruction's sequence.
    """

    def __init__(
        self,
        *,
        database: JobDatabase,
        started: "ServiceStart",
        owns: Owns = owns_all,
        known: KnownRows | None = None,
        before_close: Callable[[], Awaitable[None]] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """`known`: what is known of rows, where a turn costs less that names few columns.

        `before_close` is awaited when all is written, and `on_close` is called when the database is closed.
        """
        self.boot = started.boot
        self.node_id = started.node_id
        self._service = started.service
        self._database = database
        self._dialect = database.dialect
        self._owns = owns
        self._known = known
        self._before_close, self._on_close = before_close, on_close
        self._groups = RecordGroups(boot=started.boot)
        database.follow_writes(self._groups.settle)
        self._turns = TurnStore(
            database=database,
            plan=plan_own_claims if known is None else known.plan,
            record_rows=self._groups.rows_of,
        )
        self.catalogue, self.definition = self._turns.catalogue, self._turns.definition
        self.queues = SqlQueues(dialect=self._dialect, write=self._run, read=database.read_soon)
        self._confirmed: set[BatchKey] = set()
        self._confirmations = 0  # since the rows of `_confirmed` were deleted
        self._dropping: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def commits_waiting(self) -> int:
        return self._database.commits_waiting

    def samples(self, *, is_away: bool = False) -> Iterable[Sample]:
        """The figures of its transactions, and whether it is up, which it is not while it `is_away`."""
        return self._database.samples(is_away=is_away)

    async def load(self, job_id: str) -> StoredJob | None:
        row = await self._turns.load(job_id)
        if row is None:
            return None
        job = StoredJob(row.entry, row.sequence, row.state, row.due)
        if self._known is not None:
            self._known.note(job)
        return job

    def commit(self, commit: Commit) -> Awaitable[None]:
        work = self._write  # not by `_put`: each turn comes here twice
        return self._database.write_together(work, _claim_of(commit), may_wait=commit.may_wait)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        return await self._database.write_all(self._write, list(map(_claim_of, commits)))

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        return self._put(SettledDeliveries(tuple(settlements)))

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        return self._put(partial(self._remember, kept=remembered))

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        return self._put(partial(remember_first, dialect=self._dialect, kept=remembered, since=since))

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        return await self._database.read_soon(partial(recall, scope=scope, key=key, since=since))

    def written(self, keys: Sequence[BatchKey]) -> Awaitable[None]:
        self._confirmed.update(self._groups.confirm(keys))
        self._confirmations += len(keys)
        if self._confirmations >= MAX_CONFIRMED and self._confirmed:
            return self._drop_confirmed()
        self._drop_later()
        nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        nothing.set_result(None)
        return nothing

    def forget(self, job_id: str) -> Awaitable[bool]:
        return self._put(partial(forget_job, job_id=job_id))

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due(_DUE_WALL, before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due(_DUE_STEADY, before, limit, after)

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        own: list[str] = []
        is_last = False
        while len(own) < limit and not is_last:
            page = [row[0] for row in await self._fetch(_OPEN, {"after": after, "limit": limit})]
            own += filter(self._owns, page)
            is_last = len(page) < limit
            after = page[-1] if page else after
        state = jobs.c.turn_state
        is_marked = sa.or_(sa.false(), *(Contains(state, mark) for mark in marks))
        columns = sa.select(jobs.c.job_id, is_marked, sa.func.length(state)).order_by(jobs.c.job_id)
        asked = columns.where(IsIn(jobs.c.job_id, sa.literal(write_ids(own[:limit]))))
        rows = await self._fetch(asked, {})
        return [OpenJob(job_id, bool(marked), size) for job_id, marked, size in rows]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        while rows := await self._deliveries_behind(after, limit):
            page = read_deliveries(rows)
            own = [one for one in page if self._owns(one.job_id)]
            if own or limit == 1:  # whoever asks for one wants that one
                return own
            after = page[-1].delivery_id
        return []

    async def _deliveries_behind(self, after: str, limit: int) -> Sequence[Any]:
        try:
            after.encode()
        except UnicodeEncodeError:  # the id of one that is damaged
            values = {"after": after.encode(errors="surrogateescape")}
            return await self._read_page(_DELIVERIES_BEHIND_DAMAGE, values, limit)
        return await self._read_page(_DELIVERIES, {"after": after}, limit)

    async def unwritten(self, after: BatchKey, limit: int) -> list[Batch]:
        await self._drop_confirmed()
        place: int | None = 0
        while place is not None:
            place = await self._put(
                partial(self._groups.divide, dialect=self._dialect, owns=self._owns, after=place)
            )
        after = max(after, BEHIND_GROUPS)
        while rows := await self._read_page(_RECORDS, {"uid": after[0], "sequence": after[1]}, limit):
            page = read_batches(content for (content,) in rows)
            if own := [one for one in page if self._owns(one.job_id)]:
                return own
            after = (page[-1].uid, page[-1].sequence)
        return []

    async def clock_skew(self) -> int:
        return await self._database.read_soon(partial(counters_and_leases.read_number, mark=CLOCK_SKEW))

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        return self._put(
            partial(counters_and_leases.set_number, dialect=self._dialect, mark=CLOCK_SKEW, value=skew)
        )

    async def close(self) -> None:
        """Writes what was put in, then leaves the database. A second call waits with the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        with contextlib.suppress(StoreError):  # the next start does it
            await self._drop_confirmed()
        await self._database.end_writing()
        if self._before_close is not None:
            await self._before_close()
        await self._database.close()
        if self._on_close is not None:
            self._on_close()

    def _put(self, value: Write) -> asyncio.Future[Any]:
        return self._database.write_together(self._write, value)

    def _drop_later(self) -> None:
        if self._dropping is None and self._confirmed and self._closing is None:
            loop = asyncio.get_running_loop()
            self._dropping = loop.call_later(CONFIRMED_SECONDS, self._drop_confirmed)

    def _drop_confirmed(self) -> Awaitable[None]:
        """Deletes the records that the history has, behind the deletions under way.

        What could not be deleted is tried again with the next, or in CONFIRMED_SECONDS.
        """
        if self._dropping is not None:
            self._dropping.cancel()
            self._dropping = None
        dropped, self._confirmed = tuple(self._confirmed), set()
        self._confirmations = 0
        ended = self._put(partial(self._turns.forget_records, keys=dropped))

        def note(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._confirmed.update(dropped)
                self._confirmations = MAX_CONFIRMED
                self._drop_later()

        ended.add_done_callback(note)
        return ended

    async def _run(self, work: Callable[[sa.Connection], Found]) -> Found:
        found: Found = await self._put(work)
        return found

    def _write(self, connection: sa.Connection, values: Sequence[Write]) -> list[object]:
        """The verdict on each of `values`, which take effect in their order."""
        self._groups.begin()
        if self._service is not None:
            counters_and_leases.check_service(connection, self._service)
        verdicts: list[object] = []
        for kind, some in groupby(values, type):
            same: list[Any] = list(some)
            if kind is TurnClaim:
                verdicts += self._write_claims(connection, same)
            elif kind is SettledDeliveries:
                self._settle(connection, [settlement for one in same for settlement in one.settlements])
                verdicts += [None] * len(same)
            else:
                verdicts += [work(connection) for work in same]
        return verdicts

    def _write_claims(self, connection: sa.Connection, claims: Sequence[TurnClaim]) -> Sequence[object]:
        verdicts = self._turns.write_claims(connection, claims)
        kept = [one.commit.remembered for one in claims if one.commit.remembered is not None]
        if kept:
            forget_answers(connection, before=max(one.since for one in kept))
        if self._known is not None:
            self._known.settle(claims, verdicts)
        return verdicts

    def _settle(self, connection: sa.Connection, settlements: Sequence[Settlement]) -> None:
        """Of several of one delivery the last one counts."""
        latest = {one.delivery.delivery_id: one for one in settlements}
        done = [name for name, one in latest.items() if one.done]
        left = [delivery_of(one.delivery, OF_THIS_SERVICE) for one in latest.values() if not one.done]
        records = records_of((one.batch for one in settlements if one.batch is not None), OF_THIS_SERVICE)
        self._turns.insert(connection, (RECORDS, records), (CHANGED_DELIVERIES, left))
        if done:
            connection.execute(_DROP_DELIVERIES, {"ids": write_ids(done)})

    def _remember(self, connection: sa.Connection, kept: Remembered) -> None:
        self._turns.insert(connection, (ANSWERS, [answer_of(kept)]))
        forget_answers(connection, before=kept.since)

    async def _due(
        self, statement: sa.Select[Any], before: int, limit: int, after: int
    ) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        place = (after + 1, "")
        is_last = False
        while len(found) < limit and not is_last:
            values = {"before": before, "moment": place[0], "after": place[1], "limit": limit}
            page = await self._fetch(statement, values)
            found += [(moment, job_id) for moment, job_id in page if self._owns(job_id)]
            is_last = len(page) < limit
            place = (page[-1][0], page[-1][1]) if page else place
        return found[:limit]

    async def _fetch(self, statement: sa.Select[Any], values: dict[str, Any]) -> Sequence[Any]:
        return await self._database.read_soon(
            lambda connection: self._dialect.fetch(connection, statement, values)
        )

    async def _read_page(self, page: _Page, values: dict[str, Any], limit: int) -> Sequence[Any]:
        """Rows in the order of their key: at most `limit`, fewer where they are large."""

        def work(connection: sa.Connection) -> Sequence[Any]:
            sizes = self._dialect.fetch(connection, page.sizes, {**values, "limit": limit})
            count = count_fitting(size for (size,) in sizes)
            if count <= 1:  # one with a large content is not read as digits
                return connection.execute(page.rows, {**values, "limit": count}).all() if count else ()
            return self._dialect.fetch(connection, page.rows, {**values, "limit": count})

        return await self._database.read_soon(work)


def _claim_of(commit: Commit) -> TurnClaim:
    records = () if commit.batch is None else (commit.batch,)
    return TurnClaim(commit, OF_THIS_SERVICE, 0, commit.document, records=records)


class ServerStateStore(SqlStateStore):
    """`SqlStateStore` in a database that other services may reach."""

    @classmethod
    async def open(
        cls,
        *,
        url: str,
        node_id: str = "",
        owns: Owns = owns_all,
        is_first: bool = True,
        faults: FaultPoints | None = None,
        on_trouble: OnTrouble | None = None,
        on_taken: Callable[[], None] = lambda: None,
        on_new: Callable[[], None] = lambda: None,
        on_close: Callable[[], None] | None = None,
    ) -> Self:
        """Opens the database at `url`, whose tables it makes where they are missing.

        `faults` observes commits.
        `node_id` empty: the name kept from the last start, or a new one. `is_first`: of the processes of one
        service, which has the database alone from now on; `on_taken` is called when another one has taken
        it: this one writes nothing more, and has to end. `on_trouble` is told when the database cannot be
        reached, and when it can again. `on_new` is called, in a thread, before the first start over a
        database; `on_close` at the end.

        Raises StoreLocked: another service has it, or a cluster; StoreUnavailable, and what `on_new` raises.
        """
        lock = await ServiceLock.claim(url=url, is_first=is_first)
        database = None
        try:
            if lock.is_new:
                await asyncio.to_thread(on_new)
            database = await JobDatabase.open(url=url, faults=faults)
            begin = partial(begin_start, dialect=database.dialect, node_id=node_id, is_first=is_first)
            started = await database.write(begin)
        except BaseException:
            if database is not None:
                await database.close()
            await lock.release()
            raise
        lock.watch(started.service or 0, on_trouble=on_trouble, on_taken=on_taken)
        return cls(
            database=database, started=started, owns=owns, before_close=lock.release, on_close=on_close
        )


class ServiceStart(msgspec.Struct, frozen=True):
    """The number of a start, the name of the node, and the number of the service; None: there is no other."""

    boot: int
    node_id: str
    service: int | None = None


def begin_start(
    connection: sa.Connection, dialect: Dialect, node_id: str, is_first: bool | None = None
) -> ServiceStart:
    """Counts a start over a database.

    Its name is `node_id`, else the one of before, else a new one. `is_first`: of the processes of a service;
    None: no other service can have the database. Raises StoreLocked in the database of a cluster.
    """
    boot = counters_and_leases.count_start(connection, dialect, counters_and_leases.ALONE)
    if node_id:
        counters_and_leases.set_holder(connection, dialect, NODE_ID, node_id)
    name = counters_and_leases.keep_holder(connection, dialect, NODE_ID, f"node-{os.urandom(4).hex()}")
    if is_first is None:
        return ServiceStart(boot, name)
    if is_first:
        return ServiceStart(
            boot, name, counters_and_leases.count(connection, dialect, counters_and_leases.SERVICE)
        )
    return ServiceStart(boot, name, counters_and_leases.read_number(connection, counters_and_leases.SERVICE))
