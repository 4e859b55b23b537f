"""The store of a service that is alone, or of one of its worker processes, in a shared database.

A turn is one transaction, as in a cluster; each process has the jobs that it owns, their notifications and
their records. A cluster does not enter such a database, and such a service does not enter a cluster's.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Self, TypeVar

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.packing import read_deliveries
from scheduler_service.persistence.common.pagination import count_fitting
from scheduler_service.persistence.common.row_state import RowState, read_row_state, write_row_state
from scheduler_service.persistence.queues.sql_queues import SqlQueues
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Contains, IsIn, overwrite
from scheduler_service.persistence.sql.job_catalogue import write_ids
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.persistence.sql.kept_answers import ANSWERS, answer_of, forget_answers
from scheduler_service.persistence.sql_cluster import marks
from scheduler_service.persistence.sql_cluster.claim_rows import (
    DELIVERIES,
    OWN_CLAIMS,
    RECORDS,
    delivery_of,
    records_of,
)
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.schema import outbox, untold
from scheduler_service.persistence.sql_cluster.service_lock import OnTrouble, ServiceLock
from scheduler_service.persistence.sql_cluster.store import SharedStore, forget_job, read_batches
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, OpenJob, Remembered, Settlement, StoredJob
from scheduler_service.telemetry.metrics.samples import Sample

CLOCK_SKEW, NODE_ID = "clock_skew", "node_id"
Found = TypeVar("Found")
Work = Callable[[sa.Connection], object]
Conditions = Sequence[sa.ColumnElement[bool]]
_CHANGED_DELIVERIES = msgspec.structs.replace(DELIVERIES, changes=overwrite("content"))
_DROP_DELIVERY = sa.delete(outbox).where(outbox.c.delivery_id == sa.bindparam("its_id"))
_AFTER: sa.BindParameter[str] = sa.bindparam("after", type_=sa.Text)
_LIMIT: sa.BindParameter[int] = sa.bindparam("limit", type_=sa.Integer)
_OPEN = sa.select(jobs.c.job_id).where(jobs.c.live > 0, jobs.c.job_id > _AFTER).order_by(jobs.c.job_id)
_DELIVERIES = (outbox.c.delivery_id > _AFTER, outbox.c.done_at.is_(None))
_uid: sa.BindParameter[str] = sa.bindparam("uid", type_=sa.Text)
_sequence: sa.BindParameter[int] = sa.bindparam("sequence", type_=sa.BigInteger)
_RECORDS = (
    untold.c.uid >= _uid,  # MariaDB makes no range of a comparison of rows
    sa.or_(untold.c.uid > _uid, untold.c.sequence > _sequence),
)


def _owns_all(_: str) -> bool:
    return True


class SqlStateStore:
    """`ports.state.OpenStore`, which documents the methods.

    Over a destroyed job a commit may expect 0 or the destruction's sequence.
    """

    def __init__(
        self,
        *,
        database: SharedDatabase,
        lock: ServiceLock,
        service: int,
        boot: int,
        node_id: str,
        owns: Callable[[str], bool],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.boot = boot
        self.node_id = node_id
        self._database = database
        self._dialect = database.dialect
        self._lock = lock
        self._service = service
        self._owns = owns
        self._on_close = on_close
        self._holder = Holder(node_id, str(boot))
        self._turns = SharedStore(database=database, claims=OWN_CLAIMS)
        self.catalogue, self.definition = self._turns.catalogue, self._turns.definition
        self.recall = self._turns.recall
        self.queues = SqlQueues(dialect=self._dialect, write=self._run, read=database.read)
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        url: str,
        node_id: str = "",
        owns: Callable[[str], bool] = _owns_all,
        is_first: bool = True,
        on_trouble: OnTrouble | None = None,
        on_taken: Callable[[], None] = lambda: None,
        on_new: Callable[[], None] = lambda: None,
        on_close: Callable[[], None] | None = None,
    ) -> Self:
        """Opens the database at `url`, whose tables it makes where they are missing.

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
            database = await SharedDatabase.open(url=url)
            begin = partial(_begin, dialect=database.dialect, node_id=node_id, is_first=is_first)
            boot, name, service = await database.write(begin)
        except BaseException:
            if database is not None:
                await database.close()
            await lock.release()
            raise
        lock.watch(service, on_trouble=on_trouble, on_taken=on_taken)
        return cls(
            database=database,
            lock=lock,
            service=service,
            boot=boot,
            node_id=name,
            owns=owns,
            on_close=on_close,
        )

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
        document = None if row.state is None else read_row_state(row.state).document
        return StoredJob(row.entry, row.sequence, document, row.due)

    def commit(self, commit: Commit) -> Awaitable[None]:
        return self._put(self._claim_of(commit), may_wait=commit.may_wait)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        return await self._database.write_all(self._write, list(map(self._claim_of, commits)))

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        return self._put(partial(self._settle, settlements=tuple(settlements)))

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        return self._put(partial(self._remember, kept=remembered))

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        return self._turns.remember_first(remembered, since)

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        return self._turns.written(keys)

    def forget(self, job_id: str) -> Awaitable[bool]:
        return self._put(partial(forget_job, job_id=job_id))

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due(jobs.c.due_wall, before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due(jobs.c.due_steady, before, limit, after)

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        own: list[str] = []
        is_last = False
        while len(own) < limit and not is_last:
            page = await self._database.scalars(_OPEN.limit(_LIMIT), {"after": after, "limit": limit})
            own += filter(self._owns, page)
            is_last = len(page) < limit
            after = page[-1] if page else after
        state = jobs.c.turn_state
        is_marked = sa.or_(sa.false(), *(Contains(state, mark) for mark in marks))
        columns = sa.select(jobs.c.job_id, is_marked, sa.func.length(state)).order_by(jobs.c.job_id)
        asked = columns.where(IsIn(jobs.c.job_id, sa.literal(write_ids(own[:limit]))))
        rows = await self._database.rows(asked)
        return [OpenJob(job_id, bool(marked), size) for job_id, marked, size in rows]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        while rows := await self._page(outbox, _DELIVERIES, {"after": after}, limit):
            page = read_deliveries((row.delivery_id.encode(), row.content) for row in rows)
            own = [one for one in page if self._owns(one.job_id)]
            if own or limit == 1:  # whoever asks for one wants that one
                return own
            after = page[-1].delivery_id
        return []

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        while rows := await self._page(untold, _RECORDS, {"uid": after[0], "sequence": after[1]}, limit):
            if own := [one for one in read_batches(rows) if self._owns(one.job_id)]:
                return own
            after = (rows[-1].uid, rows[-1].sequence)
        return []

    async def clock_skew(self) -> int:
        return await self._database.read(partial(marks.read_number, mark=CLOCK_SKEW))

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        return self._put(partial(marks.set_number, dialect=self._dialect, mark=CLOCK_SKEW, value=skew))

    async def close(self) -> None:
        """Writes what was put in, then leaves the database. A second call waits with the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._database.end_writing()
        await self._lock.release()
        await self._database.close()
        if self._on_close is not None:
            self._on_close()

    def _claim_of(self, commit: Commit) -> TurnClaim:
        state = write_row_state(RowState(commit.document))
        records = () if commit.batch is None else (commit.batch,)
        return TurnClaim(commit, self._holder, 0, state, records=records)

    def _put(self, value: TurnClaim | Work, *, may_wait: bool = False) -> Awaitable[Any]:
        return self._database.write_together(self._write, value, may_wait=may_wait)

    async def _run(self, work: Callable[[sa.Connection], Found]) -> Found:
        found: Found = await self._put(work)
        return found

    def _write(self, connection: sa.Connection, values: Sequence[TurnClaim | Work]) -> list[object]:
        """The verdict on each of `values`, which take effect in their order."""
        marks.check_service(connection, self._service)
        verdicts: list[object] = []
        for _, some in groupby(values, lambda value: isinstance(value, TurnClaim)):
            same = list(some)
            claims = [one for one in same if isinstance(one, TurnClaim)]
            if claims:
                verdicts += self._turns.write_claims(connection, claims)
                kept = [one.commit.remembered for one in claims if one.commit.remembered is not None]
                if kept:
                    forget_answers(connection, before=max(one.since for one in kept))
            else:
                verdicts += [work(connection) for work in same if not isinstance(work, TurnClaim)]
        return verdicts

    def _settle(self, connection: sa.Connection, settlements: Sequence[Settlement]) -> None:
        records = records_of((one.batch for one in settlements if one.batch is not None), self._holder)
        self._turns.insert(connection, (RECORDS, records))
        for one in settlements:
            if one.done:
                connection.execute(_DROP_DELIVERY, {"its_id": one.delivery.delivery_id})
            else:
                row = delivery_of(one.delivery, self._holder)
                self._turns.insert(connection, (_CHANGED_DELIVERIES, [row]))

    def _remember(self, connection: sa.Connection, kept: Remembered) -> None:
        self._turns.insert(connection, (ANSWERS, [answer_of(kept)]))
        forget_answers(connection, before=kept.since)

    async def _due(self, due: sa.Column[int], before: int, limit: int, after: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        place = (after + 1, "")
        is_last = False
        while len(found) < limit and not is_last:
            is_next = sa.or_(due > place[0], sa.and_(due == place[0], jobs.c.job_id > place[1]))
            wanted = sa.select(due, jobs.c.job_id).where(due <= before, due >= place[0], is_next)
            ordered = wanted.order_by(due, jobs.c.job_id).limit(limit)
            page = await self._database.rows(ordered)
            found += [(moment, job_id) for moment, job_id in page if self._owns(job_id)]
            is_last = len(page) < limit
            place = (page[-1][0], page[-1][1]) if page else place
        return found[:limit]

    async def _page(
        self, table: sa.Table, conditions: Conditions, values: dict[str, Any], limit: int
    ) -> Sequence[sa.Row[Any]]:
        """Rows of `table` in the order of their key: at most `limit`, fewer where they are large."""
        order = tuple(table.primary_key)
        sizes = sa.select(sa.func.length(table.c.content)).where(*conditions).order_by(*order)

        def work(connection: sa.Connection) -> Sequence[sa.Row[Any]]:
            count = count_fitting(connection.scalars(sizes.limit(limit), values))
            rows = sa.select(table).where(*conditions).order_by(*order).limit(count)
            return connection.execute(rows, values).all() if count else ()

        return await self._database.read(work)


def _begin(connection: sa.Connection, dialect: Dialect, node_id: str, is_first: bool) -> tuple[int, str, int]:
    """The numbers of this start and of its service, with the name of the node between them.

    That is `node_id`, else the one of before, else a new one.

    Raises StoreLocked in the database of a cluster.
    """
    boot = marks.count_start(connection, dialect, marks.ALONE)
    if node_id:
        marks.set_holder(connection, dialect, NODE_ID, node_id)
    name = marks.keep_holder(connection, dialect, NODE_ID, f"node-{os.urandom(4).hex()}")
    if is_first:
        return boot, name, marks.count(connection, dialect, marks.SERVICE)
    return boot, name, marks.read_number(connection, marks.SERVICE)
