"""SQLite: one file or memory, one writer, readers beside it."""

import contextlib
import os
import sqlite3
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote, unquote_to_bytes

import msgspec
import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool

from scheduler_service.persistence.sql.dialect import (
    Dialect,
    Durability,
    quoted,
    write_addition,
    write_replacement,
    write_upsert,
)
from scheduler_service.persistence.sql.expressions import (
    NEVER,
    AnyMemberLike,
    Contains,
    GuardedUpsert,
    IndexSteps,
    IsIn,
    JsonLists,
    JsonRows,
    Like,
    Member,
    NewestState,
    Row,
    StoredSize,
    TextBytes,
    Unindexed,
    Upsert,
    overwrite,
    write_as,
)
from scheduler_service.ports.errors import StoreUnavailable

IN_MEMORY = "sqlite://"
IN_FILE = "sqlite:///"
_FIRST_BYTES = b"SQLite format 3\0"
# To this size the write-ahead log shrinks again after a large transaction.
JOURNAL_BYTES = 64 << 20
# Both double the writer's pace: the same pages of an index are read and written back less often.
CACHE_KIB = 16 << 10
CHECKPOINT_PAGES = 8_000
# What `PRAGMA auto_vacuum` returns where pages are given back a few at a time, and how many those are.
INCREMENTAL = (2,)
VACUUM_PAGES = 2_000
_HELD = sa.table("held", sa.column("name"), sa.column("number"), sa.column("other"))
# So many queries are kept in the form in which they return one row.
QUERIES_KEPT = 512
# One statement for many rows lets go of the interpreter once, not once a row, and is prepared once.
CHUNK_ROWS = 256
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, CHUNK_ROWS)
"""Rows of one guarded statement: few texts serve groups of any size, far below 32,766 parameters."""
STATEMENT_BYTES = 256 << 10
"""So many bytes of blobs a statement for several rows has at most: it keeps them until it is given others,
also when it is done, and an update of several rows takes seven times as much meanwhile."""


def address_of(place: Path) -> str:
    """The address of the database in the file `place`, whatever characters its path has."""
    return f"{IN_FILE}{quote(os.fsencode(place))}"


def file_of(url: str) -> Path | None:
    """The file that `url` names, `%XX` decoded; None: it names none (in memory, or another database)."""
    if not url.startswith(IN_FILE):
        return None
    return Path(os.fsdecode(unquote_to_bytes(os.fsencode(url.removeprefix(IN_FILE)))))


def is_database(place: Path) -> bool:
    """Whether the file is there, and is a database of SQLite."""
    try:
        with place.open("rb") as file:
            return file.read(len(_FIRST_BYTES)) == _FIRST_BYTES
    except (OSError, ValueError):  # The second of a name with NUL, that no file has.
        return False


def misread(place: Path) -> Path | None:
    """Where programs before 0.2.0 had the database of the file `place`; None: there as well.

    They took its path for a part of a URL, which ends at a `?` and has `%XX` decoded.
    """
    read = sa.make_url(f"{IN_FILE}{place}").database
    return None if not read or Path(read) == place else Path(read)


Open = Callable[[], sqlite3.Connection]


class _NotAll(sqlite3.OperationalError):
    """The transaction has to be made again."""


