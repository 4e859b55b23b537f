"""An open SQL database: connections that read and transactions that write, errors as `ports` names them."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
import sqlalchemy as sa

from scheduler_service import how_to_install
from scheduler_service.pacing.interpreter import short_turns
from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.sql.dialect import Dialect, Durability
from scheduler_service.persistence.sql.migrations import Migrations, upgrade
from scheduler_service.persistence.sql.sqlite import IN_MEMORY, SqliteDialect
from scheduler_service.ports.errors import StoreError, StoreUnavailable, store_closed

SHORT_WAIT_SECONDS = 0.1
"""Longer than what a caller does with the connection of single statements after its statement."""
TRIES = 5
"""So often a transaction is tried that the database takes back for another's sake."""
T = TypeVar("T")


class Collision(StoreUnavailable):
    """The transaction was taken back: it and another one waited for each other, or inserted the same row."""


class OpenDatabase:
    """An open database. In memory readers and writers wait for each other.

    A commit that fails raises `unconfirmed`, where it may be durable.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        in_memory: bool = False,
        faults: FaultPoints | None = None,
        commit_point: str = FaultPoint.HISTORY,
        unconfirmed: type[StoreError] = StoreUnavailable,
        is_only_writer: bool = False,
    ) -> None:
        """`faults` observes commits, as `commit_point`.

        `is_only_writer`: one transaction at a time writes here, so that one connection is kept for all.
        """
        self.dialect = dialect
        self._faults = faults
        self._commit_point = commit_point
        self._unconfirmed = unconfirmed
        self._keeping = threading.Lock()
        self._kept: sa.Connection | None = None
        self._own: sa.Connection | None = dialect.engine.connect() if is_only_writer else None
        self._is_closed = False
        self._gate: contextlib.AbstractContextManager[object] = (
            threading.RLock() if in_memory else contextlib.nullcontext()
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read with, in the calling thread: all is of one moment.

        Raises StoreUnavailable, also where a row is damaged.
        """
        try:
            with self._gate, translated(self.dialect), self.dialect.reading() as connection:
                yield connection
        except msgspec.MsgspecError as error:
            raise StoreUnavailable(self.dialect.explain(error)) from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction: all or nothing. Raises StoreUnavailable, or `unconfirmed`.

        An error of a value that the driver raises itself (`Dialect.insert_many`) is raised as it is.
        """
        with self._gate, translated(self.dialect), self._borrowed() as connection:
            self.dialect.begin(connection)
            try:
                yield connection
                self._commit(connection)
            except BaseException:
                self.dialect.rollback(connection)
                raise

    def write(self, work: Callable[[sa.Connection], T], *, is_single: bool = False) -> T:
        """The same for `work`, which is done again where it collides with others. Raises as `writing`.

        `is_single`: it makes one statement (`writing_once`).
        """
        begin = self.writing_once if is_single else self.writing
        for _ in range(TRIES - 1):
            with contextlib.suppress(Collision), begin() as connection:
                return work(connection)
        with begin() as connection:
            return work(connection)

    def write_valid(self, work: Callable[[sa.Connection], T]) -> T:
        """As `write`, but what the database refuses of a value is StoreUnavailable, too."""
        try:
            return self.write(work)
        except self.dialect.value_errors as error:
            raise StoreUnavailable(self.dialect.explain(error)) from error

    @contextlib.contextmanager
    def writing_once(self) -> Iterator[sa.Connection]:
        """The same for a single statement: without a way of its own to a server for begin and commit.

        Raises `unconfirmed` where it may be durable without an answer that says so. Callers take turns on one
        connection, which is kept: to borrow one costs a tenth of what a small group of claims does.
        """
        dialect = self.dialect
        if dialect.single is None:
            with self.writing() as connection:
                yield connection
            return
        with self._keeping, self._gate, translated(dialect):
            connection = self._kept_connection()
            try:
                with dialect.single(connection, self._unconfirmed):
                    yield connection
            except BaseException:
                self._give_kept_back()
                raise
            if self._is_closed:
                self._give_kept_back()

    @property
    def version(self) -> tuple[str, str]:
        """The name of the database program and its version, as it was when it was first connected to."""
        dialect = self.dialect.engine.dialect
        return dialect.name, ".".join(map(str, dialect.server_version_info or ())) or "unknown"

    def close(self) -> None:
        """Closes all connections; one that is in use in another thread, when that has done with it."""
        was_closed, self._is_closed = self._is_closed, True
        if self._own is not None:
            self._own.close()
        # Who is in a statement gives the connection back after it: no wait for a server that stands still.
        if self._keeping.acquire(timeout=SHORT_WAIT_SECONDS):
            try:
                self._give_kept_back()
            finally:
                self._keeping.release()
        # The pool would keep what is given back later, and leave it to the collector to find it open. Whether
        # it listens already SQLAlchemy tells by the pool's `id`, which another one may have had.
        if not was_closed:
            sa.event.listen(self.dialect.engine.pool, "checkin", _close_returned)
        self.dialect.dispose()

    def _borrowed(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return self.dialect.engine.connect() if self._own is None else contextlib.nullcontext(self._own)

    def _kept_connection(self) -> sa.Connection:
        """The connection of single statements; one that the server has ended is replaced."""
        if self._kept is not None and self.dialect.is_usable(self._kept):
            return self._kept
        self._give_kept_back()
        self._kept = self.dialect.engine.connect()
        return self._kept

    def _give_kept_back(self) -> None:
        if self._kept is not None:
            kept, self._kept = self._kept, None
            kept.close()

    def _commit(self, connection: sa.Connection) -> None:
        if self._faults is not None:
            self._faults.before(self._commit_point)
        try:
            self.dialect.commit(connection)
            if self._faults is not None:
                self._faults.after(self._commit_point)
        except StoreError:
            raise
        except Exception as error:
            if self.dialect.is_collision(error):  # the server says so: nothing was written
                raise _translate(self.dialect, error) from error
            raise self._unconfirmed(self.dialect.explain(error)) from error


class Database(OpenDatabase):
    """The tables of `migrations`, brought up to date."""

    def __init__(
        self,
        *,
        url: str,
        migrations: Migrations,
        durability: Durability = "full",
        faults: FaultPoints | None = None,
        commit_point: str = FaultPoint.HISTORY,
        unconfirmed: type[StoreError] = StoreUnavailable,
    ) -> None:
        """Opens `url`. Raises StoreUnavailable."""
        dialect = open_dialect(url, subject=migrations.subject, durability=durability)
        super().__init__(
            dialect,
            in_memory=url == IN_MEMORY,
            faults=faults,
            commit_point=commit_point,
            unconfirmed=unconfirmed,
        )
        try:
            with translated(dialect):
                upgrade(dialect, migrations)
        except BaseException:
            self.close()
            raise


class DatabaseThreads:
    """Threads that read and write a database beside the event loop; the database is its opener's to close.

    While they work, the loop gets the interpreter from them soon (`pacing.interpreter.short_turns`).
    """

    def __init__(
        self,
        database: OpenDatabase,
        *,
        name: str,
        count: int = 1,
    ) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._is_closed = False

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` reads, all of one moment. Raises StoreUnavailable, also after `close`."""

        def read() -> T:
            with self._database.reading() as connection:
                return work(connection)

        return await self._run(read)

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` returns, in a transaction of its own (`Database.write_valid`)."""
        return await self._run(lambda: self._database.write_valid(work))

    async def close(self) -> None:
        """Ends the threads when they have done what was asked for."""
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def _run(self, work: Callable[[], T]) -> T:
        def run() -> T:
            with short_turns():
                return work()

        if self._is_closed:
            raise store_closed()
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)


def read_unopened(url: str, table: sa.Table, read: Callable[[sa.Connection], T], *, missing: T) -> T:
    """What `read` finds in a table of a history whose service may not run; nothing is changed there.

    `missing`: what there is without the table. Raises StoreUnavailable.
    """
    with unopened(url, subject="the history") as dialect, dialect.engine.connect() as connection:
        return read(connection) if sa.inspect(connection).has_table(table.name) else missing


@contextlib.contextmanager
def unopened(url: str, *, subject: str) -> Iterator[Dialect]:
    """The dialect of a database whose tables stay as they are. Raises StoreUnavailable."""
    dialect = open_dialect(url, subject=subject)
    try:
        with translated(dialect):
            yield dialect
    finally:
        dialect.dispose()


def _close_returned(_raw: object, entry: sa.pool.ConnectionPoolEntry) -> None:
    entry.close()


@contextlib.contextmanager
def translated(dialect: Dialect) -> Iterator[None]:
    """Raises errors of the database as StoreUnavailable, but the driver's own about a value as they are."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        # SQLAlchemy's own text continues with the statement and a link, which are of no use to a reader.
        if isinstance(error, sa.exc.IntegrityError):  # who looked first, and found no such row, finds it now
            raise Collision(dialect.explain(error.orig or error)) from error
        raise _translate(dialect, error.orig or error) from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreUnavailable(dialect.explain(error)) from error
    except dialect.errors as error:
        if isinstance(error, dialect.value_errors):
            raise
        raise _translate(dialect, error) from error


def _translate(dialect: Dialect, error: BaseException) -> StoreUnavailable:
    kind = Collision if dialect.is_collision(error) else StoreUnavailable
    return kind(dialect.explain(error))


class ServerReport(msgspec.Struct, frozen=True):
    """`milliseconds` is the server's wall clock, read `between` two moments (s) of this machine's.

    `syncs`: a commit is on the server's disk before it is answered.
    `synced_by` are the settings of the server that see to that.
    """

    product: str
    version: str
    milliseconds: int
    between: tuple[float, float]
    syncs: bool
    synced_by: str
    is_replica: bool


def read_report(*, url: str, subject: str) -> ServerReport:
    """The report of a database server; changes nothing. Raises StoreUnavailable."""
    with unopened(url, subject=subject) as dialect, dialect.engine.connect() as connection:
        began = time.time()
        milliseconds = dialect.milliseconds(connection)
        between = began, time.time()
        return ServerReport(
            product=dialect.product,
            version=".".join(map(str, dialect.engine.dialect.server_version_info or ())),
            milliseconds=milliseconds,
            between=between,
            syncs=dialect.syncs(connection),
            synced_by=dialect.synced_by,
            is_replica=dialect.is_replica(connection),
        )


def open_dialect(url: str, *, subject: str, durability: Durability = "full") -> Dialect:
    """The dialect of `url`; `subject` names what is kept there in messages. Raises StoreUnavailable.

    In a file a commit with `full` outlives a power loss, with `process` a killed process; a server has
    settings of its own. A further database is a file beside `sqlite`, `postgres` and `mysql`, and a line.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        return SqliteDialect.open(url=url, subject=subject, durability=durability)
    try:
        if scheme == "postgresql":
            from scheduler_service.persistence.sql.postgres import PostgresDialect

            return PostgresDialect(url=url, subject=subject)
        if scheme in ("mysql", "mariadb"):
            from scheduler_service.persistence.sql.mysql import MysqlDialect

            return MysqlDialect(url=url, subject=subject)
    except ModuleNotFoundError as error:
        extra = "postgres" if scheme == "postgresql" else "mysql"
        raise StoreUnavailable(
            f"{subject} in {scheme}:// needs the package {error.name}; {how_to_install('service', extra)}"
        ) from error
    raise StoreUnavailable(
        f"{subject} cannot be kept in {scheme!r}; use sqlite:///PATH, postgresql://USER@HOST/NAME or "
        "mysql://USER@HOST/NAME"
    )
