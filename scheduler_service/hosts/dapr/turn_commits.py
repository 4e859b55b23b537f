"""How a turn is committed: a claim in SQL, then its state, then what SQL is to have of it.

Dapr's state has no fencing. So each turn is claimed first, by the job's row of the catalogue, which moves
from the sequence that was read to the turn's own: a turn over an older state changes nothing. A turn older
than 2 s, or of a node that is past its heartbeat, never commits. At qos 0, and in a job's first turn, the
claim has the state, and is all that is written (decisions 53 and 62).
"""

from collections.abc import Sequence

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.dapr.cached_state import CachedState, CachedStates
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.sidecar import StateNotWritten
from scheduler_service.hosts.dapr.state_repair import StateRepair
from scheduler_service.persistence.common.actor_document import write_actor_document
from scheduler_service.ports.cluster import QueueTurn, TurnClaim
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Commit, Remembered

LONGEST_TURN_MS = 2 * SECOND
SHORTEST_WRITE_MS = 100
LARGEST_CLAIM_BYTES = 64 << 10
"""Of a state in the row that all claims of the job rewrite; a larger one goes to the actor store."""


class TurnCommits:
    """Commits the turns of the jobs whose `states` are in memory."""

    def __init__(self, *, node: NodeContext, states: CachedStates, repair: StateRepair) -> None:
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._clock = node.clock
        self._holder = node.holder
        self._heartbeat = node.cluster.heartbeat
        self._liveness = node.cluster.heartbeat.liveness
        self._log = node.log
        self._states = states
        self._repair = repair

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
        messages = state.messages_after(commit)
        raw = write_actor_document(state.document_of(commit, self._holder, messages))
        is_commit = self._is_all_in_claim(state, commit, raw)
        claim = TurnClaim(
            entry=commit.entry,
            due=commit.due,
            expected=state.sequence,
            sequence=commit.sequence,
            holder=self._holder,
            at=self._clock.now().steady,
            definition=commit.definition,
            copy=raw if is_commit or state.needs_copy or self._begins_life(commit) else None,
            is_exact=state.is_unsaved or not state.is_compared,
            may_wait=commit.may_wait,
            is_commit=is_commit,
        )
        await self._claim(state, claim, commit)
        is_saved = not is_commit and await self._save(state, claim, commit, raw)
        await self._end(state, claim, raw, is_saved=is_saved)
        state.qos, state.messages = commit.qos, messages
        await self._keep(job_id, state, commit.deliveries, commit.remembered)
        try:
            await self.enqueue(commit.entry.uid, commit.sequence, commit.queued)
        except StoreError as error:
            raise StoreUncertain(f"the turn is written, its queues are not: {error}") from error

    async def enqueue(self, uid: str, sequence: int, writes: tuple[QueueWrite, ...]) -> None:
        """Brings what a written turn wants in the queues there. Raises StoreError."""
        if writes:
            await self._store.enqueue(QueueTurn(uid, sequence, self._clock.now().steady, writes))

    def _is_all_in_claim(self, state: CachedState, commit: Commit, raw: bytes) -> bool:
        """Whether the claim is the commit: of a living job that is of qos 0 before the turn and after it.

        So is the first claim of a job, whatever its qos: were its state written after it, whoever finds the
        job between the two could not tell a creation that nobody has answered from a job that exists. Only
        where every node reads it there, and where it is kept through a power loss. At a node that gives its
        jobs away each claim of a living job is: its sidecar may write nothing any more.
        """
        if commit.document is None or not self._heartbeat.all_read_claims:
            return False
        if self._sidecar.is_left:
            return True
        is_light = state.sequence == 0 or not (state.qos or commit.qos)
        return is_light and len(raw) <= LARGEST_CLAIM_BYTES and self._store.is_synced

    def _begins_life(self, commit: Commit) -> bool:
        """Whether the actor store has nothing of this life, and perhaps the end of an earlier one.

        Who finds the claim alone has the state from there. Not over a database that may lose it by itself.
        """
        return commit.expected <= 0 and self._store.is_synced

    async def _claim(self, state: CachedState, claim: TurnClaim, commit: Commit) -> None:
        try:
            await self._store.claim(claim)
        except StoreConflict:
            self._states.drop(commit.entry.job_id)
            raise
        except StoreUncertain:
            if claim.is_commit:
                self._states.await_history(state, commit.batch)
            raise
        if claim.is_commit:
            self._states.await_history(state, commit.batch)

    async def _save(self, state: CachedState, claim: TurnClaim, commit: Commit, raw: bytes) -> bool:
        """Writes what is claimed to the actor store. Raises StoreError, as `commit` does.

        False: daprd has refused it, and the turn counts, for its claim has a copy. That of a destroyed job
        goes with its row, so that turn counts once it is written: who loads the job brings it there.
        """
        try:
            left = self._check_age(state, StoreUnavailable if claim.copy is None else StoreUncertain)
            self._states.await_history(state, commit.batch)
            await self._sidecar.save(commit.entry.job_id, raw, left)
        except StateNotWritten:
            if claim.copy is None:
                await self._repair.take_back(claim, before=state.raw)
                if commit.batch is not None:
                    self._states.forget_batch((commit.batch.uid, commit.batch.sequence))
                raise
            if commit.document is None:
                text = "the end of the job is not written yet; read it before you repeat"
                raise StoreUncertain(text, is_public=True) from None
            return False
        except StoreUncertain:
            self._repair.note_uncertain()
            raise
        return True

    async def _end(self, state: CachedState, claim: TurnClaim, raw: bytes, *, is_saved: bool) -> None:
        """Raises StoreUncertain where this process stood still meanwhile and another node went on."""
        job_id = claim.entry.job_id
        if not self._liveness.lasts(state.period) and await self._repair.is_overtaken(job_id, claim.sequence):
            self._states.drop(job_id)
            raise StoreUncertain(
                f"another node went on with the job {job_id!r}; read it before you repeat", is_public=True
            )
        state.raw, state.sequence, state.is_unsaved = raw, claim.sequence, not is_saved
        state.checked_at = self._clock.now().steady

    async def _keep(
        self, job_id: str, state: CachedState, deliveries: Sequence[Delivery], answer: Remembered | None
    ) -> None:
        """Brings them to SQL. The state has them: after an error the next commit brings them again."""
        answers = state.answers if answer is None or answer.is_of_message else [*state.answers, answer]
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

    def _check_age(self, state: CachedState, error: type[StoreError] = StoreUnavailable) -> int:
        """What is left of the turn, in ms. Raises `error` where it must not commit any more."""
        left = state.began + LONGEST_TURN_MS - self._clock.now().steady
        if left < SHORTEST_WRITE_MS:
            raise error("the turn took longer than 2 s and was given up; ask again in a moment")
        if not self._liveness.lasts(state.period):
            raise error("this node is past its own heartbeat and commits nothing; ask again")
        return left