class SqliteDialect(Dialect):
    """SQLite."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    value_errors: tuple[type[Exception], ...] = (
        sqlite3.IntegrityError,
        sqlite3.DataError,
        sqlite3.InterfaceError,
        OverflowError,  # a number of more than 64 bits
        UnicodeEncodeError,  # half a surrogate pair
    )
    product = "SQLite"
    synced_by = "store.durability = full"

    def __init__(
        self, *, engine: sa.Engine, subject: str, syncs: bool, readers: sa.Engine | None = None
    ) -> None:
        """`readers`: the connections that read; None: those of `engine`."""
        self.engine = engine
        self.readers = engine if readers is None else readers
        self._watching: sqlite3.Connection | None = None
        self._one_by_one: set[sqlite3.Connection] = set()
        self.subject = subject
        self._syncs = syncs

    @classmethod
    def open(cls, *, url: str, subject: str, durability: Durability) -> Self:
        """The database of `url`."""
        syncs = durability == "full" or url == IN_MEMORY
        return cls(engine=_open_engine(url, durability), subject=subject, syncs=syncs)

    @classmethod
    def over(
        cls,
        writing: sqlite3.Connection,
        *,
        subject: str,
        syncs: bool = False,
        open_reading: Open | None = None,
    ) -> Self:
        """The database of an open connection, which alone writes and is closed with the database.

        `open_reading` opens those that read; None: the same one does, as in memory.
        """
        engine = sa.create_engine(IN_MEMORY, creator=lambda: writing, poolclass=StaticPool)
        readers = None
        if open_reading is not None:
            readers = sa.create_engine(IN_MEMORY, creator=open_reading, poolclass=QueuePool)
        return cls(engine=engine, subject=subject, syncs=syncs, readers=readers)

    def dispose(self) -> None:
        """The one that writes is the last one: it empties the log."""
        if self._watching is not None:
            self._watching.close()
        self.readers.dispose()
        self.engine.dispose()

    def file_stamp(self) -> object | None:
        """The number by which a connection that never writes sees all other commits (PRAGMA data_version).

        It changes as a commit becomes visible, on any file system and however long the disk takes.
        """
        if (place := self.engine.url.database) is None:
            return None
        try:
            if self._watching is None:
                self._watching = sqlite3.connect(place, timeout=0, check_same_thread=False)
            return self._watching.execute("PRAGMA data_version").fetchall()
        except sqlite3.Error:  # busy for a moment, or closed
            return None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.readers.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection

    def begin(self, connection: sa.Connection) -> None:
        """Opens a transaction that writes, waiting for the one that is open in another process."""
        _driver(connection).execute("BEGIN IMMEDIATE")

    def commit(self, connection: sa.Connection) -> None:
        raw = _driver(connection)
        self._one_by_one.discard(raw)
        if not raw.in_transaction:
            return
        try:
            raw.execute("COMMIT")
        except sqlite3.Error as error:
            # On a full disk the last page, without which the transaction does not count, cannot have been
            # written; and one that is still open did not end. Any other may be there after a crash.
            is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            if is_full or raw.in_transaction:
                raise StoreUnavailable(self.explain(error)) from error
            raise

    def rollback(self, connection: sa.Connection) -> None:
        raw = _driver(connection)
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def hits_all(self, error: BaseException | None) -> bool:
        """The disk is full or broken, or the file is locked."""
        return isinstance(error, sqlite3.OperationalError)

    def is_collision(self, error: BaseException) -> bool:
        """Of rows that are not all written: a transaction that writes waits for the one before it."""
        return isinstance(error, _NotAll)

    @contextlib.contextmanager
    def locked(self, connection: sa.Connection, number: int) -> Iterator[None]:
        """A transaction that writes: a file has no more than one."""
        self.begin(connection)
        yield

    def take_turns(self, connection: sa.Connection, number: int) -> None:
        """Does nothing: a file has no more than one transaction that writes."""

    def wait_for_answers(self, connection: sa.Connection, seconds: float | None) -> None:
        """Changes nothing: there is no server."""

    def claim_alone(self, connection: sa.Connection, number: int) -> bool:
        """True: whoever opens a file looks after that by the lock of its folder."""
        return True

    def milliseconds(self, connection: sa.Connection) -> int:
        """The wall clock of this machine in ms."""
        return round(time.time() * 1_000)

    def syncs(self, connection: sa.Connection) -> bool:
        return self._syncs

    def is_replica(self, connection: sa.Connection) -> bool:
        """False: a file follows nobody."""
        return False

    def insert_many(self, connection: sa.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
        return insert_many(_driver(connection), upsert, rows)

    def write_guarded(
        self, connection: sa.Connection, upsert: GuardedUpsert, rows: Sequence[Row]
    ) -> set[object]:
        raw = _driver(connection)
        written: set[object] = set()
        for some in _in_statements(upsert, rows, CHUNK_ROWS):
            if len(some) == 1 or raw in self._one_by_one:
                written.update([row[0] for row in some if _write_one(raw, upsert, row)])
            elif _write_all(raw, upsert, some):
                written.update([row[0] for row in some])
            else:  # which of them, the driver does not say: the transaction is made again, row by row
                self._one_by_one.add(raw)
                raise _NotAll("not all rows of a statement were written")
        return written

    def delete_keys(
        self, connection: sa.Connection, table: sa.Table, keys: Sequence[tuple[str, int]]
    ) -> None:
        """By values: to read 1,000 keys from JSON takes as long as to delete their rows."""
        raw = _driver(connection)
        for start in range(0, len(keys), CHUNK_ROWS):
            some = keys[start : start + CHUNK_ROWS]
            count = SIZES[bisect_left(SIZES, len(some))]  # the last one again, up to a size
            values = chain(chain.from_iterable(some), *repeat(some[-1], count - len(some)))
            raw.execute(_compose_deletion(table, count), tuple(values))

    def fetch(
        self, connection: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """As one row, a JSON array: for each further row the thread would wait for the interpreter, up to
        5 ms while the event loop is busy. Bytes are digits meanwhile, as JSON can hold them.
        """
        wanted, binary = _as_one_row(query)
        rows: list[list[Any]] = msgspec.json.decode(connection.execute(wanted, values).scalar_one())
        for place in binary:
            for row in rows:
                row[place] = bytes.fromhex(row[place])
        return rows

    def row_order(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """The order in which rows lie in the file."""
        return (sa.literal_column(f"{table.name}.rowid", sa.BigInteger),)

    def hold(self, connection: sa.Connection, keys: sa.Select[Any]) -> sa.FromClause:
        """In a table of the connection: the driver would wait for the interpreter for each row it fetches."""
        connection.exec_driver_sql(f"CREATE TEMP TABLE IF NOT EXISTS {_HELD.name} (name, number, other)")
        connection.execute(sa.delete(_HELD))
        connection.execute(sa.insert(_HELD).from_select(list(_HELD.c), keys))
        return _HELD

    def measure(self, connection: sa.Connection, tables: Iterable[sa.Table]) -> int:
        """The bytes in use in the file, whatever its tables."""
        pages, free, size = (
            int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def used_after(self, connection: sa.Connection, estimate: int) -> int:
        """The bytes in use, measured: that reads three numbers."""
        return self.measure(connection, ())

    def give_back(self, connection: sa.Connection) -> bool:
        """Shortens the file by pages that nothing uses; whether there are more."""
        before = self._count_free(connection)
        # `execute` would stop after one page; `executescript` runs to the end, and ends the transaction.
        _driver(connection).executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        return 0 < self._count_free(connection) < before

    @staticmethod
    def _count_free(connection: sa.Connection) -> int:
        return int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())

    def explain(self, cause: BaseException) -> str:
        return f"{self.subject} cannot be reached: {cause}; check its folder and disk"


def _driver(connection: sa.Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def _open_engine(url: str, durability: Durability) -> sa.Engine:
    place = file_of(url)
    if place is not None:
        _make_private(place)
    # Not by its text, in which SQLAlchemy would read a query and so on.
    address = sa.URL.create("sqlite", database=None if place is None else str(place))
    pool = StaticPool if place is None else QueuePool
    engine = sa.create_engine(
        address, poolclass=pool, connect_args={"check_same_thread": False, "timeout": 10}
    )

    def prepare(raw: Any, _record: object) -> None:
        raw.isolation_level = None  # transactions are opened explicitly
        if raw.execute("PRAGMA auto_vacuum").fetchone() != INCREMENTAL:  # setting it waits for a writer
            raw.execute("PRAGMA auto_vacuum=INCREMENTAL")
        raw.execute("PRAGMA temp_store=MEMORY")
        raw.execute("PRAGMA secure_delete=FAST")
        raw.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        raw.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        raw.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
        raw.execute("PRAGMA journal_mode=WAL")
        raw.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")

    sa.event.listen(engine, "connect", prepare)
    return engine


def _make_private(place: Path) -> None:
    """A file that is made here is for its owner alone: it holds what targets answered.

    SQLite gives its log the same rights. Where it cannot be made, SQLite says why. A file that is there is
    not opened: closing it would end the locks that SQLite holds on it in this process (POSIX).
    """
    with contextlib.suppress(OSError):
        os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@lru_cache(QUERIES_KEPT)
def _as_one_row(query: sa.Select[Any]) -> tuple[sa.Select[Any], tuple[int, ...]]:
    """The query for a JSON array of the rows, and the places of bytes in them."""
    columns = list(query.subquery("found").c)
    binary = tuple(place for place, one in enumerate(columns) if isinstance(one.type, sa.LargeBinary))
    listed = (sa.func.hex(one) if place in binary else one for place, one in enumerate(columns))
    return sa.select(JsonLists(*listed)), binary


def insert_many(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
    """Writes `rows` in the open transaction; those without a rare value by statements that name none.

    Returns how many were inserted or changed a row.

    The driver takes a number, a text or a bytearray as it is. Every other value, None and bytes too, it first
    offers to adapters: that takes longer than writing it, and the thread keeps the interpreter meanwhile. So
    rows bring bytearrays, and columns that are mostly NULL are left out where they are.
    """
    if not upsert.rare:
        return _insert(connection, upsert, rows)
    brief = _without_rare(upsert)
    usual = [row for row in rows if brief.rare_of(row) == brief.nothing]
    written = _insert(connection, brief.upsert, [brief.others_of(row) for row in usual])
    if len(usual) < len(rows):
        written += _insert(connection, upsert, [row for row in rows if brief.rare_of(row) != brief.nothing])
    return written


def _insert(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
    """By statements of few sizes, so that few texts serve loads of any size."""
    written = 0
    for some in _in_statements(upsert, rows, CHUNK_ROWS):
        if _writes_alike(upsert):  # the last row again, up to a size
            count = SIZES[bisect_left(SIZES, len(some))]
            values = list(chain(chain.from_iterable(some), *repeat(some[-1], count - len(some))))
            connection.execute(_compose(upsert, count), values)
            written += len(some)
            continue
        start = 0
        while start < len(some):
            count = min(CHUNK_ROWS, 1 << ((len(some) - start).bit_length() - 1))
            values = list(chain.from_iterable(some[start : start + count]))
            written += connection.execute(_compose(upsert, count), values).rowcount
            start += count
    return written


@cache
def _writes_alike(upsert: Upsert) -> bool:
    """Whether each row is written, and comes to the same when it is written twice."""
    return bool(upsert.changes) and not upsert.guard and upsert.changes == overwrite(*dict(upsert.changes))


def _in_statements(upsert: Upsert | GuardedUpsert, rows: Sequence[Row], most: int) -> Iterable[Sequence[Row]]:
    """The rows in their order: so many at a time as one statement takes, and what is large alone."""
    if not upsert.blob:
        return [rows[start : start + most] for start in range(0, len(rows), most)]
    return _by_size(rows, upsert.columns.index(upsert.blob), most)


def _by_size(rows: Sequence[Row], blob: int, most: int) -> Iterator[Sequence[Row]]:
    start = 0
    while start < len(rows):
        part = rows[start : start + most]
        texts: list[Any] = [row[blob] for row in part]
        sizes = [len(text) if text else 0 for text in texts]
        if sum(sizes) > STATEMENT_BYTES:
            part = part[: max(bisect_right(list(accumulate(sizes)), STATEMENT_BYTES), 1)]
        yield part
        start += len(part)


@cache
def _compose_deletion(table: sa.Table, rows: int) -> str:
    """By the rows' own numbers: of several pairs among values SQLite makes no search: it reads all rows."""
    first, second = (column.name for column in table.primary_key)
    keys = f"(VALUES {','.join(['(?,?)'] * rows)}) AS key"
    its = f"{table.name}.{first} = key.column1 AND {table.name}.{second} = key.column2"
    found = f"SELECT {table.name}.rowid FROM {keys} CROSS JOIN {table.name} ON {its}"  # noqa: S608
    return f"DELETE FROM {table.name} WHERE rowid IN ({found})"  # noqa: S608


