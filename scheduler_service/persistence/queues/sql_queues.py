"""`ports.queues.SharedQueues` over a database: each call is one transaction of its store."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    LeaseHolder,
    QueueFigures,
    QueueQuery,
    Renewed,
    Swept,
)
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.persistence.queues.claim_statements import claim_parts
from scheduler_service.persistence.queues.lease_statements import (
    MAX_COMPLETIONS,
    Name,
    complete_lease,
    drop_part,
    extend_leases,
    free_part,
    go_on_with_queue,
    hold_queue,
    read_changed,
    read_claimable,
    read_ended,
    read_figures,
    read_held,
    renew_lease,
    sweep_leases,
)
from scheduler_service.persistence.sql.dialect import Dialect, Run


class SqlQueues:
    """The port documents the methods. `max_completions` completed leases are known.

    `write` runs what changes something, `read` the rest.
    """

    max_completions = MAX_COMPLETIONS

    def __init__(self, *, dialect: Dialect, write: Run, read: Run) -> None:
        self._dialect = dialect
        self._write = write
        self._read = read

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        return self._write(partial(claim_parts, dialect=self._dialect, claim=claim))

    def renew(self, lease: str, now: int, holder: LeaseHolder | None = None) -> Awaitable[Renewed | None]:
        return self._write(partial(renew_lease, lease=lease, now=now, holder=holder))

    def complete(
        self, lease: str, end: PartEnd, now: int, holder: LeaseHolder | None = None
    ) -> Awaitable[EndedPart | bool]:
        return self._write(self._completing(lease, end, now, holder))

    def free(self, freeing: Freeing) -> Awaitable[Swept | None]:
        return self._write(partial(free_part, freeing=freeing))

    def sweep(self, now: int) -> Awaitable[Swept]:
        return self._write(partial(sweep_leases, now=now))

    def extend(self, now: int) -> Awaitable[None]:
        return self._write(partial(extend_leases, now=now))

    def hold(self, tenant: str, queue: str, now: int) -> Awaitable[None]:
        return self._write(partial(hold_queue, tenant=tenant, queue=queue, now=now))

    def go_on(self, tenant: str, queue: str, since: int, now: int) -> Awaitable[None]:
        return self._write(partial(go_on_with_queue, tenant=tenant, queue=queue, since=since, now=now))

    def drop(self, part_id: str) -> Awaitable[None]:
        return self._write(partial(drop_part, part_id=part_id))

    async def ended(self, after: str, limit: int, before: int | None = None) -> list[EndedPart]:
        return await self._read(partial(read_ended, after=after, limit=limit, before=before))

    async def changed(self, after: str, limit: int, before: int | None = None) -> list[ChangedPart]:
        return await self._read(partial(read_changed, after=after, limit=limit, before=before))

    async def claimable(self, names: Sequence[Name], now: int) -> list[Name]:
        return await self._read(partial(read_claimable, names=names, now=now))

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        return await self._read(partial(read_figures, query=query))

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        return await self._read(partial(read_held, query=query))

    def _completing(
        self, lease: str, end: PartEnd, now: int, holder: LeaseHolder | None
    ) -> Callable[[sa.Connection], EndedPart | bool]:
        given: dict[str, Any] = {"lease": lease, "end": end, "now": now, "holder": holder}
        return partial(complete_lease, dialect=self._dialect, max_completions=self.max_completions, **given)
