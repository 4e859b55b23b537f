"""The queues of the embedded host: their parts lie beside the jobs, under the same writer."""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed, Sight, Swept
from scheduler_service.domain.parts import PartEnd
from scheduler_service.persistence.sqlite.completions import MOST_KEPT
from scheduler_service.persistence.sqlite.queue_parts import (
    claim_parts,
    complete_lease,
    drop_part,
    extend_leases,
    look_at_parts,
    read_ended,
    renew_lease,
    sweep_leases,
)
from scheduler_service.persistence.sqlite.reader import Reader


class Step(msgspec.Struct, frozen=True, gc=False):
    """One conditional write, made within the writer's transaction; its result is the verdict."""

    make: Callable[[sqlite3.Connection], object]


class SqliteQueues:
    """`ports.instances.ShareQueues` over the table `parts`; `keeps` completed leases are known."""

    keeps = MOST_KEPT

    def __init__(self, *, put: Callable[[Step], Awaitable[object]], reader: Reader) -> None:
        self._put = put
        self._reader = reader

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        """As in the port."""
        return self._put(Step(partial(claim_parts, claim=claim)))  # type: ignore[return-value]

    async def look(self, claim: Claim) -> Sight:
        """As in the port."""
        return await self._reader.read(lambda connection: look_at_parts(connection, claim))

    def renew(self, lease: str, now: int) -> Awaitable[Renewed | None]:
        """As in the port."""
        return self._put(Step(partial(renew_lease, lease=lease, now=now)))  # type: ignore[return-value]

    def complete(self, lease: str, end: PartEnd, now: int) -> Awaitable[EndedPart | bool]:
        """As in the port."""
        completing = partial(complete_lease, lease=lease, end=end, now=now, keeps=self.keeps)
        return self._put(Step(completing))  # type: ignore[return-value]

    def sweep(self, now: int) -> Awaitable[Swept]:
        """As in the port."""
        return self._put(Step(partial(sweep_leases, now=now)))  # type: ignore[return-value]

    def extend(self, now: int) -> Awaitable[None]:
        """As in the port."""
        return self._put(Step(partial(extend_leases, now=now)))  # type: ignore[return-value]

    def drop(self, part_id: str) -> Awaitable[None]:
        """As in the port."""
        return self._put(Step(partial(drop_part, part_id=part_id)))  # type: ignore[return-value]

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """As in the port."""
        return await self._reader.read(lambda connection: read_ended(connection, after, limit))