@cache
def _compose(upsert: Upsert, rows: int) -> str:
    row = "(" + ",".join("?" * len(upsert.columns)) + ")"
    return write_upsert(upsert, "VALUES " + ",".join([row] * rows))


def _write_all(raw: sqlite3.Connection, upsert: GuardedUpsert, rows: Sequence[Row]) -> bool:
    """Whether all of `rows` were written, by one statement or two; False: some were: undo that."""
    count = SIZES[bisect_left(SIZES, len(rows))]
    values = list(chain.from_iterable(rows))
    values += (None,) * (count - len(rows)) * (len(values) // len(rows))  # of no key: they change nothing
    update, insert = _compose_guarded(upsert, count)
    if upsert.is_new and insert:
        return raw.execute(insert, values).rowcount == len(rows)
    written = raw.execute(update, values).rowcount
    if written < len(rows) and insert:  # what is there already is not added again
        written += raw.execute(insert, values).rowcount
    return written == len(rows)


def _write_one(raw: sqlite3.Connection, upsert: GuardedUpsert, row: Row) -> bool:
    update, insert = _compose_guarded(upsert, 1)
    is_written = raw.execute(update, row).rowcount > 0 or (
        insert is not None and raw.execute(insert, row).rowcount > 0
    )
    if upsert.blob and len(cast("bytes", row[upsert.columns.index(upsert.blob)]) or b"") > STATEMENT_BYTES:
        for statement in filter(None, (update, insert)):  # does nothing: it is given other values
            raw.execute(statement, (None,) * len(row))
    return is_written


@cache
def _compose_guarded(upsert: GuardedUpsert, rows: int) -> tuple[str, str | None]:
    """The statement that replaces rows, and the one that adds them; None: none is added."""
    names = (*upsert.columns, *upsert.given)
    row = "(" + ",".join("?" * len(names)) + ")"
    # Not by WITH: the driver would not count the rows that are changed.
    named = ",".join(f'column{place} AS "{name}"' for place, name in enumerate(names, 1))
    given = f"(SELECT {named} FROM (VALUES {','.join([row] * rows)})) AS given"  # noqa: S608
    update = write_replacement(upsert, given)
    if upsert.adds == NEVER:
        return update, None
    is_new = f'given."{upsert.key}" IS NOT NULL AND ({upsert.adds or "true"})'
    new = f"SELECT {quoted(upsert.columns)} FROM {given} WHERE {is_new}"  # noqa: S608
    return update, write_addition(upsert, new)


class _Brief(msgspec.Struct, frozen=True):
    """A statement without the rare columns, the values of a row of both kinds, and the rare ones all NULL."""

    upsert: Upsert
    others_of: Callable[[Row], Row]
    rare_of: Callable[[Row], Any]
    nothing: Any


@cache
def _without_rare(upsert: Upsert) -> _Brief:
    places = {name: place for place, name in enumerate(upsert.columns)}
    others = tuple(name for name in upsert.columns if name not in upsert.rare)
    rare_of = itemgetter(*(places[name] for name in upsert.rare))
    return _Brief(
        upsert=msgspec.structs.replace(upsert, columns=others, rare=()),
        others_of=itemgetter(*(places[name] for name in others)),
        rare_of=rare_of,
        nothing=rare_of((None,) * len(places)),
    )


write_as(
    {
        Unindexed: "+{0}",
        Member: "(SELECT value FROM json_each({0}) WHERE key = {1})",
        Like: "{0} LIKE {1} ESCAPE '\\'",
        AnyMemberLike: "EXISTS (SELECT 1 FROM json_each({0}) WHERE value LIKE {1} ESCAPE '\\')",
        NewestState: "iif(json_valid(CAST({0} AS TEXT)), json_extract(CAST({0} AS TEXT), '$.state'), NULL)",
        IsIn: "{0} IN (SELECT value FROM json_each({1}))",
        Contains: "instr({0}, {1}) > 0",
        TextBytes: "CAST({0} AS BLOB)",
        StoredSize: "length({0})",
        IndexSteps: "{0}",
        JsonLists: "json_group_array(json_array({every}))",
        JsonRows: "(SELECT json_extract(value, '$[0]') AS name, json_extract(value, '$[1]') AS number, "
        "json_extract(value, '$[2]') AS other FROM json_each({0}))",
    },
    "sqlite",
)
