"""The queues of a cluster over its shared database: each call is one transaction, at any node."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

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
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.queue_claims import claim_parts
from scheduler_service.persistence.sql_cluster.queue_leases import (
    complete_lease,
    drop_part,
    extend_leases,
    free_part,
    go_on_with_queue,
    hold_queue,
    renew_lease,
    sweep_leases,
)
from scheduler_service.persistence.sql_cluster.queue_reads import (
    Name,
    read_changed,
    read_claimable,
    read_ended,
    read_figures,
    read_held,
)
from scheduler_service.persistence.sql_cluster.schema import marks

MARK = "queues"
_IS_MARK = marks.c.name == MARK
T = TypeVar("T")


class SqlQueues:
    """`ports.queues.SharedQueues`, which documents the methods. `max_completions` completed leases are known.

    `downtime`: after so many ms without a sweep nobody was there to renew a lease with, and leases are
    extended, by whoever comes first; None: `extend` alone does it.
    """

    max_completions = MAX_COMPLETIONS

    def __init__(self, *, database: SharedDatabase, downtime: int | None = None) -> None:
        self._database = database
        self._downtime = downtime

    async def claim(self, claim: Claim) -> tuple[Leased, ...]:
        dialect = self._database.dialect
        return await self._write(lambda connection: claim_parts(connection, dialect, claim))

    async def renew(self, lease: str, now: int) -> Renewed | None:
        return await self._try_again(now, None, lambda connection: renew_lease(connection, lease, now))

    async def complete(self, lease: str, end: PartEnd, now: int) -> EndedPart | bool:
        most, dialect = self.max_completions, self._database.dialect

        def work(connection: sa.Connection) -> EndedPart | bool:
            return complete_lease(connection, dialect, lease, end, now, most)

        return await self._try_again(now, False, work)

    async def free(self, freeing: Freeing) -> Swept | None:
        return await self._write(lambda connection: free_part(connection, freeing))

    async def sweep(self, now: int) -> Swept:
        def work(connection: sa.Connection) -> Swept:
            self._catch_up(connection, now)
            return sweep_leases(connection, now)

        return await self._write(work)

    async def extend(self, now: int) -> None:
        """After a downtime; a node that starts beside others changes nothing."""

        def work(connection: sa.Connection) -> None:
            if self._downtime is None:
                extend_leases(connection, now)
            else:
                self._catch_up(connection, now)

        await self._write(work)

    async def hold(self, tenant: str, queue: str, now: int) -> None:
        await self._write(lambda connection: hold_queue(connection, tenant, queue, now))

    async def go_on(self, tenant: str, queue: str, since: int, now: int) -> None:
        await self._write(lambda connection: go_on_with_queue(connection, tenant, queue, since, now))

    async def drop(self, part_id: str) -> None:
        await self._write(lambda connection: drop_part(connection, part_id))

    async def ended(self, after: str, limit: int, before: int | None = None) -> list[EndedPart]:
        return await self._database.read(partial(read_ended, after=after, limit=limit, before=before))

    async def changed(self, after: str, limit: int, before: int | None = None) -> list[ChangedPart]:
        return await self._database.read(partial(read_changed, after=after, limit=limit, before=before))

    async def claimable(self, names: Sequence[Name], now: int) -> list[Name]:
        return await self._database.read(partial(read_claimable, names=names, now=now))

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        return await self._database.read(lambda connection: read_figures(connection, query))

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        return await self._database.read(lambda connection: read_held(connection, query))

    async def _try_again(self, now: int, failure: T, work: Callable[[sa.Connection], T]) -> T:
        """`work`, once more where it fails only because nobody was there before the lease had ended."""

        def both(connection: sa.Connection) -> T:
            found = work(connection)
            if found is failure and self._catch_up(connection, now):
                return work(connection)
            return found

        return await self._write(both)

    def _catch_up(self, connection: sa.Connection, now: int) -> bool:
        """Extends leases after a downtime, and notes that somebody is there; whether there was one."""
        if self._downtime is None:
            return False
        found = connection.execute(sa.select(marks.c.until).where(_IS_MARK).with_for_update()).scalar()
        was_down = found is None or abs(now - found) > self._downtime
        if was_down:
            extend_leases(connection, now)
        row = {"name": MARK, "value": 0, "holder": "", "until": now}
        insert = self._database.dialect.insert(marks).values(row)
        connection.execute(insert.on_conflict_do_update(index_elements=[marks.c.name], set_={"until": now}))
        return was_down

    async def _write(self, work: Callable[[sa.Connection], T]) -> T:
        """Apart from turns, so that none of them waits for a part that another node works on."""
        return await self._database.write_apart(work)
