"""Which of a job's states is the newest: a sidecar that stood still may write an older one over it.

The claims in SQL decide. While a node that counts as dead may still write, each claim has a copy of its
state, and is the commit itself: a load returns what the latest claim has. So is the claim of a job that was
created without its actor (`direct_creation`), until a turn has written its state, and each claim of a
job of qos 0, whose states are written nowhere else (decision 53).
"""

from typing import NamedTuple

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.hosts.dapr.cached_state import CachedState
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.sidecar import StateNotWritten
from scheduler_service.persistence.common.actor_document import read_actor_document
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.errors import StoreError

REPAIR_TIMEOUT_MS = 2 * SECOND
LATEST_WRITE_MS = 10 * MINUTE
"""How long after its node counts as dead a sidecar may still write."""
UNCERTAIN_MS = 5 * SECOND
"""As long as a claim holds: what this node's sidecar may have held back can still be written."""


class Newest(NamedTuple):
    """The newest state, and whether an older one may still be written over it.

    Where it `is_unsaved`, it lies with its claim alone: the actor store has an older one, or none.
    """

    raw: bytes
    needs_copies: bool = False
    is_unsaved: bool = False


class StateRepair:
    """Replaces older states by newer ones. Everything raises StoreError."""

    def __init__(self, *, node: NodeContext) -> None:
        self._node = node
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._holder = node.holder
        self._log = node.log
        self._clock = node.clock
        self._uncertain_until = 0

    async def newest(self, job_id: str, found: bytes | None) -> Newest:
        """The newest state of a job; `found` is the one in the actor store, where it was just read.

        Over it may write the node that claimed the job last and is not alive, or an earlier one, where there
        is a copy; nobody where that is the copy of a first turn, or of the last one of a node that gave the
        job away (qos 1 in a claim). What lies with its claim alone is not asked of the actor store.
        """
        latest = await self._store.latest(job_id)
        copy = None if latest is None else latest.copy
        if latest is not None and copy is not None:
            document = read_actor_document(copy)
            if latest.is_commit or document.is_first:
                return Newest(copy, needs_copies=latest.is_commit and not document.qos, is_unsaved=True)
        raw = await self._sidecar.get(job_id) if found is None else found
        if latest is None:
            return Newest(raw)
        if copy is None:
            is_gone = latest.holder != self._holder and latest.holder not in self._node.others()
            return Newest(raw, needs_copies=is_gone)
        try:
            if copy != raw:
                await self._replace(job_id, copy)
        except StateNotWritten:  # the actor is not here, or moves: the copy stays with its claim
            return Newest(copy, needs_copies=True, is_unsaved=True)
        return Newest(copy, needs_copies=True)

    async def is_latest(self, job_id: str, state: CachedState) -> bool:
        """Whether nobody has claimed a turn of the job since the cached one."""
        return await self._store.sequence(job_id) == state.sequence

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

    def note_uncertain(self) -> None:
        """A state of this node may be written, or may be yet: until that is over no claim is undone."""
        self._uncertain_until = self._clock.now().steady + UNCERTAIN_MS

    async def take_back(self, claim: TurnClaim, *, before: bytes) -> None:
        """Undoes a claim whose state daprd has refused, so that no node waits until it is 5 s old.

        The row is what it was by the state `before` it: else a job whose destruction was refused would count
        as destroyed. Never where there is none, or where an earlier state of this node may still come. An
        error is only logged.
        """
        if not before or self._clock.now().steady < self._uncertain_until:
            return
        earlier = read_actor_document(before)
        try:
            await self._store.release(claim, earlier.entry, earlier.due)
        except StoreError as error:
            self._log("claim_not_released", jobId=claim.entry.job_id, error=str(error))

    async def _replace(self, job_id: str, raw: bytes) -> None:
        await self._sidecar.save(job_id, raw, REPAIR_TIMEOUT_MS)
        self._log("state_replaced", jobId=job_id)
