"""The state of jobs over actors: one document per job, claimed in SQL before it is written.

Dapr's state has no fencing. So each turn is claimed first, by the job's row of the catalogue, which moves
from the sequence that was read to the turn's own: a turn over an older state changes nothing. A turn older
than 2 s, or of a node that is past its heartbeat, never commits. At qos 0 the claim has the state, and is all
that is written (decision 53).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.dapr.backlog import NoBacklog
from scheduler_service.hosts.dapr.cached_state import FRESH_FOR_MS, CachedState
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.sidecar import StateNotWritten
from scheduler_service.hosts.dapr.state_repair import LATEST_WRITE_MS, StateRepair
from scheduler_service.persistence.common.actor_document import (
    ActorDocument,
    read_actor_document,
    unpack_batches,
    write_actor_document,
)
from scheduler_service.ports.cluster import QueueTurn, TurnClaim
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, Settlement, StoredJob

LONGEST_TURN_MS = 2 * SECOND
SHORTEST_WRITE_MS = 100
EPOCH_BITS = 32
CACHED_STATES = 50_000
LARGEST_CLAIM_BYTES = 64 << 10
"""Of a state in the row that all claims of the job rewrite; a larger one goes to the actor store."""

T = TypeVar("T")
TakeOver = Callable[[Sequence[Batch], Sequence[Delivery]], None]
"""Takes over records and deliveries that another writer may not have finished; a repetition does nothing."""


class ActorStore(NoBacklog):
    """`ports.state.StateStore` over actors. `begin` opens each turn.

    `saves` counts the states that were written. Sequences begin above the number of this start of a node (its
    epoch); a new number is drawn where another node's are higher.
    """

    def __init__(self, *, node: NodeContext, take_over: TakeOver, size: int = CACHED_STATES) -> None:
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._clock = node.clock
        self._holder = node.holder
        self._epoch = node.cluster.epoch
        self._next_epoch = node.cluster.nodes.next_epoch
        self._heartbeat = node.cluster.heartbeat
        self._liveness = node.cluster.heartbeat.liveness
        self._repair = StateRepair(node=node)
        self._take_over = take_over
        self._log = node.log
        self._size = size
        self._states: OrderedDict[str, CachedState] = OrderedDict()
        self._job_ids: dict[tuple[str, int], str] = {}
        self._generation = 0
        self.saves = 0

    async def begin(self, job_id: str, *, will_commit: bool = False) -> bool:
        """Opens a turn; False: the cached state is not the one in the store. Raises StoreError.

        What was read or written within the last second is not compared: the claim guards it. Nor is an older
        state where the turn `will_commit`: its claim is taken over that state alone.
        """
        now = self._clock.now().steady
        state = self._states.get(job_id)
        if state is None:
            return False
        self._states.move_to_end(job_id)
        state.began, state.period = now, self._liveness.period
        if not state.is_to_compare(now, self._generation, will_commit=will_commit):
            return True
        if not await self._is_current(job_id, state):
            return False
        state.checked_at, state.generation = now, self._generation
        return True

    def distrust(self, job_id: str) -> None:
        """The next turn compares the cached state, however young it is."""
        state = self._states.get(job_id)
        if state is not None:
            state.checked_at -= FRESH_FOR_MS

    def leave(self, job_id: str) -> None:
        """Whoever loads the job reads its state again, whatever `begin` has found."""
        state = self._states.get(job_id)
        if state is not None:
            state.found = None

    def period_of(self, job_id: str) -> int:
        """The liveness period in which the job's present turn was begun; -1: there is none."""
        return self._states[job_id].period if job_id in self._states else -1

    def recheck_all(self) -> None:
        """After a restart of the sidecar or a standstill: compares every cached state before its use."""
        self._generation += 1

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None; opens a turn. Raises StoreUnavailable.

        Without a state in the actor store the catalogue's entry comes alone: a living job has lost its state.
        """
        began, period, generation = self._clock.now().steady, self._liveness.period, self._generation
        before = self._states.get(job_id)
        newest = await self._repair.newest(job_id, None if before is None else before.found)
        raw = newest.raw
        state = self._states[job_id] = CachedState(raw=raw, began=began, period=period, generation=generation)
        self._states.move_to_end(job_id)
        self._evict_oldest()
        if not newest.raw:
            return await self._load_entry(job_id, state)
        document = read_actor_document(newest.raw)
        if document.writer != self._holder or document.is_first:
            await self._take_over_from(state, document)
        elif before is not None and state.inherit(before, document):
            await self._store.keep(document.deliveries, document.remembered, self._holder)
        state.sequence, state.qos, state.is_unsaved = document.sequence, document.qos, newest.is_unsaved
        state.copies_until = began + LATEST_WRITE_MS if newest.needs_copies else 0
        await self._enqueue(document.entry.uid, document.sequence, document.queued)
        return StoredJob(document.entry, document.sequence, document.document, document.due, self._used)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """For each None, or its error; every job is an actor of its own."""
        return await asyncio.gather(*(_value_of(self.commit(one)) for one in commits))

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None. Raises StoreUnavailable."""
        return await self._store.definition(uid, revision)

    async def commit(self, commit: Commit) -> None:
        """Claims and writes one turn; where the claim has its state, that is all.

        Raises StoreConflict: another node has the job; other StoreErrors. StateNotWritten: nothing was, and
        the claim is taken back. StoreUncertain also where the queues do not have its part of the turn:
        whoever loads it brings it.
        """
        job_id = commit.entry.job_id
        state = self._states.get(job_id)
        if state is None:
            raise StoreConflict(f"the job {job_id!r} left the memory of this node; ask again", is_public=True)
        self._check_age(state)
        raw = write_actor_document(state.document_of(commit, self._holder))
        is_commit = self._is_all_in_claim(state, commit, raw)
        claim = TurnClaim(
            entry=commit.entry,
            due=commit.due,
            expected=state.sequence,
            sequence=commit.sequence,
            holder=self._holder,
            at=self._clock.now().steady,
            definition=commit.definition,
            copy=raw if is_commit or state.needs_copy else None,
            is_exact=state.is_unsaved or not state.is_compared,
            may_wait=commit.may_wait,
            is_commit=is_commit,
        )
        await self._claim(state, claim, commit)
        if not is_commit:
            await self._save(state, claim, commit, raw)
        await self._end(state, claim, raw)
        state.qos = commit.qos
        await self._keep(job_id, state, commit.deliveries, commit.remembered)
        try:
            await self._enqueue(commit.entry.uid, commit.sequence, commit.queued)
        except StoreError as error:
            raise StoreUncertain(f"the turn is written, its queues are not: {error}") from error

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes the results of deliveries. Raises StoreError."""
        return self._store.settle(settlements, self._clock.now().steady, self._holder)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        return await self._store.recall(scope, key, since)

    async def remember(self, remembered: Remembered) -> None:
        """Keeps an answer that belongs to no single job. Raises StoreError."""
        await self._store.keep((), (remembered,), self._holder)

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries of all nodes in order of id. Raises StoreUnavailable."""
        return await self._store.deliveries(after, limit)

    async def written(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these batches: the job's next commit removes them from its state.

        Those below 0 are tries of deliveries. Where SQL does not remove them, they are written once more.
        """
        tries = [key for key in keys if key[1] < 0]
        if tries:
            try:
                await self._store.pending_history.forget(tries)
            except StoreError as error:
                self._log("confirmation_not_written", error=str(error))
        for key in keys:
            self._forget_batch(key)

    async def _load_entry(self, job_id: str, state: CachedState) -> StoredJob | None:
        row = await self._store.find(job_id)
        if row is None:
            return None
        state.sequence = row.sequence
        return StoredJob(row.entry, row.sequence, None, row.due, self._used)

    async def _take_over_from(self, state: CachedState, document: ActorDocument) -> None:
        """Brings to SQL what the writer of `document` may not have brought there."""
        if document.sequence >> EPOCH_BITS >= self._epoch:
            self._epoch = await self._next_epoch()
        batches = unpack_batches(document.batches)
        for batch in batches:
            self._await_history(state, batch)
        new = await self._store.keep(document.deliveries, document.remembered, self._holder)
        self._take_over(batches, new)

    async def _is_current(self, job_id: str, state: CachedState) -> bool:
        """Compares the cached state with the latest claim, or with what the actor store has.

        At qos 0 another node's claim leaves no trace there, nor does the first claim of a job of an array.
        """
        if (state.is_unsaved or not state.qos) and not await self._repair.is_latest(job_id, state):
            return False
        if state.is_unsaved:
            return True
        raw = await self._sidecar.get(job_id)
        if raw != state.raw and not await self._repair.heal(job_id, state, raw):
            state.found = raw
            return False
        is_trusted = state.generation == self._generation
        return is_trusted or not await self._repair.is_overtaken(job_id, state.sequence)

    def _is_all_in_claim(self, state: CachedState, commit: Commit, raw: bytes) -> bool:
        """Whether the claim is the commit: of a living job that is of qos 0 before the turn and after it.

        Only where every node reads it there, and where it is kept through a power loss.
        """
        if state.qos or commit.qos or commit.document is None or len(raw) > LARGEST_CLAIM_BYTES:
            return False
        return self._heartbeat.all_read_claims and self._store.is_synced

    async def _claim(self, state: CachedState, claim: TurnClaim, commit: Commit) -> None:
        try:
            await self._store.claim(claim)
        except StoreConflict:
            self._states.pop(commit.entry.job_id, None)
            raise
        except StoreUncertain:
            if claim.is_commit:
                self._await_history(state, commit.batch)
            raise
        if claim.is_commit:
            self._await_history(state, commit.batch)

    async def _save(self, state: CachedState, claim: TurnClaim, commit: Commit, raw: bytes) -> None:
        """Writes what is claimed to the actor store. Raises StoreError, as `commit` does."""
        try:
            left = self._check_age(state, StoreUnavailable if claim.copy is None else StoreUncertain)
            self._await_history(state, commit.batch)
            await self._sidecar.save(commit.entry.job_id, raw, left)
        except StateNotWritten:
            await self._repair.take_back(claim, is_first=not state.raw)
            if commit.batch is not None:
                self._forget_batch((commit.batch.uid, commit.batch.sequence))
            raise
        except StoreUncertain:
            self._repair.note_uncertain()
            raise
        self.saves += 1

    async def _end(self, state: CachedState, claim: TurnClaim, raw: bytes) -> None:
        """Raises StoreUncertain where this process stood still meanwhile and another node went on."""
        job_id = claim.entry.job_id
        if not self._liveness.lasts(state.period) and await self._repair.is_overtaken(job_id, claim.sequence):
            self._states.pop(job_id, None)
            raise StoreUncertain(
                f"another node went on with the job {job_id!r}; read it before you repeat", is_public=True
            )
        state.raw, state.sequence, state.is_unsaved = raw, claim.sequence, claim.is_commit
        state.checked_at = self._clock.now().steady

    async def _keep(
        self, job_id: str, state: CachedState, deliveries: Sequence[Delivery], answer: Remembered | None
    ) -> None:
        """Brings them to SQL. The state has them: after an error the next commit brings them again."""
        answers = state.answers if answer is None else [*state.answers, answer]
        pending = [*state.deliveries, *deliveries]
        if not answers and not pending:
            return
        try:
            await self._store.keep(pending, answers, self._holder)
        except StoreError as error:
            state.deliveries, state.answers = pending, answers
            self._log("outbox_not_written", jobId=job_id, error=str(error))
        else:
            state.deliveries, state.answers = [], []

    async def _enqueue(self, uid: str, sequence: int, writes: tuple[QueueWrite, ...]) -> None:
        """Brings what a written turn wants in the queues there. Raises StoreError."""
        if writes:
            await self._store.enqueue(QueueTurn(uid, sequence, self._clock.now().steady, writes))

    def _check_age(self, state: CachedState, error: type[StoreError] = StoreUnavailable) -> int:
        """What is left of the turn, in ms. Raises `error` where it must not commit any more."""
        left = state.began + LONGEST_TURN_MS - self._clock.now().steady
        if left < SHORTEST_WRITE_MS:
            raise error("the turn took longer than 2 s and was given up; ask again in a moment")
        if not self._liveness.lasts(state.period):
            raise error("this node is past its own heartbeat and commits nothing; ask again")
        return left

    @property
    def _used(self) -> int:
        """All that an earlier start of a node can have reached."""
        return self._epoch << EPOCH_BITS

    def _await_history(self, state: CachedState, batch: Batch | None) -> None:
        if batch is None:
            return
        key = (batch.uid, batch.sequence)
        state.batches[key] = batch
        self._job_ids[key] = batch.job_id

    def _forget_batch(self, key: tuple[str, int]) -> None:
        """No later state has it: it is in the history, or its turn was not written."""
        state = self._states.get(self._job_ids.pop(key, ""))
        if state is not None:
            state.batches.pop(key, None)

    def _evict_oldest(self) -> None:
        while len(self._states) > self._size:
            _, state = self._states.popitem(last=False)
            for key in state.batches:
                self._job_ids.pop(key, None)


async def _value_of(work: Awaitable[T]) -> T | StoreError:
    """The result, or the StoreError as a value."""
    try:
        return await work
    except StoreError as error:
        return error
