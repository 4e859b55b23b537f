"""What turns and sweeps write and read in the shared database; a claim comes before every state's commit."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import HOUR, Due, Now
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.packing import pack, unpack_delivery
from scheduler_service.persistence.sql.job_tables import ENTRY, definitions, entry_values, jobs, read_entry
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.pending_history import PendingHistory
from scheduler_service.persistence.sql_cluster.schema import copies, outbox, remembered
from scheduler_service.ports.cluster import ClaimedJob, TurnClaim
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.state import Remembered, Settlement

# A claim holds as long as the turn behind it can still write: 2 s of turn, and what a sidecar may add.
CLAIM = 5_000
KEPT = 24 * HOUR


class SharedStore:
    """The shared tables but for the nodes'. Everything raises StoreError."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database
        self.untold = PendingHistory(database=database)
        self._insert = database.dialect.insert

    async def claim(self, claim: TurnClaim) -> None:
        """Claims a turn and brings the catalogue to it. Raises StoreConflict: nothing was written.

        It is taken from the sequence that was read; or where the row is this very holder's, who holds the
        job's lock; or where the claim that stands there is older than 5 s, and so never ended.
        """
        due = Due() if claim.entry.state is JobState.DESTROYED else claim.due
        values = entry_values(claim.entry) | {
            "due_wall": due.wall,
            "due_steady": due.steady,
            "sequence": claim.sequence,
            "node": claim.holder.node,
            "boot": claim.holder.boot,
            "claimed_at": claim.at,
        }

        def work(connection: sa.Connection) -> StoreConflict | None:
            if not self._take(connection, claim, values):
                return StoreConflict(
                    f"another node takes a turn of the job {claim.entry.job_id!r}; ask again in a moment"
                )
            if claim.definition is not None:
                self._put_definition(connection, claim)
            if claim.copy is not None:
                self._put_copy(connection, claim)
            if claim.entry.state is JobState.DESTROYED:  # its life's answers are forgotten with it
                connection.execute(sa.delete(remembered).where(remembered.c.job_id == claim.entry.job_id))
            return None

        await self._database.write(work)

    async def find(self, job_id: str) -> ClaimedJob | None:
        """The row of a job, destroyed ones too, or None."""
        claim = (
            jobs.c.sequence,
            jobs.c.node,
            jobs.c.boot,
            jobs.c.claimed_at,
            jobs.c.due_wall,
            jobs.c.due_steady,
        )
        statement = sa.select(*ENTRY, *claim).where(jobs.c.job_id == job_id)
        row = await self._database.read(lambda connection: connection.execute(statement).first())
        if row is None:
            return None
        due = Due(row.due_wall, row.due_steady)
        entry = read_entry(row[: len(ENTRY)])
        return ClaimedJob(entry, row.sequence, Holder(row.node, row.boot), row.claimed_at, due)

    async def latest(self, job_id: str) -> tuple[Holder, bytes | None] | None:
        """Who claimed the job last, and the state that the claim brought, if any; None: no such job."""
        is_its = (copies.c.job_id == jobs.c.job_id) & (copies.c.sequence == jobs.c.sequence)
        statement = sa.select(jobs.c.node, jobs.c.boot, copies.c.state)
        statement = statement.select_from(jobs.outerjoin(copies, is_its)).where(jobs.c.job_id == job_id)
        row = await self._database.read(lambda connection: connection.execute(statement).first())
        if row is None:
            return None
        return Holder(row.node, row.boot), None if row.state is None else bytes(row.state)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None."""
        statement = sa.select(definitions.c.text).where(
            definitions.c.uid == uid, definitions.c.revision == revision
        )
        text = await self._database.read(lambda connection: connection.execute(statement).scalar())
        return None if text is None else bytes(text)

    async def keep(
        self, deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> list[Delivery]:
        """Keeps what a committed turn brought; the deliveries that were not known yet."""

        def work(connection: sa.Connection) -> list[Delivery]:
            for answer in answers:
                self._put_answer(connection, answer)
            return [one for one in deliveries if self._put_delivery(connection, one, holder)]

        return await self._database.write(work)

    async def settle(self, settlements: Sequence[Settlement], now: int, holder: Holder) -> None:
        """Writes what became of deliveries; those that are done go within the hour (`now` steady ms)."""
        batches = [one.batch for one in settlements if one.batch is not None]

        def work(connection: sa.Connection) -> None:
            self.untold.put(connection, batches, holder)
            for one in settlements:
                ended = one.done or one.delivery.state not in ("pending", "outbox")
                connection.execute(
                    sa.update(outbox)
                    .where(outbox.c.delivery_id == one.delivery.delivery_id)
                    .values(content=pack(one.delivery), done_at=now if ended else None)
                )

        await self._database.write(work)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms)."""
        table = remembered.c
        statement = sa.select(
            table.scope, table.key, table.digest, table.answer, table.created_at, table.job_id
        ).where(table.scope == scope, table.key == key, table.created_at >= since)
        row = await self._database.read(lambda connection: connection.execute(statement).first())
        if row is None:
            return None
        return Remembered(row[0], row[1], bytes(row[2]), bytes(row[3]), row[4], row[5])

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries that are not done, in order of id."""
        table = outbox.c
        statement = (
            sa.select(table.content)
            .where(table.delivery_id > after, table.done_at.is_(None))
            .order_by(table.delivery_id)
            .limit(limit)
        )
        rows = await self._database.read(lambda connection: connection.execute(statement).scalars().all())
        return [unpack_delivery(bytes(row)) for row in rows]

    async def adopt(self, alive: Iterable[Holder], holder: Holder, limit: int) -> list[Delivery]:
        """Makes `holder` the sender of deliveries whose node is not among `alive`; at most `limit`."""
        table = outbox.c
        strange = sa.tuple_(table.node, table.boot).not_in([(one.node, one.boot) for one in alive])
        wanted = sa.select(table.delivery_id).where(strange, table.done_at.is_(None)).limit(limit)
        statement = (
            sa.update(outbox)
            .where(table.delivery_id.in_(wanted.scalar_subquery()))
            .values(node=holder.node, boot=holder.boot)
            .returning(table.content)
        )
        rows = await self._database.write(lambda connection: connection.execute(statement).scalars().all())
        return [unpack_delivery(bytes(row)) for row in rows]

    async def overdue(self, now: Now, limit: int) -> list[str]:
        """Jobs whose alarm should have rung by `now`, the longest overdue first."""
        due = sa.or_(jobs.c.due_wall <= now.wall, jobs.c.due_steady <= now.steady)
        order = sa.func.coalesce(jobs.c.due_wall, jobs.c.due_steady)
        statement = sa.select(jobs.c.job_id).where(due).order_by(order).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(statement).scalars().all())
        return list(rows)

    async def abandoned(self, alive: Iterable[Holder], since: int, limit: int, after: str = "") -> list[str]:
        """Jobs whose last turn was a node's that is not among `alive`, and that may have left work behind.

        Those with live executions, and those of whose records the history may lack some: claimed since
        `since` (steady ms).
        """
        strange = sa.tuple_(jobs.c.node, jobs.c.boot).not_in([(one.node, one.boot) for one in alive])
        left = (jobs.c.live > 0) | (jobs.c.claimed_at >= since)
        statement = (
            sa.select(jobs.c.job_id)
            .where(strange, left, jobs.c.job_id > after)
            .order_by(jobs.c.job_id)
            .limit(limit)
        )
        rows = await self._database.read(lambda connection: connection.execute(statement).scalars().all())
        return list(rows)

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job, its counters, definitions and kept answers; False: there is none."""

        def work(connection: sa.Connection) -> bool:
            gone = connection.execute(
                sa.delete(jobs).where(jobs.c.job_id == job_id, jobs.c.state == JobState.DESTROYED.value)
            ).rowcount
            if gone:
                connection.execute(sa.delete(definitions).where(definitions.c.job_id == job_id))
                connection.execute(sa.delete(remembered).where(remembered.c.job_id == job_id))
                connection.execute(sa.delete(copies).where(copies.c.job_id == job_id))
            return bool(gone)

        return await self._database.write(work)

    async def prune(self, now: Now) -> None:
        """Removes kept answers after 24 h; deliveries that are done, and copies of older states, after one.

        The copy of a job's latest state stays: nobody may have read the job since the state was overwritten.
        """
        latest = sa.select(jobs.c.job_id).where(
            jobs.c.job_id == copies.c.job_id, jobs.c.sequence == copies.c.sequence
        )

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.delete(remembered).where(remembered.c.created_at < now.wall - KEPT))
            connection.execute(sa.delete(outbox).where(outbox.c.done_at < now.steady - HOUR))
            connection.execute(sa.delete(copies).where(copies.c.at < now.steady - HOUR, ~latest.exists()))

        await self._database.write(work)

    def _take(self, connection: sa.Connection, claim: TurnClaim, values: dict[str, Any]) -> bool:
        table = jobs.c
        free = (
            (table.sequence == claim.expected)
            | ((table.node == claim.holder.node) & (table.boot == claim.holder.boot))
            | (table.claimed_at < claim.at - CLAIM)
        )
        update = sa.update(jobs).where(table.job_id == claim.entry.job_id, free).values(values)
        if connection.execute(update).rowcount:
            return True
        # Of an insert PostgreSQL's driver tells no count: what it returns does.
        insert = self._insert(jobs).values(values).on_conflict_do_nothing().returning(table.job_id)
        return connection.execute(insert).first() is not None

    def _put_definition(self, connection: sa.Connection, claim: TurnClaim) -> None:
        entry = claim.entry
        statement = self._insert(definitions).values(
            uid=entry.uid,
            revision=entry.revision,
            job_id=entry.job_id,
            created_at=entry.updated_at,
            text=claim.definition,
        )
        statement = statement.on_conflict_do_update(
            index_elements=[definitions.c.uid, definitions.c.revision],
            set_={"text": claim.definition, "created_at": entry.updated_at},
        )
        connection.execute(statement)

    def _put_copy(self, connection: sa.Connection, claim: TurnClaim) -> None:
        values = {
            "job_id": claim.entry.job_id,
            "sequence": claim.sequence,
            "state": claim.copy,
            "at": claim.at,
        }
        statement = self._insert(copies).values(values)
        connection.execute(statement.on_conflict_do_update(index_elements=[copies.c.job_id], set_=values))

    def _put_delivery(self, connection: sa.Connection, delivery: Delivery, holder: Holder) -> bool:
        statement = self._insert(outbox).values(
            delivery_id=delivery.delivery_id,
            content=pack(delivery),
            done_at=None,
            node=holder.node,
            boot=holder.boot,
        )
        statement = statement.on_conflict_do_nothing().returning(outbox.c.delivery_id)
        return connection.execute(statement).first() is not None

    def _put_answer(self, connection: sa.Connection, answer: Remembered) -> None:
        values = msgspec.structs.asdict(answer)
        statement = self._insert(remembered).values(values)
        statement = statement.on_conflict_do_update(
            index_elements=[remembered.c.scope, remembered.c.key], set_=values
        )
        connection.execute(statement)
