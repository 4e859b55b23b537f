"""The shared database: one thread that writes in groups, others that read; errors in the words of `ports`."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from scheduler_service.persistence.common.write_thread import Verdict, WriteThread
from scheduler_service.persistence.sql_cluster.schema import FORMAT, marks, metadata
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain

T = TypeVar("T")
Work = Callable[[sa.Connection], Any]
IN_MEMORY = "sqlite://"
GROUP = 128
READERS = 2
FORMAT_NAME = "format"


class SharedDatabase:
    """An open shared database. SQLite serves nodes on one machine, PostgreSQL any number of machines.

    `clock_skew` is what this machine's clock is ahead of the database's, in ms: the database's clock is the
    steady line of all nodes.
    """

    def __init__(self, *, url: str, loop: asyncio.AbstractEventLoop) -> None:
        """Opens `url` and makes its tables where they are missing. Raises StoreUnavailable."""
        self._gate: contextlib.AbstractContextManager[Any] = (
            threading.RLock() if url == IN_MEMORY else contextlib.nullcontext()
        )
        self.engine = _open_engine(url)
        self.dialect = self.engine.dialect.name
        try:
            self.clock_skew = self._prepare()
        except BaseException:
            self.engine.dispose()
            raise
        self._loop = loop
        self._lane: WriteThread[Work] = WriteThread(
            name="shared-writer", serve=self._serve, size=GROUP, loop=loop
        )
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="shared-reader")

    @classmethod
    async def open(cls, *, url: str) -> "SharedDatabase":
        """The database of `url`, opened beside the event loop. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(cls, url=url, loop=loop)

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs `work` in a transaction, together with what others write at the moment.

        What `work` returns as a StoreError is raised. Raises StoreUnavailable: nothing was written, and
        StoreUncertain where the transaction's end is unknown.
        """
        return cast("T", await self._lane.put(work))

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` reads. Raises StoreUnavailable."""
        return await self._loop.run_in_executor(self._threads, self._read, work)

    async def close(self) -> None:
        """Writes what was handed in, then lets go of the connections."""
        await self._lane.close()
        await self._loop.run_in_executor(None, self._threads.shutdown)
        self.engine.dispose()

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        with self._gate, _translated(), self.engine.connect() as connection:
            if self.dialect == "sqlite":
                connection.exec_driver_sql("BEGIN")
            return work(connection)

    def _serve(self, items: list[Work]) -> list[Verdict]:
        try:
            return self._transact(items)
        except StoreUncertain as error:
            return [error] * len(items)
        except StoreError as error:
            if len(items) == 1:
                return [error]
        # One of them may be what the database cannot take: alone, it fails alone.
        return [verdict for item in items for verdict in self._serve([item])]

    def _transact(self, items: list[Work]) -> list[Verdict]:
        with self._gate, _translated(), self.engine.connect() as connection:
            if self.dialect == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            verdicts = [item(connection) for item in items]
            try:
                connection.commit()
            except sa.exc.SQLAlchemyError as error:
                raise StoreUncertain(f"the shared database did not confirm a write: {error}") from error
            return verdicts

    def _prepare(self) -> int:
        with _translated(), self.engine.connect() as connection:
            _lock_tables(connection, self.dialect)
            metadata.create_all(connection)
            _check_format(connection)
            skew = round(time.time() * 1000) - _database_time(connection, self.dialect)
            connection.commit()
            return skew


def _open_engine(url: str) -> sa.Engine:
    if url.startswith("postgresql:"):
        return sa.create_engine(
            url.replace("postgresql:", "postgresql+psycopg:", 1),
            pool_pre_ping=True,
            connect_args={"connect_timeout": 5},
        )
    if not url.startswith("sqlite"):
        raise StoreUnavailable(
            f"nodes cannot share {url.split(':')[0]!r}; use postgresql://, or sqlite:///PATH"
        )
    pool = {"poolclass": StaticPool} if url == IN_MEMORY else {}
    engine = sa.create_engine(url, connect_args={"check_same_thread": False, "timeout": 10}, **pool)

    def prepare(raw: Any, _record: object) -> None:
        raw.isolation_level = None  # transactions are opened by hand
        raw.execute("PRAGMA journal_mode=WAL")
        raw.execute("PRAGMA synchronous=NORMAL")

    sa.event.listen(engine, "connect", prepare)
    return engine


def _lock_tables(connection: sa.Connection, dialect: str) -> None:
    """Of several nodes that start at once, one makes the tables."""
    if dialect == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(1347767875)")


def _check_format(connection: sa.Connection) -> None:
    found = connection.execute(sa.select(marks.c.value).where(marks.c.name == FORMAT_NAME)).scalar()
    if found is None:
        connection.execute(sa.insert(marks).values(name=FORMAT_NAME, value=FORMAT, holder="", until=0))
    elif found > FORMAT:
        raise StoreUnavailable(
            f"the shared tables have format {found}, this program knows {FORMAT}; start the newer program"
        )


def _database_time(connection: sa.Connection, dialect: str) -> int:
    if dialect == "sqlite":
        return round(time.time() * 1000)
    text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    return int(connection.exec_driver_sql(text).scalar_one())


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise StoreUnavailable(f"the shared database cannot be used: {error.orig}") from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreUnavailable(f"the shared database cannot be used: {error}") from error
