"""Which of a job's states is the newest: a sidecar that stood still may write an older one over it.

The claims in SQL tell. While a node that is taken for dead may still write, each claim brings a copy of its
state, and is the commit itself: whoever loads the job has what its latest claim says.
"""

from collections.abc import Callable

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.cached_state import CachedState
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.persistence.common.actor_document import read_actor_document
from scheduler_service.ports.cluster import ClusterStore
from scheduler_service.ports.log import Log

LIMIT = 2 * SECOND
LATEST_WRITE = 10 * MINUTE


class StateRepair:
    """For the node `holder`; `others` names the other nodes that live. Everything raises StoreError."""

    def __init__(
        self,
        *,
        sidecar: Sidecar,
        shared: ClusterStore,
        holder: Holder,
        others: Callable[[], frozenset[Holder]],
        log: Log,
    ) -> None:
        self._sidecar = sidecar
        self._shared = shared
        self._holder = holder
        self._others = others
        self._log = log

    async def newest(self, job_id: str, raw: bytes) -> tuple[bytes, bool]:
        """The state where `raw` was found, and whether somebody may still write over it.

        That may be who claimed the job last and is not heard of, or anybody before, where there is a copy.
        """
        latest = await self._shared.latest(job_id)
        if latest is None:
            return raw, False
        claimer, copy = latest
        if copy is None:
            return raw, claimer != self._holder and claimer not in self._others()
        if copy != raw:
            await self._sidecar.save(job_id, copy, LIMIT)
            self._log("older_state_replaced", jobId=job_id)
        return copy, True

    async def is_overtaken(self, job_id: str, sequence: int) -> bool:
        """Whether another node has claimed the job since this one's turn `sequence`."""
        row = await self._shared.find(job_id)
        return row is None or (row.holder != self._holder and row.sequence != sequence)

    async def heal(self, job_id: str, known: CachedState, raw: bytes) -> bool:
        """Puts right what was written over the state that this node still knows to be the newest."""
        if not raw or not known.raw or read_actor_document(raw).sequence >= known.sequence:
            return False
        row = await self._shared.find(job_id)
        if row is None or row.sequence != known.sequence or row.holder != self._holder:
            return False
        await self._sidecar.save(job_id, known.raw, LIMIT)
        self._log("older_state_replaced", jobId=job_id)
        return True
