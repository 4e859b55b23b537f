"""States of jobs where nodes of 0.1.0 have written them: in the actor store, some beside their claims.

They are read until the job's next turn, whose claim has the state from then on. The nodes that wrote them are
gone: this program takes no turn beside them (`NodeHeartbeat.enter`).
"""

from scheduler_service.domain.effects import Delivery
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.persistence.common.row_state import OldState, read_old_state
from scheduler_service.ports.cluster import QueueTurn


class OldStates:
    """Reads them, and brings to the shared tables what these may not have."""

    def __init__(self, *, node: NodeContext) -> None:
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._clock = node.clock
        self._holder = node.holder

    async def read(self, job_id: str) -> OldState | None:
        """The newest state of a job, or None. Raises StoreError."""
        found = [await self._store.old_copy(job_id), await self._sidecar.get(job_id)]
        states = [read_old_state(raw) for raw in found if raw]
        return max(states, key=lambda state: state.sequence, default=None)

    async def bring(self, state: OldState) -> list[Delivery]:
        """The deliveries that this node has to send. Raises StoreError."""
        if state.queued:
            now = self._clock.now().steady
            await self._store.enqueue(QueueTurn(state.entry.uid, state.sequence, now, state.queued))
        if state.deliveries or state.remembered:
            await self._store.keep(state.deliveries, state.remembered, self._holder)
        return await self._store.unsent(state.deliveries, self._holder) if state.deliveries else []
