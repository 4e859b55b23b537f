"""Which of a job's states is the newest: a sidecar that stood still may write an older one over it.

The claims in SQL decide. While a node that counts as dead may still write, each claim has a copy of its
state, and is the commit itself: a load returns what the latest claim has.
"""

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.hosts.dapr.cached_state import CachedState
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.persistence.common.actor_document import read_actor_document

REPAIR_TIMEOUT_MS = 2 * SECOND
LATEST_WRITE_MS = 10 * MINUTE
"""How long after its node counts as dead a sidecar may still write."""


class StateRepair:
    """Replaces older states by newer ones. Everything raises StoreError."""

    def __init__(self, *, node: NodeContext) -> None:
        self._node = node
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._holder = node.holder
        self._log = node.log

    async def newest(self, job_id: str, raw: bytes) -> tuple[bytes, bool]:
        """The newest state where `raw` was found, and whether an older one may still be written over it.

        That may do the node that claimed the job last and is not alive, or an earlier one, where there is a
        copy.
        """
        latest = await self._store.latest(job_id)
        if latest is None:
            return raw, False
        claimer, copy = latest
        if copy is None:
            return raw, claimer != self._holder and claimer not in self._node.others()
        if copy != raw:
            await self._replace(job_id, copy)
        return copy, True

    async def is_overtaken(self, job_id: str, sequence: int) -> bool:
        """Whether another node has claimed the job since this one's turn `sequence`."""
        row = await self._store.find(job_id)
        return row is None or (row.holder != self._holder and row.sequence != sequence)

    async def heal(self, job_id: str, state: CachedState, raw: bytes) -> bool:
        """Writes the cached state again over the older `raw`; False: it is not known to be the newest."""
        if not raw or not state.raw or read_actor_document(raw).sequence >= state.sequence:
            return False
        row = await self._store.find(job_id)
        if row is None or row.sequence != state.sequence or row.holder != self._holder:
            return False
        await self._replace(job_id, state.raw)
        return True

    async def _replace(self, job_id: str, raw: bytes) -> None:
        await self._sidecar.save(job_id, raw, REPAIR_TIMEOUT_MS)
        self._log("state_replaced", jobId=job_id)
