"""The jobs' state over actors: one document per job, claimed in SQL before it is written.

Dapr's state has no fencing. So each turn is claimed first, by the job's row of the catalogue, which moves
from the sequence that was read to the turn's own: whoever read something older changes nothing. A turn
older than 2 s, or of a node that is past its heartbeat, never commits.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.cached_state import CachedState
from scheduler_service.hosts.dapr.liveness import Liveness
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.dapr.state_repair import LATEST_WRITE, StateRepair
from scheduler_service.persistence.common.actor_document import (
    ActorDocument,
    as_batches,
    read_actor_document,
    write_actor_document,
)
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.cluster import ClusterStore, TurnClaim
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import Commit, Remembered, Settlement, StoredJob

LONGEST_TURN = 2 * SECOND
FRESH = SECOND
EPOCH_BITS = 32
LEAST_WRITE = 100

T = TypeVar("T")
Found = Callable[[Sequence[Batch], Sequence[Delivery]], None]


class ActorStore:
    """ports.StateStore for turns. `begin` opens each turn; `found` gets what an earlier writer left undone.

    `tenure` says whether another node may have taken over what was begun here, `others` which nodes live.
    `epoch` is the highest number of a start of any node; sequences begin above it, and `next_epoch` draws a
    new one where another node's are higher.
    """

    def __init__(
        self,
        *,
        sidecar: Sidecar,
        shared: ClusterStore,
        clock: Clock,
        holder: Holder,
        epoch: int,
        next_epoch: Callable[[], Awaitable[int]],
        tenure: Liveness,
        others: Callable[[], frozenset[Holder]],
        found: Found,
        log: Log,
        most: int = 50_000,
    ) -> None:
        self._sidecar = sidecar
        self._shared = shared
        self._clock = clock
        self._holder = holder
        self._epoch = epoch
        self._next_epoch = next_epoch
        self._tenure = tenure
        self._lineage = StateRepair(sidecar=sidecar, shared=shared, holder=holder, others=others, log=log)
        self._found = found
        self._log = log
        self._most = most
        self._known: OrderedDict[str, CachedState] = OrderedDict()
        self._jobs: dict[tuple[str, int], str] = {}
        self._doubts = 0
        self.saves = 0

    async def begin(self, job_id: str) -> bool:
        """Opens a turn; False: what is cached of the job is not what lies in the store. Raises StoreError.

        What was read or written within the last second is taken as it is: a claim guards it.
        """
        now = self._clock.now().steady
        known = self._known.get(job_id)
        if known is None:
            return False
        self._known.move_to_end(job_id)
        known.began, known.tenure = now, self._tenure.number
        if known.doubts == self._doubts and now - known.seen < FRESH:
            return True
        raw = await self._sidecar.get(job_id)
        if raw != known.raw and not await self._lineage.heal(job_id, known, raw):
            known.read = raw
            return False
        if known.doubts != self._doubts and await self._lineage.is_overtaken(job_id, known.sequence):
            return False
        known.seen, known.doubts = now, self._doubts
        return True

    def tenure_of(self, job_id: str) -> int:
        """The stretch of this node's life in which the job's present turn was begun; -1: there is none."""
        return self._known[job_id].tenure if job_id in self._known else -1

    def doubt(self) -> None:
        """The sidecar began anew, or this process stood still: everything cached is looked at again."""
        self._doubts += 1

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None; opens a turn. Raises StoreUnavailable.

        Where the actor store has none, the catalogue's entry comes alone: a living one has lost its state.
        """
        began, tenure, doubts = self._clock.now().steady, self._tenure.number, self._doubts
        before = self._known.get(job_id)
        raw = before.read if before is not None and before.read is not None else None
        if raw is None:
            raw = await self._sidecar.get(job_id)
        raw, is_in_danger = await self._lineage.newest(job_id, raw)
        known = self._known[job_id] = CachedState(raw=raw, began=began, tenure=tenure, doubts=doubts)
        self._known.move_to_end(job_id)
        self._forget_oldest()
        if not raw:
            return await self._load_row(job_id, known)
        envelope = read_actor_document(raw)
        if envelope.writer != self._holder:
            await self._take_up(job_id, known, envelope)
        elif before is not None and known.inherit(before, envelope):
            await self._shared.keep(envelope.deliveries, envelope.remembered, self._holder)
        known.sequence = envelope.sequence
        known.copies_until = began + LATEST_WRITE if is_in_danger else 0
        return StoredJob(envelope.entry, self._above(envelope.sequence), envelope.document, envelope.due)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """For each None, or its error; every job is an actor of its own."""
        return await asyncio.gather(*(_value_of(self.commit(one)) for one in commits))

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None. Raises StoreUnavailable."""
        return await self._shared.definition(uid, revision)

    async def commit(self, commit: Commit) -> None:
        """Claims and writes one turn. Raises StoreConflict: another node has the job; other StoreErrors."""
        job_id = commit.entry.job_id
        known = self._known.get(job_id)
        if known is None:
            raise StoreConflict(f"the job {job_id!r} left the memory of this node; ask again")
        self._check_age(known)
        raw = write_actor_document(known.envelope(commit, self._holder))
        claim = TurnClaim(
            entry=commit.entry,
            due=commit.due,
            expected=known.sequence,
            sequence=commit.sequence,
            holder=self._holder,
            at=self._clock.now().steady,
            definition=commit.definition,
            copy=raw if known.began < known.copies_until else None,
        )
        try:
            await self._shared.claim(claim)
        except StoreConflict:
            self._known.pop(job_id, None)
            raise
        await self._save(known, commit, raw)
        await self._keep(job_id, known, commit.deliveries, commit.remembered)

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes what became of deliveries. Raises StoreError."""
        return self._shared.settle(settlements, self._clock.now().steady, self._holder)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms). Raises StoreUnavailable."""
        return await self._shared.recall(scope, key, since)

    async def remember(self, remembered: Remembered) -> None:
        """Keeps an answer that belongs to no single job. Raises StoreError."""
        await self._shared.keep((), (remembered,), self._holder)

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries of all nodes in order of id. Raises StoreUnavailable."""
        return await self._shared.deliveries(after, limit)

    async def written(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these batches: they go from the job's state with its next commit.

        Those below 0 are tries of deliveries. Where SQL does not forget them, they are told once more.
        """
        tries = [key for key in keys if key[1] < 0]
        if tries:
            try:
                await self._shared.pending_history.forget(tries)
            except StoreError as error:
                self._log("told_not_noted", error=str(error))
        for key in keys:
            known = self._known.get(self._jobs.pop(key, ""))
            if known is not None:
                known.batches.pop(key, None)

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """Alarms are reminders here."""
        return []

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """Alarms are reminders here."""
        return []

    async def open_jobs(self, after: str, limit: int) -> list[str]:
        """The sweep finds what a node left open."""
        return []

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        """Batches lie in their job's state, and are found when it is loaded."""
        return []

    async def close(self) -> None:
        """Nothing is held open here."""

    async def _load_row(self, job_id: str, known: CachedState) -> StoredJob | None:
        row = await self._shared.find(job_id)
        if row is None:
            return None
        known.sequence = row.sequence
        return StoredJob(row.entry, self._above(row.sequence), None, row.due)

    async def _take_up(self, job_id: str, known: CachedState, envelope: ActorDocument) -> None:
        """What another writer may not have brought to SQL is brought there now; a repetition does nothing."""
        if envelope.sequence >> EPOCH_BITS >= self._epoch:
            self._epoch = await self._next_epoch()
        batches = as_batches(envelope.batches)
        for batch in batches:
            self._await_history(known, batch)
        new = await self._shared.keep(envelope.deliveries, envelope.remembered, self._holder)
        self._found(batches, new)

    async def _save(self, known: CachedState, commit: Commit, raw: bytes) -> None:
        """Raises StoreUncertain, too, where this process stood still meanwhile and another node went on."""
        job_id = commit.entry.job_id
        left = self._check_age(known, StoreUncertain if known.copies_until else StoreUnavailable)
        if commit.batch is not None:
            self._await_history(known, commit.batch)
        await self._sidecar.save(job_id, raw, left)
        self.saves += 1
        if not self._tenure.lasts(known.tenure) and await self._lineage.is_overtaken(job_id, commit.sequence):
            self._known.pop(job_id, None)
            raise StoreUncertain(f"another node went on with the job {job_id!r}; look how it stands")
        known.raw, known.sequence = raw, commit.sequence
        known.seen = self._clock.now().steady

    async def _keep(
        self, job_id: str, known: CachedState, deliveries: Sequence[Delivery], answer: Remembered | None
    ) -> None:
        """The state has them already: where SQL takes them not, they go on with it."""
        answers = known.answers if answer is None else [*known.answers, answer]
        waiting = [*known.deliveries, *deliveries]
        if not answers and not waiting:
            return
        try:
            await self._shared.keep(waiting, answers, self._holder)
        except StoreError as error:
            known.deliveries, known.answers = waiting, answers
            self._log("outbox_not_written", jobId=job_id, error=str(error))
        else:
            known.deliveries, known.answers = [], []

    def _check_age(self, known: CachedState, error: type[StoreError] = StoreUnavailable) -> int:
        """What is left of the turn, in ms. Raises `error` where it must not commit any more."""
        left = known.began + LONGEST_TURN - self._clock.now().steady
        if left < LEAST_WRITE:
            raise error("the turn took longer than 2 s and was given up; ask again in a moment")
        if not self._tenure.lasts(known.tenure):
            raise error("this node is past its own heartbeat and commits nothing; ask again")
        return left

    def _above(self, sequence: int) -> int:
        return max(sequence, self._epoch << EPOCH_BITS)

    def _await_history(self, known: CachedState, batch: Batch) -> None:
        key = (batch.uid, batch.sequence)
        known.batches[key] = batch
        self._jobs[key] = batch.job_id

    def _forget_oldest(self) -> None:
        while len(self._known) > self._most:
            _, known = self._known.popitem(last=False)
            for key in known.batches:
                self._jobs.pop(key, None)


async def _value_of(work: Awaitable[T]) -> T | StoreError:
    """An error as a value."""
    try:
        return await work
    except StoreError as error:
        return error
