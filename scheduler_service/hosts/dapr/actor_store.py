"""The state of jobs over actors: one document per job, which lies in the actor store or with its claim.

What a turn goes on from is compared here with what other nodes may have written; `turn_commits` has how it
is written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from scheduler_service.domain.effects import Delivery
from scheduler_service.hosts.dapr.backlog import NoBacklog
from scheduler_service.hosts.dapr.cached_state import FRESH_FOR_MS, CachedState, CachedStates
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.state_repair import LATEST_WRITE_MS, StateRepair
from scheduler_service.hosts.dapr.turn_commits import TurnCommits
from scheduler_service.persistence.common.actor_document import (
    ActorDocument,
    read_actor_document,
    unpack_batches,
)
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import OF_MESSAGE, Commit, Remembered, Settlement, StoredJob

EPOCH_BITS = 32

T = TypeVar("T")
TakeOver = Callable[[Sequence[Batch], Sequence[Delivery]], None]
"""Takes over records and deliveries that another writer may not have finished; a repetition does nothing."""


class ActorStore(NoBacklog):
    """`ports.state.StateStore` over actors. `begin` opens each turn.

    Sequences begin above the number of this start of a node (its epoch); a new number is drawn where another
    node's are higher.
    """

    def __init__(self, *, node: NodeContext, take_over: TakeOver) -> None:
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._clock = node.clock
        self._holder = node.holder
        self._epoch = node.cluster.epoch
        self._next_epoch = node.cluster.nodes.next_epoch
        self._liveness = node.cluster.heartbeat.liveness
        self._repair = StateRepair(node=node)
        self._take_over = take_over
        self._log = node.log
        self._states = CachedStates()
        self._commits = TurnCommits(node=node, states=self._states, repair=self._repair)
        self._generation = 0
        self._uncertain: set[str] = set()

    async def begin(self, job_id: str, *, will_commit: bool = False) -> bool:
        """Opens a turn; False: the cached state is not the one in the store. Raises StoreError.

        What was read or written within the last second is not compared: the claim guards it. Nor is an older
        state where the turn `will_commit`: its claim is taken over that state alone.
        """
        now = self._clock.now().steady
        state = self._states.use(job_id)
        if state is None:
            return False
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
        state = self._states.get(job_id)
        return -1 if state is None else state.period

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
        state = CachedState(raw=newest.raw, began=began, period=period, generation=generation)
        self._states.put(job_id, state)
        if not newest.raw:
            return await self._load_entry(job_id, state)
        document = read_actor_document(newest.raw)
        if document.writer != self._holder or document.is_first:
            await self._take_over_from(state, document)
        elif before is not None and state.inherit(before, document):
            await self._store.keep(document.deliveries, document.remembered, self._holder)
        state.sequence, state.qos, state.is_unsaved = document.sequence, document.qos, newest.is_unsaved
        state.messages = tuple((began, message) for message in document.messages)
        state.copies_until = began + LATEST_WRITE_MS if newest.needs_copies else 0
        await self._commits.enqueue(document.entry.uid, document.sequence, document.queued)
        return StoredJob(document.entry, document.sequence, document.document, document.due, self._used)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """For each None, or its error; every job is an actor of its own."""
        return await asyncio.gather(*(_value_of(self.commit(one)) for one in commits))

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None. Raises StoreUnavailable."""
        return await self._store.definition(uid, revision)

    def commit(self, commit: Commit) -> Coroutine[Any, Any, None]:
        """Writes one turn. Raises StoreError, as `TurnCommits.commit` says."""
        return self._commits.commit(commit)

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes the results of deliveries. Raises StoreError."""
        return self._store.settle(settlements, self._clock.now().steady, self._holder)

    def answer_to(self, job_id: str, asked: Remembered) -> Remembered | None:
        """What the job answered when it was asked before, where its state alone has that.

        Its turn has begun.
        """
        state = self._states.get(job_id)
        return None if state is None else state.answer_to(asked)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """Those of messages are in the job's own state (`answer_to`)."""
        if scope == OF_MESSAGE:
            return None
        return await self._store.recall(scope, key, since)

    async def remember(self, remembered: Remembered) -> None:
        """Keeps an answer that belongs to no single job. Raises StoreError."""
        await self._store.keep((), (remembered,), self._holder)

    async def remember_first(self, remembered: Remembered, since: int) -> bool:
        """As the port says. Raises StoreError."""
        return await self._store.remember_first(remembered, since)

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
            self._states.forget_batch(key)

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
            self._states.await_history(state, batch)
        job_id = document.entry.job_id
        try:
            new = await self._store.keep(document.deliveries, document.remembered, self._holder)
        except StoreUncertain:
            self._uncertain.add(job_id)
            raise
        if job_id in self._uncertain:  # SQL may have had them before, and nobody sends them
            self._uncertain.discard(job_id)
            new = list(document.deliveries)
        self._take_over(batches, new)

    async def _is_current(self, job_id: str, state: CachedState) -> bool:
        """Compares the cached state with the latest claim, then with what the actor store has.

        Another node's claim may leave no trace there: at qos 0, in the first turn of a job, and where daprd
        has refused to write a state of which the claim has a copy.
        """
        if not await self._repair.is_latest(job_id, state):
            return False
        if state.is_unsaved:
            return True
        raw = await self._sidecar.get(job_id)
        if raw != state.raw and not await self._repair.heal(job_id, state, raw):
            state.found = raw
            return False
        return True

    @property
    def _used(self) -> int:
        """All that an earlier start of a node can have reached."""
        return self._epoch << EPOCH_BITS


async def _value_of(work: Awaitable[T]) -> T | StoreError:
    """The result, or the StoreError as a value."""
    try:
        return await work
    except StoreError as error:
        return error
