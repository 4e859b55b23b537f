"""Creates jobs without their actors, so that no sidecar is asked.

The claims of an array are written in groups; those of single creations together with all that waits when they
come. What is due soon waits in this process, all else is found by the sweep (decisions 52 and 59).
"""

from collections.abc import Sequence

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.records import Audited
from scheduler_service.hosts.creation import Creation
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.cluster_jobs import claim_of
from scheduler_service.hosts.dapr.first_turns import TakeDue, waits_at_creator
from scheduler_service.hosts.dapr.node import DaprParts, HistoryWait, LocalJobs
from scheduler_service.hosts.job_cache import CachedJob, PendingCommit
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit

SOON_MS = 2 * SECOND
"""A job that is created alone and due sooner is created by its actor, which would have to load it at once."""
AT_ONCE = 64


class DirectCreation(Creation):
    """Creates jobs without their actors where it can.

    It can where the database has nothing of a job, this node has it not in memory, and it does nothing at
    once. All others take the turn Created through `client`, so each has the reply of its actor. `client` does
    so too while this node is past its heartbeat, or stops. `expect` gets the jobs that wait here for their
    first moment. The next turn of a job loads it, wherever that is.
    """

    most_in_group = 250

    def __init__(
        self,
        *,
        node: DaprParts,
        local: LocalJobs,
        turn: Turn,
        client: ActorClient,
        expect: TakeDue,
    ) -> None:
        super().__init__(
            jobs=local.cache, turn=turn, commit_all=self._claim_all, take=client, at_once=AT_ONCE
        )
        self._store = node.cluster.store
        self._liveness = node.cluster.heartbeat.liveness
        self._holder = node.holder
        self._clock = node.clock
        self._alarms = local.alarms
        self._history = node.history
        self._observe_job = node.observe_job
        self._expect = expect
        self._wait_for_history = HistoryWait(flush=node.history.flush, clock=node.clock, log=node.log)

    def may_commit(self) -> bool:
        """Whether this node may claim jobs."""
        return self._liveness.is_current and super().may_commit()

    def keeps(self, pending: PendingCommit, *, is_alone: bool) -> bool:
        """Whether the job begins with a schedule alone: its holder has to be where its actor lives."""
        commit, document = pending.commit, pending.decision.document
        if document is None or document.contexts or pending.decision.effects:
            return False
        due = commit.due.wall
        is_soon = due is not None and due - commit.entry.created_at < (SOON_MS if is_alone else 0)
        return not (is_soon or commit.deliveries or commit.queued)

    async def begin(self, cached: CachedJob, pending: PendingCommit) -> None:
        """Nothing: no reminder guards the job before its first turn."""

    async def settle(self, cached: CachedJob, pending: PendingCommit, error: StoreError | None) -> None:
        """The database has the job; after an error it may, and the alarm makes its actor look."""
        commit = pending.commit
        cached.forget()
        if error is None:
            if commit.batch is not None:
                self._history.append(commit.batch, durable=True)
            self._observe_job(None, commit.entry)
        if error is None or isinstance(error, StoreUncertain):
            moment = commit.due.wall
            if moment is not None and waits_at_creator(commit.entry.created_at, moment):
                self._alarms.ring_at(commit.entry.job_id, moment)
                self._expect(commit.entry.job_id, moment)

    async def finish(self, written: Sequence[PendingCommit]) -> None:
        """Replies to commands wait for the history (`HistoryWait`)."""
        recorded = next((one.commit for one in written if _is_recorded(one.commit.batch)), None)
        if recorded is not None:
            await self._wait_for_history(recorded.entry.job_id)

    async def _claim_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """Claims jobs of which the database has nothing.

        Nor has it an answer under a command's Idempotency-Key: that goes when the life that it began ends.
        """
        at = self._clock.now().steady
        return await self._store.claim_all(
            [
                claim_of(commit, holder=self._holder, at=at, is_first=True, is_apart=commit.qos != 0)
                for commit in commits
            ]
        )


def _is_recorded(batch: Batch | None) -> bool:
    """Whether lists of the history show something of it; a line of the audit alone is not waited for."""
    return batch is not None and any(type(record) is not Audited for record in batch.records)
