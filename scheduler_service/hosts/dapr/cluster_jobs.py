"""The jobs of a cluster as turns use them: the claim of a turn in SQL is its commit.

Dapr's state has no fencing, so it has no part in this: the job's row moves from the sequence that was read to
the turn's own, in one transaction with all that the turn writes. A turn over an older state changes nothing.
A turn older than 2 s, or of a node that is past its heartbeat, never commits.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND, Due
from scheduler_service.domain.wire import Flights, Holder
from scheduler_service.hosts.dapr.cached_state import NO_STATE, CachedState, CachedStates, OldStates
from scheduler_service.hosts.dapr.node import DaprParts
from scheduler_service.hosts.dapr.sidecar import StateNotWritten
from scheduler_service.persistence.common.packing import (
    RowState,
    is_old_state,
    pack,
    read_row_state,
)
from scheduler_service.persistence.contexts.external_contexts import ApartCommit, ContextKeeper
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.cluster import ClaimedJob, TurnClaim
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import OF_MESSAGE, Commit, Remembered, Settlement, StoredJob

EPOCH_BITS = 32
LONGEST_TURN_MS = 2 * SECOND
SHORTEST_WRITE_MS = 100
PUT_AGAIN_AFTER_MS = 5 * SECOND
"""For so long after an error contexts are in the rows: no turn waits for a sidecar that does not write."""

TakeOver = Callable[[Sequence[Batch], Sequence[Delivery]], None]
"""Takes over records and deliveries that another writer may not have finished; a repetition does nothing."""


class DoubtfulClaim(msgspec.Struct, frozen=True):
    """A turn of which nobody said whether it was claimed. `is_given_up`: it was not there when one looked."""

    commit: Commit
    is_given_up: bool = False


class ClusterJobs:
    """`ports.state.StateStore` over the shared database. `begin` opens each turn.

    Contexts of qos 1 lie in `contexts`, which the row names; None: in the row. Where they cannot be put there
    they are in the row for the while; where `puts_contexts` is false, those that are there are read alone.

    Sequences begin above the number of this start of a node (its epoch); a new number is drawn where another
    node's are higher.
    """

    def __init__(self, *, node: DaprParts, take_over: TakeOver) -> None:
        contexts = node.contexts
        store = self._store = node.cluster.store
        self.definition, self.deliveries = store.definition, store.deliveries
        self.remember, self.remember_first = store.remember, store.remember_first
        self._clock = node.clock
        self._holder = node.holder
        self._epoch = node.cluster.epoch
        self._next_epoch = node.cluster.nodes.next_epoch
        self._liveness = node.cluster.heartbeat.liveness
        self._old = OldStates(node=node)
        self._take_over = take_over
        self._log = node.log
        self._states = CachedStates()
        self._generation = 0
        self._sidecar = node.sidecar
        self._keeper = None if contexts is None else ContextKeeper(contexts=contexts, log=node.log)
        self._puts_contexts = node.puts_contexts
        self._put_again_at = 0
        self._uncertain: dict[str, DoubtfulClaim] = {}

    async def begin(self, job_id: str, *, will_commit: bool = False) -> bool:
        """Opens a turn; False: the cached state is not the one in the store. Raises StoreError.

        What was read or written within the last second is not compared: the claim guards it. Nor is an older
        state where the turn `will_commit`.
        """
        now = self._clock.now().steady
        state = self._states.use(job_id)
        if state is None:
            return False
        state.began, state.period = now, self._liveness.period
        if not state.is_to_compare(now, self._generation, will_commit=will_commit):
            return True
        if await self._store.sequence(job_id) != state.sequence:
            return False
        state.checked_at, state.generation = now, self._generation
        return True

    def flights(self, job_id: str) -> Flights:
        """The calls of the job that its row names as in flight. Its turn has begun."""
        state = self._states.get(job_id)
        return () if state is None else state.flights

    def give_away(self, job_id: str, flights: Flights) -> None:
        """The claim of the turn that has begun gives the job away; these calls go on in flight."""
        state = self._states.get(job_id)
        if state is not None:
            state.flights, state.leaves = flights, True

    def period_of(self, job_id: str) -> int:
        """The liveness period in which the job's present turn was begun; -1: there is none."""
        state = self._states.get(job_id)
        return -1 if state is None else state.period

    def recheck_all(self) -> None:
        """After a restart of the sidecar or a standstill: compares every cached state before its use."""
        self._generation += 1

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None; opens a turn. Raises StoreUnavailable.

        A living job without a document has lost its state: 0.1.0 kept that in the actor store.
        """
        if self._keeper is None:
            return await self._load(job_id)
        stored = await self._keeper.load(lambda: self._load(job_id))
        state = self._states.get(job_id)
        if state is not None and state.is_to_look:
            state.is_to_look = False
            await self._keeper.look(job_id)
        return stored

    async def _load(self, job_id: str) -> StoredJob | None:
        began, period, generation = self._clock.now().steady, self._liveness.period, self._generation
        row = await self._store.load(job_id)
        if row is None:
            self._states.put(
                job_id, CachedState(sequence=0, began=began, period=period, generation=generation)
            )
            return None
        entry, due, kept = await self._read(row)
        state = CachedState(
            sequence=row.sequence, began=began, period=period, generation=generation, kept=kept
        )
        before = self._states.get(job_id)
        self._states.put(job_id, state)
        if row.holder == self._holder and not row.is_first:
            self._inherit(state, before, kept.batches)
        else:
            state.is_to_look = kept.is_apart and row.holder != self._holder
            await self._take_over_from(state, row, kept.batches)
        await self._settle_doubt(state, row)
        return StoredJob(entry, row.sequence, kept.document, due, self._epoch << EPOCH_BITS)

    async def commit(self, commit: Commit) -> None:
        """Claims one turn, which is all that is written. Raises StoreConflict: another node has the job;
        other StoreErrors.
        """
        job_id = commit.entry.job_id
        state = self._states.get(job_id)
        if state is None:
            raise StoreConflict(f"the job {job_id!r} left the memory of this node; ask again", is_public=True)
        self._check_age(state)
        if commit.expected != state.sequence:  # a life after a destroyed one follows what that has left
            commit = msgspec.structs.replace(commit, expected=state.sequence)
        # daprd writes nothing of an actor that it takes away.
        kept = ApartCommit(commit) if state.leaves else await self._put_contexts(commit)
        messages, flights = state.messages_after(commit), state.flights if state.leaves else ()
        claim = claim_of(
            kept.commit,
            holder=self._holder,
            at=self._clock.now().steady,
            batches=state.batches.values(),
            messages=tuple(message for _, message in messages),
            flights=flights,
            is_apart=self._keeper is not None and self._keeper.concerns(commit),
        )
        await self._claim(state, claim, kept)
        await self._check_lead(state, commit)
        state.sequence, state.messages, state.checked_at = commit.sequence, messages, claim.at
        state.flights = flights

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes the results of deliveries. Raises StoreError."""
        return self._store.settle(settlements, self._clock.now().steady, self._holder)

    def answer_to(self, job_id: str, asked: Remembered) -> Remembered | None:
        """What the job answered to this message before. Its turn has begun."""
        state = self._states.get(job_id)
        return None if state is None else state.answer_to(asked)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """Those of messages are in the job's own state (`answer_to`)."""
        if scope == OF_MESSAGE:
            return None
        return await self._store.recall(scope, key, since)

    async def written(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these batches: the job's next commit removes them from its state.

        Those below 0 are tries of deliveries. Where SQL does not remove them, they are written once more.
        """
        tries = [key for key in keys if key[1] < 0]
        if tries:
            try:
                await self._store.written(tries)
            except StoreError as error:
                self._log("confirmation_not_written", error=str(error))
        for key in keys:
            self._states.forget_batch(key)

    async def _read(self, row: ClaimedJob) -> tuple[CatalogueEntry, Due, RowState]:
        if row.state is not None and not is_old_state(row.state):
            return row.entry, row.due, read_row_state(row.state)
        old = await self._old.read(row)
        if old is None:
            return row.entry, row.due, NO_STATE
        self._take_over((), await self._old.bring(old, row.at))
        return old.entry, old.due, RowState(document=old.document, batches=old.batches, messages=old.messages)

    def _inherit(self, state: CachedState, before: CachedState | None, batches: Iterable[Batch]) -> None:
        """This process has brought `batches` to its history: those that it still waits for stay.

        One that is not among them belongs to a turn that was not written.
        """
        waiting = {} if before is None else before.batches
        for batch in batches:
            if (batch.uid, batch.sequence) in waiting:
                self._states.await_history(state, batch)

    async def _take_over_from(self, state: CachedState, row: ClaimedJob, batches: Sequence[Batch]) -> None:
        """Brings to the history what the writer of the row may not have brought there."""
        if row.sequence >> EPOCH_BITS >= self._epoch:
            self._epoch = await self._next_epoch()
        for batch in batches:
            self._states.await_history(state, batch)
        self._take_over(batches, ())

    async def _settle_doubt(self, state: CachedState, row: ClaimedJob) -> None:
        """What nobody else brings of a claim of which nobody said that it was taken: its deliveries, records.

        Where it is the latest turn, whoever awaits it does so; unless it was not there when he looked, and
        came later.
        """
        job_id = row.entry.job_id
        doubtful = self._uncertain.get(job_id)
        if doubtful is None:
            return
        commit, batch = doubtful.commit, doubtful.commit.batch
        is_latest = row.sequence == commit.sequence
        if row.sequence == commit.expected:
            self._uncertain[job_id] = msgspec.structs.replace(doubtful, is_given_up=True)
            return
        if commit.deliveries and (doubtful.is_given_up or not is_latest):
            # Before the doubt is over: an error here leaves it to the next load.
            self._take_over((), await self._store.unsent(commit.deliveries, self._holder))
        del self._uncertain[job_id]
        if is_latest and doubtful.is_given_up and batch is not None:
            self._states.await_history(state, batch)
            self._take_over((batch,), ())

    async def _put_contexts(self, commit: Commit) -> ApartCommit:
        """What is to be claimed: `commit`, or the same with its contexts put elsewhere."""
        keeper = self._keeper
        if keeper is None or not self._puts_contexts or not keeper.concerns(commit):
            return ApartCommit(commit)
        now = self._clock.now().steady
        if not self._sidecar.is_left and now >= self._put_again_at:
            try:
                return await keeper.put(commit)
            except StoreError as error:
                if not isinstance(error.__cause__, StateNotWritten):  # which is about this job alone
                    self._put_again_at = now + PUT_AGAIN_AFTER_MS
                self._log("contexts_not_written", jobId=commit.entry.job_id, error=str(error))
        return ApartCommit(commit)

    async def _claim(self, state: CachedState, claim: TurnClaim, kept: ApartCommit) -> None:
        commit = kept.commit
        job_id = commit.entry.job_id
        error = await _error_of(self._store.claim(claim))
        if self._keeper is not None:
            self._keeper.settle(kept, error)
        if isinstance(error, StoreConflict):
            self._states.drop(job_id)
        elif error is None or isinstance(error, StoreUncertain):
            self._states.await_history(state, commit.batch)
        if isinstance(error, StoreUncertain):
            self._uncertain[job_id] = DoubtfulClaim(commit)
        if error is not None:
            raise error

    async def _check_lead(self, state: CachedState, commit: Commit) -> None:
        """Raises StoreUncertain where this process stood still meanwhile and another node went on."""
        if self._liveness.lasts(state.period):
            return
        job_id = commit.entry.job_id
        self._uncertain[job_id] = DoubtfulClaim(commit)
        try:
            latest = await self._store.sequence(job_id)
        except StoreError as error:
            raise StoreUncertain(
                f"the turn is written; whether others went on is unknown: {error}"
            ) from error
        if latest != commit.sequence:
            self._states.drop(job_id)
            raise StoreUncertain(
                f"another node went on with the job {job_id!r}; read it before you repeat", is_public=True
            )
        del self._uncertain[job_id]

    def _check_age(self, state: CachedState) -> None:
        """Raises StoreUnavailable where the turn must not commit any more."""
        if state.began + LONGEST_TURN_MS - self._clock.now().steady < SHORTEST_WRITE_MS:
            raise StoreUnavailable("the turn took longer than 2 s and was given up; ask again in a moment")
        if not self._liveness.lasts(state.period):
            raise StoreUnavailable("this node is past its own heartbeat and commits nothing; ask again")


def claim_of(
    commit: Commit,
    *,
    holder: Holder,
    at: int,
    batches: Iterable[Batch] = (),
    messages: tuple[Remembered, ...] = (),
    flights: Flights = (),
    is_first: bool = False,
    is_apart: bool = False,
) -> TurnClaim:
    """The claim of a turn; `batches` are earlier ones that the history has not confirmed."""
    own = () if commit.batch is None else (commit.batch,)
    state = RowState(
        document=commit.document,
        batches=(*batches, *own),
        messages=messages,
        flights=flights,
        is_apart=is_apart,
    )
    return TurnClaim(commit, holder, at, pack(state), is_first)


async def _error_of(work: Awaitable[None]) -> StoreError | None:
    """The StoreError that it raises, or None."""
    try:
        await work
    except StoreError as error:
        return error
    return None
