"""The queues of the embedded host over Redis: their parts lie beside the jobs, under the same writer."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed, Swept
from scheduler_service.domain.parts import PartEnd, digest_said
from scheduler_service.persistence.redis.arguments import Step
from scheduler_service.persistence.redis.queue_parts import (
    queue_key,
    read_claimed,
    read_completed,
    read_ended,
    read_renewed,
    read_swept,
)
from scheduler_service.persistence.redis.reader import Reader
from scheduler_service.persistence.redis.rows import encode
from scheduler_service.persistence.sqlite.completions import KEPT, MOST_KEPT


class RedisQueues:
    """`ports.instances.Queues` by the scripts of the server; `keeps` completed leases are known."""

    keeps = MOST_KEPT

    def __init__(self, *, put: Callable[[Step], Awaitable[Any]], reader: Reader) -> None:
        self._put = put
        self._reader = reader

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        """As in the port."""
        queue, leases = queue_key(claim.tenant, claim.queue), [lease.encode() for lease in claim.leases]
        capacity = b"" if claim.capacity is None else b"%d" % claim.capacity
        asked = [b"claim", queue, claim.instance.encode(), b"%d" % claim.now, capacity, b"%d" % len(leases)]
        return self._put(Step((*asked, *leases), read_claimed))

    def renew(self, lease: str, now: int) -> Awaitable[Renewed | None]:
        """As in the port."""
        return self._put(Step((b"renew", lease.encode(), b"%d" % now), read_renewed))

    def complete(self, lease: str, end: PartEnd, now: int) -> Awaitable[EndedPart | bool]:
        """As in the port."""
        read = partial(read_completed, end)
        bounds = (b"%016d" % end.at, b"%016d" % max(end.at - KEPT, 0), b"%d" % self.keeps)
        asked = (b"complete", lease.encode(), b"%d" % now, encode(end), digest_said(end), *bounds)
        return self._put(Step(asked, read))

    def sweep(self, now: int) -> Awaitable[Swept]:
        """As in the port."""
        return self._put(Step((b"sweep", b"%d" % now), read_swept))

    def extend(self, now: int) -> Awaitable[None]:
        """As in the port."""
        return self._put(Step((b"extend", b"%d" % now), _read_nothing))

    def drop(self, part_id: str) -> Awaitable[None]:
        """As in the port."""
        return self._put(Step((b"drop", part_id.encode()), _read_nothing))

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """As in the port."""
        begin = b"(" + after.encode() if after else b"-"
        return [read_ended(*row) for row in await self._reader.script("ended", begin, limit)]


def _read_nothing(_: bytes) -> None:
    return
