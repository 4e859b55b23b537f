"""One service alone has the jobs of a shared database: a lock that lasts as long as its connection."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa

from scheduler_service.persistence.sql.database import translated
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.ports.errors import StoreError, StoreLocked

NUMBER = 1_347_767_900
"""The same in all programs, and none of those that `Dialect.locked` takes."""
START_SECONDS = 5.0
"""So long a start waits for the end of a service before: its server may not know of it yet."""
RETRY_SECONDS = 0.1
CHECK_SECONDS = 3.0
"""How often the connection is used. A server ends one that is not used for long."""

OnTrouble = Callable[[str | None], None]
"""Is told what is wrong while the database cannot be used alone, and None when it can again."""
TAKEN = "another service has the jobs in this database: stop it, or name another database in store.url"


class ServiceLock:
    """Held from `claim` to `release`; where the connection is lost it is taken again as soon as that can be.

    Meanwhile another service may take it, which then has the jobs: turns that this one takes are refused, as
    each is committed over the turn that was read.
    """

    def __init__(self, *, database: SharedDatabase, on_trouble: OnTrouble | None) -> None:
        self._database = database
        self._on_trouble = on_trouble
        self._connection: sa.Connection | None = None
        self._is_released = False
        self._guard = threading.Lock()
        self._is_well = True
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def claim(
        cls, *, database: SharedDatabase, on_trouble: OnTrouble | None, patience: float = START_SECONDS
    ) -> "ServiceLock":
        """Raises StoreLocked: another service has it, also after `patience` (seconds); StoreUnavailable."""
        lock = cls(database=database, on_trouble=on_trouble)
        until = time.monotonic() + patience
        while not await asyncio.to_thread(lock._try):
            if time.monotonic() > until:
                await lock.release()
                raise StoreLocked(TAKEN)
            await asyncio.sleep(RETRY_SECONDS)
        lock._watching = asyncio.ensure_future(lock._watch())
        return lock

    async def release(self) -> None:
        """Another service may have it from now on."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.to_thread(self._end)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                trouble = None if await asyncio.to_thread(self._try) else TAKEN
            except StoreError as error:
                trouble = str(error)
            if self._on_trouble is not None and (trouble is not None or not self._is_well):
                self._on_trouble(trouble)
            self._is_well = trouble is None

    def _try(self) -> bool:
        dialect = self._database.dialect
        with self._guard:
            if self._is_released:
                return True
            try:
                with translated(dialect):
                    if self._connection is None:
                        self._connection = dialect.engine.connect()
                    return dialect.claim_alone(self._connection, NUMBER)
            except StoreError:
                self._disconnect()
                raise

    def _end(self) -> None:
        with self._guard:
            self._is_released = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(sa.exc.SQLAlchemyError, *self._database.dialect.errors):
                connection.invalidate()  # else the pool would keep it, and the lock
                connection.close()
