"""The queues of a cluster, where nobody may have been there to renew a lease with."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import sqlalchemy as sa

from scheduler_service.domain.leases import EndedPart, LeaseHolder, Renewed, Swept
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.persistence.job_store.counters_and_leases import renew
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import marks
from scheduler_service.persistence.queues.lease_statements import extend_leases, renew_lease, sweep_leases
from scheduler_service.persistence.queues.sql_queues import SqlQueues

MARK = "queues"
_SEEN = sa.select(marks.c.until).where(marks.c.name == MARK).with_for_update()
T = TypeVar("T")


class ClusterQueues(SqlQueues):
    """`ports.queues.SharedQueues`: writes have transactions apart from turns, so that none of these waits for
    a part that another node works on.

    After `downtime` (ms) without a sweep leases are extended, by whoever comes first.
    """

    def __init__(self, *, database: JobDatabase, downtime: int) -> None:
        super().__init__(dialect=database.dialect, write=database.write_apart, read=database.read)
        self._downtime = downtime

    def renew(self, lease: str, now: int, holder: LeaseHolder | None = None) -> Awaitable[Renewed | None]:
        return self._try_again(now, None, lambda connection: renew_lease(connection, lease, now, holder))

    def complete(
        self, lease: str, end: PartEnd, now: int, holder: LeaseHolder | None = None
    ) -> Awaitable[EndedPart | bool]:
        return self._try_again(now, False, self._completing(lease, end, now, holder))

    def sweep(self, now: int) -> Awaitable[Swept]:
        def work(connection: sa.Connection) -> Swept:
            self._catch_up(connection, now)
            return sweep_leases(connection, now)

        return self._write(work)

    def extend(self, now: int) -> Awaitable[None]:
        """After a downtime; a node that starts beside others changes nothing."""

        def work(connection: sa.Connection) -> None:
            self._catch_up(connection, now)

        return self._write(work)

    def _try_again(self, now: int, failure: T, work: Callable[[sa.Connection], T]) -> Awaitable[T]:
        """`work`, once more where it fails only because nobody was there before the lease had ended."""

        def both(connection: sa.Connection) -> T:
            found = work(connection)
            if found is failure and self._catch_up(connection, now):
                return work(connection)
            return found

        return self._write(both)

    def _catch_up(self, connection: sa.Connection, now: int) -> bool:
        """Extends leases after a downtime, and notes that somebody is there; whether there was one."""
        found = connection.execute(_SEEN).scalar()
        was_down = found is None or abs(now - found) > self._downtime
        if was_down:
            extend_leases(connection, now)
        renew(connection, self._dialect, MARK, now)
        return was_down
