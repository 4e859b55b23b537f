"""`ports.queues.Queues` over SQLite: the parts are stored beside the jobs, by the same writer."""

from collections.abc import Awaitable, Callable
from functools import partial

from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    QueueFigures,
    QueueQuery,
    Renewed,
    Swept,
)
from scheduler_service.domain.parts import PartEnd
from scheduler_service.persistence.common.writes import MAX_COMPLETIONS
from scheduler_service.persistence.sqlite.commit_group import Step
from scheduler_service.persistence.sqlite.queue_parts import (
    claim_parts,
    complete_lease,
    drop_part,
    extend_leases,
    free_part,
    go_on_with_queue,
    hold_queue,
    renew_lease,
    sweep_leases,
)
from scheduler_service.persistence.sqlite.queue_reads import read_changed, read_ended, read_figures, read_held
from scheduler_service.persistence.sqlite.reader import Reader


class SqliteQueues:
    """The port documents the methods. `max_completions` completed leases are known."""

    max_completions = MAX_COMPLETIONS

    def __init__(self, *, put: Callable[[Step], Awaitable[object]], reader: Reader) -> None:
        self._put = put
        self._reader = reader

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        return self._put(Step(partial(claim_parts, claim=claim)))  # type: ignore[return-value]

    def renew(self, lease: str, now: int) -> Awaitable[Renewed | None]:
        return self._put(Step(partial(renew_lease, lease=lease, now=now)))  # type: ignore[return-value]

    def complete(self, lease: str, end: PartEnd, now: int) -> Awaitable[EndedPart | bool]:
        completing = partial(
            complete_lease, lease=lease, end=end, now=now, max_completions=self.max_completions
        )
        return self._put(Step(completing))  # type: ignore[return-value]

    def free(self, freeing: Freeing) -> Awaitable[Swept | None]:
        return self._put(Step(partial(free_part, freeing=freeing)))  # type: ignore[return-value]

    def sweep(self, now: int) -> Awaitable[Swept]:
        return self._put(Step(partial(sweep_leases, now=now)))  # type: ignore[return-value]

    def extend(self, now: int) -> Awaitable[None]:
        return self._put(Step(partial(extend_leases, now=now)))  # type: ignore[return-value]

    def hold(self, tenant: str, queue: str, now: int) -> Awaitable[None]:
        holding = partial(hold_queue, tenant=tenant, queue=queue, now=now)
        return self._put(Step(holding))  # type: ignore[return-value]

    def go_on(self, tenant: str, queue: str, since: int, now: int) -> Awaitable[None]:
        going_on = partial(go_on_with_queue, tenant=tenant, queue=queue, since=since, now=now)
        return self._put(Step(going_on))  # type: ignore[return-value]

    def drop(self, part_id: str) -> Awaitable[None]:
        return self._put(Step(partial(drop_part, part_id=part_id)))  # type: ignore[return-value]

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        return await self._reader.read(lambda connection: read_ended(connection, after, limit))

    async def changed(self, after: str, limit: int) -> list[ChangedPart]:
        return await self._reader.read(lambda connection: read_changed(connection, after, limit))

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        return await self._reader.read(lambda connection: read_figures(connection, query))

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        return await self._reader.read(lambda connection: read_held(connection, query))
