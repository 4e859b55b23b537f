"""What turns and sweeps write and read in the shared database; the claim of a turn is its commit."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import HOUR, Due, Now
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.packing import pack, read_deliveries
from scheduler_service.persistence.common.pagination import PAGE_BYTES
from scheduler_service.persistence.job_store.claim_rows import (
    CLAIMS,
    DEFINITIONS,
    DELIVERIES,
    QUEUE_TURNS,
    RECORDS,
    answers_of,
    definition_of,
    delivery_of,
    is_single_statement,
    records_of,
    row_of,
)
from scheduler_service.persistence.job_store.database import LARGE_BYTES, JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import copies, outbox, queue_turns, untold
from scheduler_service.persistence.job_store.sweep_statements import (
    ABANDONED,
    ABANDONED_DELIVERIES,
    ABANDONED_RECORDS,
    DEAD_HOLDERS,
    DEAD_SENDERS,
    DEAD_TELLERS,
    OVERDUE,
    UNBEGUN,
    read_dead,
)
from scheduler_service.persistence.queues.queue_tables import write_parts
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import GuardedUpsert, IsIn, Row, Upsert, json_rows
from scheduler_service.persistence.sql.job_catalogue import BY_IDS, JobCatalogue, write_ids
from scheduler_service.persistence.sql.job_tables import (
    ANSWERS,
    ENTRY,
    answer_of,
    definitions,
    forget_answers,
    jobs,
    read_entry,
    recall,
    remember_first,
    remembered,
)
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.cluster import ClaimedJob, QueueTurn, TurnClaim, Unbegun
from scheduler_service.ports.errors import DeliveryUnreadable, StoreConflict, StoreError, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import REMEMBERED_MS, Commit, NoteDamaged, Remembered, Settlement

_CLAIM = ("sequence", "node", "boot", "due_wall", "due_steady", "is_first", "claimed_at")
MAX_PREFETCHED = 256
"""Definitions that were read with their jobs and not asked for yet."""
MAX_PREFETCHED_BYTES = 16_384
"""Longer ones are not read with their jobs: what many loads read together has a bound."""
_none = sa.literal(b"", sa.LargeBinary)
_size = sa.func.coalesce(sa.func.length(jobs.c.turn_state), -1)
_small = sa.case((_size.between(0, LARGE_BYTES), jobs.c.turn_state), else_=_none)
_its_definition = sa.and_(
    definitions.c.uid == jobs.c.uid,
    definitions.c.revision == jobs.c.revision,
    sa.func.length(definitions.c.text) <= MAX_PREFETCHED_BYTES,
    jobs.c.state != JobState.DESTROYED.value,
)
_IDS: sa.BindParameter[str] = sa.bindparam("job_ids", type_=sa.Text)
_LOAD = (
    sa.select(
        *ENTRY,
        *(jobs.c[name] for name in _CLAIM),
        _size.label("size"),
        _small.label("small_state"),
        sa.func.coalesce(definitions.c.text, _none, type_=sa.LargeBinary).label("definition"),
    )
    .select_from(jobs.outerjoin(definitions, _its_definition))
    .where(IsIn(jobs.c.job_id, _IDS))
)
_LARGE_STATE = sa.select(jobs.c.turn_state).where(jobs.c.job_id == sa.bindparam("job_id"))
_SEQUENCE = sa.select(jobs.c.job_id, jobs.c.sequence).where(IsIn(jobs.c.job_id, _IDS))
_text = definitions.c
_text_size = sa.func.length(_text.text)
_small_text = sa.case((_text_size <= LARGE_BYTES, _text.text), else_=_none)
_TEXTS = sa.select(_text.uid, _text.revision, _text_size, _small_text)
_LARGE_TEXT = sa.select(_text.text).where(
    _text.uid == sa.bindparam("uid"), _text.revision == sa.bindparam("revision")
)
_KEYS: sa.BindParameter[str] = sa.bindparam("keys", type_=sa.Text)
_lives = sa.select(jobs.c.uid).where(jobs.c.uid == queue_turns.c.uid, jobs.c.state != "destroyed")
_IS_GONE = ~_lives.exists()
_decode_batch = msgspec.msgpack.Decoder(Batch).decode


class Again(Enum):
    """Of a load: it was not read, as large rows before it filled the page; it is to be asked for again."""

    LATER = auto()


Plan = Callable[[Iterable[TurnClaim]], Iterable[tuple[GuardedUpsert, Sequence[Row]]]]
"""The statements for the rows of claims of different jobs."""
RecordRows = Callable[[Sequence[Batch], Holder], list[Row]]
"""The rows of `untold` of records that a holder brings to the history."""


def plan_claims(
    claims: Iterable[TurnClaim], statement: GuardedUpsert = CLAIMS
) -> list[tuple[GuardedUpsert, list[Row]]]:
    """One statement for whole rows."""
    return [(statement, [row_of(claim) for claim in claims])]


class TurnStore:
    """The shared tables but for the nodes': turns, deliveries and records; `state_store` stands on it."""

    def __init__(
        self, *, database: JobDatabase, plan: Plan = plan_claims, record_rows: RecordRows = records_of
    ) -> None:
        self._database = database
        self._plan = plan
        self._record_rows = record_rows
        self._definitions: dict[tuple[str, int], bytes] = {}
        self._in_doubt: dict[str, Delivery] = {}
        keys, among = json_rows(_KEYS).c, database.dialect.among
        its = among((_text.uid, _text.revision), (keys.name, keys.number))
        self._definitions_all = partial(_definitions_all, _TEXTS.where(its))
        self._load_all = partial(_load_all, database.dialect)
        self.catalogue = GroupedCatalogue(database=database)

    async def claim(self, claim: TurnClaim) -> None:
        """Makes a turn durable: the job's row and all that the turn writes, in one transaction.

        Raises StoreConflict: the job is not at the sequence that was read, and nothing was written.
        """
        work, may_wait = self.write_claims, claim.commit.may_wait
        await self._database.write_together(work, claim, is_single_statement, may_wait=may_wait)

    async def claim_all(self, claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        """Claims turns of different jobs in one transaction; for each None, or its error.

        What cannot be stored fails alone.
        """
        return await self._database.write_all(self.write_claims, claims)

    async def load(self, job_id: str) -> ClaimedJob | None:
        """The job; its definition, which the caller needs next, is read with it."""
        found: tuple[ClaimedJob, bytes | None] | Again | None = Again.LATER
        while found is Again.LATER:
            found = await self._database.read_together(self._load_all, job_id)
        if found is None:
            return None
        job, text = found
        if text is not None:
            self._definitions[job.entry.uid, job.entry.revision] = text
            if len(self._definitions) > MAX_PREFETCHED:
                del self._definitions[next(iter(self._definitions))]
        return job

    async def sequence(self, job_id: str) -> int | None:
        """The sequence of the latest turn; None: no such job."""
        found: int | None = await self._database.read_together(_sequence_all, job_id)
        return found

    async def old_copy(self, job_id: str, sequence: int) -> bytes | None:
        """The state that a node of 0.1.0 has written beside its claim of this turn, if it has."""
        is_its = (copies.c.job_id == job_id) & (copies.c.sequence == sequence)
        row = await self._database.first(sa.select(copies.c.state).where(is_its))
        return None if row is None else bytes(row.state)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        known = self._definitions.pop((uid, revision), None)
        if known is not None:
            return known
        found: bytes | Again | None = Again.LATER
        while found is Again.LATER:
            found = await self._database.read_together(self._definitions_all, (uid, revision))
        return found

    async def keep(
        self, deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> None:
        """Keeps answers of no turn, and what a state of 0.1.0 has; a delivery that is there stays.

        Raises StoreUncertain where they may be the `holder`'s: `deliveries_in_doubt` has them then.
        """
        kept, sent = [answer_of(one) for one in answers], [delivery_of(one, holder) for one in deliveries]
        try:
            await self._database.write(lambda one: self.insert(one, (ANSWERS, kept), (DELIVERIES, sent)))
        except StoreUncertain:
            self._in_doubt |= {one.delivery_id: one for one in deliveries}
            raise

    async def enqueue(self, turn: QueueTurn) -> None:
        """Writes into the queues what a state of 0.1.0 wants there, once for a turn, however often."""
        dialect = self._database.dialect

        def work(connection: sa.Connection) -> None:
            row = (turn.uid, turn.sequence, turn.at)
            if dialect.insert_many(connection, QUEUE_TURNS, [row]):  # else the queues had it, or a later one
                write_parts(connection, dialect, turn.writes)

        await self._database.write(work)

    async def unsent(self, deliveries: Sequence[Delivery], holder: Holder) -> list[Delivery]:
        """Those of `deliveries` that are kept, not done, and to be sent by `holder`."""
        table = outbox.c
        ids = [one.delivery_id for one in deliveries]
        is_own = (table.node == holder.node) & (table.boot == holder.boot) & table.done_at.is_(None)
        asked = sa.select(table.delivery_id).where(table.delivery_id.in_(ids), is_own)
        known = set(await self._database.scalars(asked))
        for delivery_id in known:
            self._in_doubt.pop(delivery_id, None)
        return [one for one in deliveries if one.delivery_id in known]

    async def settle(self, settlements: Sequence[Settlement], now: int, holder: Holder) -> None:
        """Writes the state of deliveries; done ones are removed after an hour (`now` steady ms)."""
        records = records_of((one.batch for one in settlements if one.batch is not None), holder)

        def work(connection: sa.Connection) -> None:
            self.insert(connection, (RECORDS, records))
            for one in settlements:
                is_done = one.done or one.delivery.state not in ("pending", "outbox")
                connection.execute(
                    sa.update(outbox)
                    .where(outbox.c.delivery_id == one.delivery.delivery_id)
                    .values(content=pack(one.delivery), done_at=now if is_done else None)
                )

        await self._database.write(work)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        return await self._database.read(partial(recall, scope=scope, key=key, since=since))

    async def remember(self, remembered: Remembered) -> None:
        await self._database.write(lambda one: self.insert(one, (ANSWERS, [answer_of(remembered)])))

    async def remember_first(self, remembered: Remembered, since: int) -> bool:
        work = partial(remember_first, dialect=self._database.dialect, kept=remembered, since=since)
        return await self._database.write(work)

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """As `ports.state.StateStore.deliveries`: those of all nodes that are not done."""
        table = outbox.c
        columns = sa.select(table.delivery_id, table.content)
        statement = columns.where(table.delivery_id > after, table.done_at.is_(None))
        ordered = statement.order_by(table.delivery_id).limit(limit)
        found = await self._database.rows(ordered)
        return read_deliveries((delivery_id.encode(), content) for delivery_id, content in found)

    async def adopt(
        self, alive: Iterable[Holder], holder: Holder, limit: int, note_damaged: NoteDamaged
    ) -> list[Delivery]:
        """Makes `holder` the sender of deliveries whose node is not among `alive`; at most `limit`.

        `note_damaged` is told of those that cannot be read. Raises StoreUncertain where they may be the
        `holder`'s: `deliveries_in_doubt` has them then.
        """
        rows: list[sa.Row[Any]] = []
        try:
            await self._adopt(DEAD_SENDERS, ABANDONED_DELIVERIES, outbox, alive, holder, limit, rows)
        except StoreUncertain:
            self._in_doubt |= _deliveries_of(rows, note_damaged)
            raise
        found = _deliveries_of(rows, note_damaged)
        for delivery_id in found:
            self._in_doubt.pop(delivery_id, None)
        return list(found.values())

    def leave_in_doubt(self, deliveries: Iterable[Delivery]) -> None:
        """The same for those of a turn that nobody asks for any more, and that may be written."""
        self._in_doubt |= {one.delivery_id: one for one in deliveries}

    async def deliveries_in_doubt(self, alive: Iterable[Holder], holder: Holder) -> list[Delivery]:
        """Deliveries that a turn, `adopt` or `keep` made `holder`'s, ended with StoreUncertain; each once.

        To be asked for each second: nobody else adopts what is a living node's. No query while none is in
        doubt; those that a node among `alive` has, or that are done, are in doubt no more.
        """
        if not self._in_doubt:
            return []
        table, asked = outbox.c, tuple(self._in_doubt)
        columns = sa.select(table.delivery_id, table.node, table.boot)
        kept = columns.where(table.delivery_id.in_(asked), table.done_at.is_(None))
        holders = {name: Holder(node, boot) for name, node, boot in await self._database.rows(kept)}
        living, found = {None, holder, *alive}, list[Delivery]()
        for name in asked:
            its = holders.get(name)
            one = self._in_doubt.pop(name, None) if its in living else None
            if one is not None and its == holder:  # else it has been handed over meanwhile
                found.append(one)
        return found

    async def adopt_records(self, alive: Iterable[Holder], holder: Holder, limit: int) -> list[Batch]:
        """The same for records of deliveries, which the history may not have yet.

        Where nobody says whether they are the `holder`'s, they are returned as well: the history takes each
        record once, whoever brings it.
        """
        rows: list[sa.Row[Any]] = []
        with contextlib.suppress(StoreUncertain):
            await self._adopt(DEAD_TELLERS, ABANDONED_RECORDS, untold, alive, holder, limit, rows)
        return read_batches(row.content for row in rows)

    async def written(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these records of deliveries, by (uid, sequence)."""
        await self._database.write(partial(self.forget_records, keys=keys))

    def forget_records(self, connection: sa.Connection, keys: Sequence[tuple[str, int]]) -> None:
        """Deletes records by uid and sequence in the open transaction."""
        if keys:
            self._database.dialect.delete_keys(connection, untold, keys)

    async def overdue(self, now: Now, limit: int) -> list[str]:
        """Jobs whose alarm should have rung by `now`, the longest overdue first."""
        values = {"wall": now.wall, "steady": now.steady, "most": limit}
        return await self._database.scalars(OVERDUE, values)

    async def unbegun(self, after: tuple[int, str], until: int, limit: int) -> list[Unbegun]:
        """Jobs without a turn since their creation, in order of (due, job_id), `after` a pair of these.

        They are due up to `until` (wall).
        """
        values = {"due": after[0], "after": after[1], "until": until, "most": limit}
        rows = await self._database.rows(UNBEGUN, values)
        return [
            Unbegun(job_id, due, created_at, Holder(node, boot))
            for job_id, due, created_at, node, boot in rows
        ]

    async def abandoned(self, alive: Iterable[Holder], since: int, limit: int) -> dict[str, int]:
        """Jobs whose last turn was a node's that is not among `alive`, and that may have unfinished work.

        Of each the steady moment of that turn's claim.

        Those with live executions, and those of whose records the history may lack some: claimed since
        `since` (steady ms). Of each node those with live executions come first, then the latest claims.
        """

        def work(connection: sa.Connection) -> dict[str, int]:
            found: dict[str, int] = {}
            for one in read_dead(connection, DEAD_HOLDERS, alive, since=since):
                for statement in ABANDONED:
                    values = {**one, "since": since, "most": limit - len(found)}
                    found |= {row.job_id: row.claimed_at for row in connection.execute(statement, values)}
            return found

        return await self._database.read(work)

    async def forget(self, job_id: str) -> bool:
        def work(connection: sa.Connection) -> bool:
            is_gone = forget_job(connection, job_id)
            connection.execute(sa.delete(copies).where(copies.c.job_id == job_id))
            return is_gone

        return await self._database.write(work)

    async def prune(self, now: Now) -> None:
        """Removes kept answers after 24 h, and deliveries that are done after one."""

        def work(connection: sa.Connection) -> None:
            forget_answers(connection, now.wall - REMEMBERED_MS)
            connection.execute(sa.delete(outbox).where(outbox.c.done_at < now.steady - HOUR))
            connection.execute(sa.delete(queue_turns).where(queue_turns.c.at < now.steady - HOUR, _IS_GONE))

        await self._database.write(work)

    async def _adopt(
        self,
        dead: sa.Select[Any],
        left: sa.Select[Any],
        table: sa.Table,
        alive: Iterable[Holder],
        holder: Holder,
        limit: int,
        found: list[sa.Row[Any]],
    ) -> None:
        """What nodes that are not `alive` left in `table` is the `holder`'s from now on, and in `found`.

        There it is, too, where nobody says whether it was written.
        """
        holders = await self._database.read(lambda connection: read_dead(connection, dead, alive))
        if not holders:
            return
        key = tuple(table.primary_key)
        is_its = (column == sa.bindparam(f"its_{column.name}") for column in key)
        adopt = sa.update(table).where(*is_its).values(node=holder.node, boot=holder.boot)

        def work(connection: sa.Connection) -> None:
            found.clear()  # it is repeated where another write of its transaction fails
            for one in holders:
                found.extend(connection.execute(left, {**one, "most": limit - len(found)}))
            if found:
                keys = [{f"its_{one.name}": row._mapping[one.name] for one in key} for row in found]
                connection.execute(adopt, keys)

        await self._database.write(work)

    def write_claims(
        self, connection: sa.Connection, claims: Sequence[TurnClaim]
    ) -> Sequence[StoreConflict | None]:
        """All claims of a group at once; of several of one job each sees what the one before it wrote."""
        verdicts: list[StoreConflict | None] = [None] * len(claims)
        waiting = dict(enumerate(claims))
        while waiting:
            first: dict[str, int] = {}
            for place, claim in waiting.items():
                first.setdefault(claim.commit.entry.job_id, place)
            taken = self._take(connection, [waiting[place] for place in first.values()])
            for job_id, place in first.items():
                verdicts[place] = None if job_id in taken else _other_was_first(job_id)
                del waiting[place]
        return verdicts

    def _take(self, connection: sa.Connection, claims: Sequence[TurnClaim]) -> set[object]:
        """The jobs that were claimed, with all that their turns write."""
        dialect = self._database.dialect
        taken: set[object] = set()
        for statement, rows in self._plan(claims):
            taken |= dialect.write_guarded(connection, statement, rows)
        texts: list[Row] = []
        sent: list[Row] = []
        records: list[Batch] = []
        won: list[Commit] = []
        for claim in claims:  # each turn comes here: one loop, and no call for what it does not bring
            commit = claim.commit
            entry = commit.entry
            if entry.job_id not in taken:
                continue
            won.append(commit)
            if claim.records:
                records += claim.records
            if commit.definition is not None:
                texts.append(definition_of(commit))
            if commit.deliveries:
                sent += [delivery_of(one, claim.holder) for one in commit.deliveries]
            if entry.state is JobState.DESTROYED:  # the answers of its life go with it
                connection.execute(sa.delete(remembered).where(remembered.c.job_id == entry.job_id))
        answers = (ANSWERS, answers_of(won))
        told = self._record_rows(records, claims[0].holder)  # all are of one process
        self.insert(connection, (DEFINITIONS, texts), answers, (DELIVERIES, sent), (RECORDS, told))
        for commit in won:
            if commit.queued:
                write_parts(connection, dialect, commit.queued)
        return taken

    def insert(self, connection: sa.Connection, *tables: tuple[Upsert, Sequence[Row]]) -> None:
        """Writes rows in the open transaction."""
        for upsert, rows in tables:
            if rows:
                self._database.dialect.insert_many(connection, upsert, rows)


def _deliveries_of(rows: Iterable[sa.Row[Any]], note_damaged: NoteDamaged) -> dict[str, Delivery]:
    """Those of rows of the outbox by id, but for what cannot be read."""
    found: list[Delivery] = []
    for row in rows:
        try:
            found += read_deliveries([(row.delivery_id.encode(), row.content)])
        except DeliveryUnreadable as error:
            note_damaged(error)
    return {one.delivery_id: one for one in found}


def forget_job(connection: sa.Connection, job_id: str) -> bool:
    """As `ports.state.JobStore.forget`, in the open transaction."""
    is_destroyed = (jobs.c.job_id == job_id) & (jobs.c.state == JobState.DESTROYED.value)
    gone = connection.execute(sa.delete(jobs).where(is_destroyed)).rowcount
    for table in (definitions, remembered) if gone else ():
        connection.execute(sa.delete(table).where(table.c.job_id == job_id))
    return bool(gone)


def read_batches(contents: Iterable[bytes]) -> list[Batch]:
    """The records in rows of `untold`."""
    return list(map(_decode_batch, contents))


class GroupedCatalogue(JobCatalogue):
    """ports.Catalogue over the shared database."""

    def __init__(self, *, database: JobDatabase) -> None:
        super().__init__(dialect=database.dialect, read=database.read)
        self._database = database

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """Reads that wait at one moment are one statement: each creation and update is answered by one."""
        found: CatalogueEntry | None = await self._database.read_together(_entries_all, job_id)
        return found


def _entries_all(connection: sa.Connection, job_ids: Sequence[str]) -> list[CatalogueEntry | None]:
    """The entry of each job, None where there is none."""
    rows = connection.execute(BY_IDS, {"job_ids": write_ids(job_ids)})
    found = {entry.job_id: entry for entry in map(read_entry, rows)}
    return [found.get(job_id) for job_id in job_ids]


def _load_all(
    dialect: Dialect, connection: sa.Connection, job_ids: Sequence[str]
) -> list[tuple[ClaimedJob, bytes | None] | Again | None]:
    """Each job after its latest turn with its definition, if that is small; None where there is none.

    Large states are read alone, and of those at most PAGE_BYTES and one more.
    """
    rows = dialect.fetch(connection, _LOAD, {"job_ids": write_ids(job_ids)})
    found: dict[str, tuple[ClaimedJob, bytes | None] | Again] = {}
    left = PAGE_BYTES
    for row in rows:
        sequence, node, boot, wall, steady, is_first, at, size, state, text = row[len(ENTRY) :]
        entry = read_entry(row[: len(ENTRY)])
        if size > LARGE_BYTES:
            if left <= 0:
                found[entry.job_id] = Again.LATER
                continue
            left -= size
            state = connection.execute(_LARGE_STATE, {"job_id": entry.job_id}).scalar_one()
        found[entry.job_id] = (
            ClaimedJob(
                entry,
                sequence,
                Holder(node, boot),
                Due(wall, steady),
                None if size < 0 else bytes(state),
                bool(is_first),
                at,
            ),
            bytes(text) or None,
        )
    return [found.get(job_id) for job_id in job_ids]


def _sequence_all(connection: sa.Connection, job_ids: Sequence[str]) -> list[int | None]:
    """The sequence of each job's latest claim."""
    rows = connection.execute(_SEQUENCE, {"job_ids": write_ids(job_ids)})
    found: dict[str, int] = dict(iter(rows))
    return [found.get(job_id) for job_id in job_ids]


def _definitions_all(
    texts: sa.Select[Any], connection: sa.Connection, names: Sequence[tuple[str, int]]
) -> list[bytes | Again | None]:
    """The text of each definition, by (uid, revision); None where there is none.

    Large ones are read alone, and of those at most PAGE_BYTES and one more.
    """
    found: dict[tuple[str, int], bytes | Again] = {}
    left = PAGE_BYTES
    values = {"keys": msgspec.json.encode(list(dict.fromkeys(names))).decode()}
    for uid, revision, size, text in connection.execute(texts, values).all():
        if size > LARGE_BYTES:
            if left <= 0:
                found[uid, revision] = Again.LATER
                continue
            left -= size
            text = connection.execute(_LARGE_TEXT, {"uid": uid, "revision": revision}).scalar_one()
        found[uid, revision] = bytes(text)
    return [found.get(name) for name in names]


def _other_was_first(job_id: str) -> StoreConflict:
    return StoreConflict(
        f"another turn of the job {job_id!r} was taken meanwhile; ask again in a moment", is_public=True
    )
