"""What a node keeps of its jobs between two turns, and how it reads those of 0.1.0."""

from collections import OrderedDict

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.hosts.dapr.node import DaprParts
from scheduler_service.persistence.common.packing import OldState, RowState, read_old_state
from scheduler_service.ports.cluster import ClaimedJob, QueueTurn
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered

BROUGHT_WITHIN_MS = 30 * MINUTE
"""Deliveries that are done are known for an hour (`TurnStore.prune`)."""


class OldStates:
    """Reads states where nodes of 0.1.0 have written them: in the actor store, some beside their claims.

    They are read until the job's next turn, whose claim has the state from then on. The nodes that wrote them
    are gone (`NodeHeartbeat.enter`). What the shared tables may not have is brought there.
    """

    def __init__(self, *, node: DaprParts) -> None:
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._clock = node.clock
        self._holder = node.holder

    async def read(self, row: ClaimedJob) -> OldState | None:
        """The newest state of a job, or None. Raises StoreError."""
        job_id = row.entry.job_id
        if row.state is not None:
            return read_old_state(row.state)
        found = [await self._store.old_copy(job_id, row.sequence), await self._sidecar.get(job_id)]
        states = [read_old_state(raw) for raw in found if raw]
        return max(states, key=lambda state: state.sequence, default=None)

    async def bring(self, state: OldState, at: int) -> list[Delivery]:
        """The deliveries that this node has to send, of the turn of `at` (steady ms). Raises StoreError.

        After some time none: the old nodes have sent them, and what is done is not kept for ever.
        """
        now = self._clock.now().steady
        if state.queued:
            await self._store.enqueue(QueueTurn(state.entry.uid, state.sequence, now, state.queued))
        deliveries = state.deliveries if now - at < BROUGHT_WITHIN_MS else ()
        if deliveries or state.remembered:
            await self._store.keep(deliveries, state.remembered, self._holder)
        return await self._store.unsent(deliveries, self._holder) if deliveries else []


FRESH_FOR_MS = SECOND
MESSAGES = 8
MESSAGE_MS = 30 * SECOND
"""How long the answer to a message is kept: longer than daprd and whoever asks it go on with that message."""
CACHED_STATES = 50_000
NO_STATE = RowState(document=None)


class CachedState:
    """`sequence` is that of the job's latest turn as of `checked_at` (steady ms).

    `began` is the start of the present turn, `period` the liveness period of that moment; a state of an older
    `generation` is compared with the store's before each turn. `batches` are those that the history has not
    confirmed. `messages` are the answers to the latest messages, each with the steady moment since when it is
    known here. `flights` are the calls that the row names as in flight, or, where the next claim gives the
    job away (`leaves`), is to name. `is_to_look`: another process may have left contexts of the job.
    """

    __slots__ = (
        "batches", "began", "checked_at", "flights", "generation", "is_to_look", "leaves", "messages",
        "period", "sequence",
    )  # fmt: skip

    def __init__(
        self, *, sequence: int, began: int, period: int, generation: int, kept: RowState = NO_STATE
    ) -> None:
        self.sequence = sequence
        self.began = self.checked_at = began
        self.period = period
        self.generation = generation
        self.batches: dict[tuple[str, int], Batch] = {}
        self.messages = tuple((began, message) for message in kept.messages)
        self.flights = kept.flights
        self.leaves = self.is_to_look = False

    def is_to_compare(self, now: int, generation: int, *, will_commit: bool) -> bool:
        """Whether the turn that begins has to compare it; the claim of one that `will_commit` does."""
        is_fresh, is_trusted = now - self.checked_at < FRESH_FOR_MS, self.generation == generation
        return not is_trusted or (not is_fresh and not will_commit)

    def answer_to(self, asked: Remembered) -> Remembered | None:
        """What was answered to a message that has come before; None: it is new."""
        known = (one for _, one in self.messages)
        return next((one for one in known if (one.scope, one.key) == (asked.scope, asked.key)), None)

    def messages_after(self, commit: Commit) -> tuple[tuple[int, Remembered], ...]:
        """`messages` as they are once the turn is committed."""
        message = commit.remembered
        if message is not None and message.is_of_message:
            return (*self._lately(), (self.began, message))[-MESSAGES:]
        return self._lately() if self.messages else ()

    def _lately(self) -> tuple[tuple[int, Remembered], ...]:
        return tuple(one for one in self.messages if self.began - one[0] < MESSAGE_MS)


class CachedStates:
    """The states of the jobs that were used last, at most `size`."""

    def __init__(self, *, size: int = CACHED_STATES) -> None:
        self._size = size
        self._states: OrderedDict[str, CachedState] = OrderedDict()
        self._job_ids: dict[tuple[str, int], str] = {}

    def get(self, job_id: str) -> CachedState | None:
        """The state of a job, if it is here."""
        return self._states.get(job_id)

    def use(self, job_id: str) -> CachedState | None:
        """As `get`; the job's turn begins."""
        state = self._states.get(job_id)
        if state is not None:
            self._states.move_to_end(job_id)
        return state

    def put(self, job_id: str, state: CachedState) -> None:
        """Replaces the state of a job; the one that was used least recently may go."""
        self._states[job_id] = state
        self._states.move_to_end(job_id)
        while len(self._states) > self._size:
            _, oldest = self._states.popitem(last=False)
            for key in oldest.batches:
                self._job_ids.pop(key, None)

    def drop(self, job_id: str) -> None:
        """The next turn of the job has to load it."""
        self._states.pop(job_id, None)

    def await_history(self, state: CachedState, batch: Batch | None) -> None:
        """All states of the job have `batch` until `forget_batch`."""
        if batch is None:
            return
        key = (batch.uid, batch.sequence)
        state.batches[key] = batch
        self._job_ids[key] = batch.job_id

    def forget_batch(self, key: tuple[str, int]) -> None:
        """No later state has it: it is in the history."""
        state = self._states.get(self._job_ids.pop(key, ""))
        if state is not None:
            state.batches.pop(key, None)
