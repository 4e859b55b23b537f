"""The history's database: one connection that writes, others that read."""

import contextlib
import threading
from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.dialect import Dialect, Raw, Removal
from scheduler_service.persistence.history.sqlite import IN_MEMORY, Durability, SqliteDialect
from scheduler_service.persistence.history.versions import Check, check, upgrade
from scheduler_service.ports.errors import StoreUnavailable

# The one point of a transaction that makes it durable, as `FaultPoints` hears of it.
COMMIT = "history.commit"


class HistoryDatabase:
    """An open history, in SQLite or PostgreSQL. Readers go on beside the writer; in memory they wait."""

    def __init__(
        self, *, url: str, durability: Durability = "full", faults: FaultPoints | None = None
    ) -> None:
        """Opens `url`, its tables brought up to date; `faults` observes commits. Raises StoreUnavailable."""
        self._faults = faults
        self._in_memory = url == IN_MEMORY
        self._gate = threading.RLock()
        self._dialect = open_dialect(url, durability)
        self.engine = self._dialect.engine
        try:
            with _translated(self._dialect):
                upgrade(self._dialect)
        except StoreUnavailable:
            self.engine.dispose()
            raise

    @property
    def removal(self) -> Removal:
        """What removes history, in transactions of `writing`."""
        return self._dialect.removal

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read with, in the calling thread: all is of one moment. Raises StoreUnavailable."""
        with self._turn(), _translated(self._dialect), self._dialect.reading() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Raw]:
        """One transaction on the driver's connection: all or nothing. Raises StoreUnavailable."""
        with self._transacting() as (_, raw):
            yield raw

    @contextlib.contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """One transaction for statements of SQLAlchemy: all or nothing. Raises StoreUnavailable."""
        with self._transacting() as (connection, _):
            yield connection

    def insert(self, connection: Raw, rows: Rows) -> None:
        """Writes all `rows` in a transaction of `writing`."""
        self._dialect.insert(connection, rows)

    def mark_dropped(self, connection: Raw, dropped: Iterable[tuple[str, int]]) -> None:
        """Marks executions whose detail was given up, in a transaction of `writing`."""
        self._dialect.mark_dropped(connection, dropped)

    def close(self) -> None:
        """Lets go of the file, or of the server."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _transacting(self) -> Iterator[tuple[sa.Connection, Raw]]:
        with self._turn(), _translated(self._dialect), self.engine.connect() as connection:
            raw = self._dialect.begin(connection)
            try:
                yield connection, raw
                self._commit(raw)
            except BaseException:
                self._dialect.rollback(connection, raw)
                raise

    def _commit(self, raw: Raw) -> None:
        """Ends the transaction, if the work has left one open."""
        if not self._dialect.is_open(raw):
            return
        if self._faults is not None:
            self._faults.before(COMMIT)
        self._dialect.commit(raw)
        if self._faults is not None:
            self._faults.after(COMMIT)

    def _turn(self) -> contextlib.AbstractContextManager[object]:
        return self._gate if self._in_memory else contextlib.nullcontext()


def migrate(*, url: str) -> Check:
    """Brings the tables of `url` up to date and says how they stand then. Raises StoreUnavailable."""
    HistoryDatabase(url=url).close()
    return inspect(url=url)


def inspect(*, url: str) -> Check:
    """How the tables of `url` stand, changing none of them. Raises StoreUnavailable."""
    dialect = open_dialect(url)
    try:
        with _translated(dialect):
            return check(dialect.engine)
    finally:
        dialect.engine.dispose()


def open_dialect(url: str, durability: Durability = "full") -> Dialect:
    """What speaks with `url`. In a file a commit with `full` outlives a power loss, with `process` a killed
    process; a server decides for itself. Raises StoreUnavailable.
    """
    if url.startswith("sqlite"):
        return SqliteDialect(url=url, durability=durability)
    if url.startswith("postgresql:"):
        return _open_postgres(url)
    raise StoreUnavailable(
        f"the history cannot live in {url.split(':')[0]!r} yet; use sqlite:///PATH or "
        "postgresql://USER@HOST/NAME"
    )


def _open_postgres(url: str) -> Dialect:
    try:
        from scheduler_service.persistence.history.postgres import PostgresDialect
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"a history in PostgreSQL needs the package {error.name}; install punctual[service,postgres]"
        ) from error
    return PostgresDialect(url=url)


@contextlib.contextmanager
def _translated(dialect: Dialect) -> Iterator[None]:
    try:
        yield
    except sa.exc.DBAPIError as error:
        # SQLAlchemy's own text goes on with the statement and a link, which help nobody here.
        raise StoreUnavailable(dialect.explain(error.orig or error)) from error
    except sa.exc.TimeoutError as error:
        raise StoreUnavailable(dialect.explain(error)) from error
    except dialect.errors as error:
        if isinstance(error, dialect.faults):
            raise
        raise StoreUnavailable(dialect.explain(error)) from error
