"""The store of a worker process, seen from the service: its catalogue and its queues."""

from collections.abc import Awaitable, Mapping, Sequence

from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed, Sight, Swept
from scheduler_service.domain.moments import Now
from scheduler_service.domain.parts import PartEnd
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_methods import ChildrenOf, UpcomingSpan
from scheduler_service.hosts.processes.worker_handle import WorkerHandle
from scheduler_service.ports.catalogue import CatalogueEntry, JobCounts, JobPage, JobQuery, Revision


class RemoteCatalogue:
    """catalogue.Catalogue of one worker process."""

    def __init__(self, *, branch: WorkerHandle) -> None:
        self._branch = branch

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.GET, job_id)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.SOME, list(job_ids))

    async def find(self, uid: str) -> CatalogueEntry | None:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.FIND, uid)

    async def list(self, query: JobQuery) -> JobPage:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.LIST, query)

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.REVISIONS, (uid, after, limit))

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        """As in the catalogue."""
        family = ChildrenOf(parent_job, parent_execution, after, limit)
        return await self._branch.call(rpc_methods.CHILDREN, family)

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None = "default"
    ) -> Sequence[CatalogueEntry]:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.UPCOMING, UpcomingSpan(start, end, limit, tenant))

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        """As in the catalogue."""
        return await self._branch.call(rpc_methods.COUNTS, (now, tenant))


class RemoteQueues:
    """`ports.instances.Queues` of one worker process, with a look at what may be claimed."""

    def __init__(self, *, branch: WorkerHandle) -> None:
        self._branch = branch

    async def look(self, claim: Claim) -> Sight:
        """As in the port."""
        return await self._branch.call(rpc_methods.LOOK, claim)

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        """As in the port."""
        return self._branch.call(rpc_methods.CLAIM, claim)

    def renew(self, lease: str, now: int) -> Awaitable[Renewed | None]:
        """As in the port."""
        return self._branch.call(rpc_methods.RENEW, (lease, now))

    def complete(self, lease: str, end: PartEnd, now: int) -> Awaitable[EndedPart | bool]:
        """As in the port."""
        return self._branch.call(rpc_methods.COMPLETE, (lease, end, now))

    def sweep(self, now: int) -> Awaitable[Swept]:
        """As in the port."""
        return self._branch.call(rpc_methods.SWEEP, now)

    def extend(self, now: int) -> Awaitable[None]:
        """As in the port."""
        return self._branch.call(rpc_methods.EXTEND, now)

    def drop(self, part_id: str) -> Awaitable[None]:
        """As in the port."""
        return self._branch.call(rpc_methods.DROP, part_id)

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """As in the port."""
        return await self._branch.call(rpc_methods.ENDED, (after, limit))
