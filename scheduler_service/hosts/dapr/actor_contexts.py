"""Contexts of qos 1 in the actor state store: a key of the job's actor for each version.

A version is written in one transaction with the removal of older ones, where the actor is active. What
a sidecar writes late is a version that no row names.
"""

from collections.abc import Sequence

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.dapr.sidecar import Sidecar

WRITE_MS = SECOND // 2
"""Longer than a write takes. Where daprd takes longer the contexts go into the row, within the same turn."""


class ActorContexts:
    """`ports.contexts.Contexts` of the jobs whose actors live here."""

    def __init__(self, *, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    async def put(self, job_id: str, version: int, content: bytes, unused: Sequence[int]) -> None:
        """As the port says."""
        removed = [_key(one) for one in unused]
        await self._sidecar.write(job_id, {_key(version): content}, removed, WRITE_MS)

    async def get(self, job_id: str, version: int) -> bytes | None:
        """As the port says."""
        return await self._sidecar.get(job_id, _key(version)) or None

    async def drop(self, job_id: str, unused: Sequence[int]) -> None:
        """As the port says."""
        await self._sidecar.write(job_id, {}, [_key(one) for one in unused], WRITE_MS)


def _key(version: int) -> str:
    return f"context-{version:x}"
