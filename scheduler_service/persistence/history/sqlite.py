"""The history in SQLite: one file or memory, one writer, readers beside it."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool

from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.dialect import Removal
from scheduler_service.persistence.history.insertion import insert_rows, mark_dropped
from scheduler_service.persistence.history.removal import SqliteRemoval

Durability = Literal["full", "process"]
IN_MEMORY = "sqlite://"
# To this size the write-ahead log shrinks again after a large transaction.
JOURNAL_BYTES = 64 << 20
# Both double the writer's pace: the same pages of an index are read and written back less often.
CACHE_KIB = 16 << 10
CHECKPOINT_PAGES = 8_000
# What `PRAGMA auto_vacuum` says where pages are given back a few at a time.
INCREMENTAL = (2,)


class SqliteDialect:
    """dialect.Dialect over SQLite."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    faults: tuple[type[Exception], ...] = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)

    def __init__(self, *, url: str, durability: Durability) -> None:
        self.engine = _open_engine(url, durability)
        self.removal: Removal = SqliteRemoval()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection on which all that is read is of one moment."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection

    def begin(self, connection: sa.Connection) -> sqlite3.Connection:
        """Opens a transaction that writes; the driver's connection."""
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.execute("BEGIN IMMEDIATE")
        return raw

    def is_open(self, raw: sqlite3.Connection) -> bool:
        """Whether work has left the transaction open."""
        return raw.in_transaction

    def commit(self, raw: sqlite3.Connection) -> None:
        """Makes the transaction durable."""
        raw.execute("COMMIT")

    def rollback(self, _: sa.Connection, raw: sqlite3.Connection) -> None:
        """Takes the transaction back, where there is one."""
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def lock(self, connection: sa.Connection) -> None:
        """Of several who would make the tables at once, lets one go on at a time."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def insert(self, connection: sqlite3.Connection, rows: Rows) -> None:
        """Writes all `rows` in the transaction that is open."""
        insert_rows(connection, rows)

    def mark_dropped(self, connection: sqlite3.Connection, dropped: Iterable[tuple[str, int]]) -> None:
        """Marks executions whose detail was given up."""
        mark_dropped(connection, dropped)

    def explain(self, cause: BaseException) -> str:
        """What does not work, and what to look at."""
        return f"the history cannot be reached: {cause}; check its folder and disk"


def _open_engine(url: str, durability: Durability) -> sa.Engine:
    pool = StaticPool if url == IN_MEMORY else QueuePool
    engine = sa.create_engine(url, poolclass=pool, connect_args={"check_same_thread": False, "timeout": 10})

    def prepare(raw: Any, _record: object) -> None:
        raw.isolation_level = None  # transactions are opened by hand
        if raw.execute("PRAGMA auto_vacuum").fetchone() != INCREMENTAL:  # to set it waits for who writes
            raw.execute("PRAGMA auto_vacuum=INCREMENTAL")
        raw.execute("PRAGMA temp_store=MEMORY")
        raw.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        raw.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        raw.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
        raw.execute("PRAGMA journal_mode=WAL")
        raw.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")

    sa.event.listen(engine, "connect", prepare)
    return engine
