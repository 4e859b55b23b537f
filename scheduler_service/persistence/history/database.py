"""The history's database: one connection that writes, others that read."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool

from scheduler_service.persistence.history.versions import Check, check, upgrade
from scheduler_service.persistence.state.tap import Tap
from scheduler_service.ports import StoreUnavailable

Durability = Literal["full", "process"]
IN_MEMORY = "sqlite://"
# The one point of a transaction that makes it durable, as `Tap` hears of it.
COMMIT = "history.commit"
# To this size the write-ahead log shrinks again after a large transaction.
JOURNAL_BYTES = 64 << 20
# Both double the writer's pace: the same pages of an index are read and written back less often.
CACHE_KIB = 16 << 10
CHECKPOINT_PAGES = 8_000


class HistoryDatabase:
    """An open history. SQLite in a file lets readers go on beside the writer; in memory they take turns."""

    def __init__(self, *, url: str, durability: Durability = "full", tap: Tap | None = None) -> None:
        """Opens `url`, its tables brought up to date; `tap` hears of commits. Raises StoreUnavailable."""
        self._tap = tap
        self._in_memory = url == IN_MEMORY
        self._gate = threading.RLock()
        self.engine = open_engine(url, durability)
        try:
            with _translated():
                upgrade(self.engine)
        except StoreUnavailable:
            self.engine.dispose()
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read with, in the calling thread. Raises StoreUnavailable."""
        with self._turn(), _translated(), self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")  # all that one answer is made of is of one moment
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the raw connection: all or nothing. Raises StoreUnavailable."""
        with self._turn(), _translated(), self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            raw.execute("BEGIN IMMEDIATE")
            try:
                yield raw
                self._commit(raw)
            except BaseException:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """One transaction for statements of SQLAlchemy: all or nothing. Raises StoreUnavailable."""
        with self._turn(), _translated(), self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield connection
                self._commit(raw)
            except BaseException:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Lets go of the file."""
        self.engine.dispose()

    def _commit(self, raw: sqlite3.Connection) -> None:
        """Ends the transaction, if the work has left one open."""
        if not raw.in_transaction:
            return
        if self._tap is not None:
            self._tap.before(COMMIT)
        raw.execute("COMMIT")
        if self._tap is not None:
            self._tap.after(COMMIT)

    def _turn(self) -> contextlib.AbstractContextManager[object]:
        return self._gate if self._in_memory else contextlib.nullcontext()


def migrate(*, url: str) -> Check:
    """Brings the tables of `url` up to date and says how they stand then. Raises StoreUnavailable."""
    database = HistoryDatabase(url=url)
    try:
        with _translated():
            return check(database.engine)
    finally:
        database.close()


def inspect(*, url: str) -> Check:
    """How the tables of `url` stand, changing none of them. Raises StoreUnavailable."""
    engine = open_engine(url)
    try:
        with _translated():
            return check(engine)
    finally:
        engine.dispose()


def open_engine(url: str, durability: Durability = "full") -> sa.Engine:
    """An engine on `url`. With `full` a commit outlives a power loss, with `process` a killed process."""
    if not url.startswith("sqlite"):
        raise StoreUnavailable(f"the history cannot live in {url.split(':')[0]!r} yet; use sqlite:///PATH")
    pool = StaticPool if url == IN_MEMORY else QueuePool
    engine = sa.create_engine(url, poolclass=pool, connect_args={"check_same_thread": False, "timeout": 10})

    def prepare(raw: sqlite3.Connection, _record: object) -> None:
        raw.isolation_level = None  # transactions are opened by hand
        raw.execute("PRAGMA auto_vacuum=INCREMENTAL")
        raw.execute("PRAGMA temp_store=MEMORY")
        raw.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        raw.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        raw.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
        raw.execute("PRAGMA journal_mode=WAL")
        raw.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")

    sa.event.listen(engine, "connect", prepare)
    return engine


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError):
        raise  # the fault of a value, not of the database
    except (sqlite3.Error, sa.exc.DBAPIError) as error:
        # SQLAlchemy's own text goes on with the statement and a link, which help nobody here.
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        raise StoreUnavailable(
            f"the history cannot be reached: {cause}; check its folder and disk"
        ) from error
