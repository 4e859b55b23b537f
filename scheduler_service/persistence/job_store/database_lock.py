"""One service alone has the jobs of a shared database: a lock that lasts as long as its connection."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa

from scheduler_service.persistence.job_store import counters_and_leases
from scheduler_service.persistence.job_store.database import OnTrouble
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.job_store.job_store_schema import marks as marks_table
from scheduler_service.persistence.sql.database import open_dialect, translated
from scheduler_service.ports.errors import StoreError, StoreLocked

NUMBER = 1_347_767_900
"""The same in all programs, and none of those that `Dialect.locked` takes."""
START_SECONDS = 5.0
"""So long a start waits for the end of a service before: its server may not know of it yet."""
RETRY_SECONDS = 0.1
CHECK_SECONDS = 3.0
"""How often the connection is used. A server ends one that is not used for long."""
ANSWER_SECONDS = 10.0
"""A server that says nothing for so long is away."""

TAKEN = "another service has the jobs in this database: stop it, or name another database in store.url"


class ServiceLock:
    """Held from `claim` to `release`; where the connection is lost it is taken again as soon as that can be.

    Another service may take it meanwhile. Each one that has it is counted (`marks.SERVICE`): this one writes
    nothing from then on (`marks.check_service`), and `on_taken` is told, even where the other one has ended.
    `is_first`: of the processes of its service; the others look whether it still has the database.
    """

    def __init__(self, *, url: str, is_first: bool) -> None:
        self.is_new = False
        """Whether no service and no node has used the database yet."""
        self._dialect = open_dialect(url, subject=MIGRATIONS.subject)
        self._is_first = is_first
        self._service: int | None = None
        self._connection: sa.Connection | None = None
        self._is_released = False
        self._guard = threading.Lock()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def claim(
        cls, *, url: str, is_first: bool = True, patience: float = START_SECONDS
    ) -> "ServiceLock":
        """Takes the lock, before any table is made or changed.

        Raises StoreLocked: another service has it, also after `patience` (seconds), or the jobs are a
        cluster's; StoreUnavailable.
        """
        lock = cls(url=url, is_first=is_first)
        until = time.monotonic() + patience
        try:
            while not await asyncio.to_thread(lock._try):
                _refuse_after(until)
                await asyncio.sleep(RETRY_SECONDS)
            lock.is_new = await asyncio.to_thread(lock._look)
        except BaseException:
            await lock.release()
            raise
        return lock

    def watch(self, service: int, *, on_trouble: OnTrouble | None, on_taken: Callable[[], None]) -> None:
        """Keeps the lock; `service` is the number of this one."""
        self._service = service
        self._watching = asyncio.ensure_future(self._watch(on_trouble, on_taken))

    async def release(self) -> None:
        """Another service may have it from now on."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.to_thread(self._end)

    async def _watch(self, on_trouble: OnTrouble | None, on_taken: Callable[[], None]) -> None:
        is_well = True
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            trouble = None
            try:
                if not await asyncio.to_thread(self._try):
                    on_taken()
            except StoreError as error:
                trouble = str(error)
            if on_trouble is not None and (trouble is not None or not is_well):
                on_trouble(trouble)
            is_well = trouble is None

    def _try(self) -> bool:
        """Whether the database is this service's. Raises StoreUnavailable."""
        with self._guard, translated(self._dialect):
            if self._is_released:
                return True
            try:
                if self._connection is None:
                    self._connection = self._dialect.engine.connect()
                return self._has(self._connection)
            except BaseException:
                self._disconnect()
                raise

    def _has(self, connection: sa.Connection) -> bool:
        with self._dialect.waiting_for(connection, ANSWER_SECONDS):
            if self._is_first and not self._dialect.claim_alone(connection, NUMBER):
                return False
            if self._service is None:
                return True
            found = counters_and_leases.read_number(connection, counters_and_leases.SERVICE)
            connection.rollback()
            return found == self._service

    def _look(self) -> bool:
        """Whether the database is new. Raises StoreLocked where it is a cluster's."""
        with self._guard, translated(self._dialect), self._dialect.reading() as connection:
            if not sa.inspect(connection).has_table(marks_table.name):
                return True
            counters_and_leases.check_placement(connection, counters_and_leases.ALONE)
            return not counters_and_leases.read_number(connection, counters_and_leases.EPOCH)

    def _end(self) -> None:
        with self._guard:
            self._is_released = True
            self._disconnect()
            self._dialect.engine.dispose()

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(sa.exc.SQLAlchemyError, *self._dialect.errors):
                connection.invalidate()  # else the pool would keep it, and the lock
                connection.close()


def _refuse_after(until: float) -> None:
    if time.monotonic() > until:
        raise StoreLocked(TAKEN)
