"""States of jobs where nodes of 0.1.0 have written them: in the actor store, some beside their claims.

They are read until the job's next turn, whose claim has the state from then on. The nodes that wrote them are
gone: this program takes no turn beside them (`NodeHeartbeat.enter`).
"""

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import MINUTE
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.persistence.common.row_state import OldState, read_old_state
from scheduler_service.ports.cluster import ClaimedJob, QueueTurn

BROUGHT_WITHIN_MS = 30 * MINUTE
"""Deliveries that are done are known for an hour (`ClusterStore.prune`)."""


class OldStates:
    """Reads them, and brings to the shared tables what these may not have."""

    def __init__(self, *, node: NodeContext) -> None:
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
