"""What differs between SQL databases, and what most of them have in common."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import unquote

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.sql.expressions import (
    GuardedUpsert,
    JsonLists,
    Row,
    StoredSize,
    Upsert,
    json_rows,
)
from scheduler_service.ports.errors import StoreError, StoreUnavailable

Found = TypeVar("Found")
# So many rows make a statement: what one holds in memory stays far from what a server takes.
CHUNK_ROWS = 1_000
# What a row takes beside its values of variable length, with its part of the indexes, roughly.
ROW_BYTES = 250
CONNECT_SECONDS = 5
# A server that has vanished is noticed in seconds, not after the kernel's quarter of an hour.
IDLE_SECONDS, PROBE_SECONDS, PROBES, UNANSWERED_MS = 10, 5, 3, 15_000
# A server that stands still, or a proxy before it, keeps a connection open and says nothing.
ANSWER_SECONDS = 300.0
LONG_ANSWER_SECONDS = 3_600.0
"""What walks over a whole table may take so long before a server says anything."""
Durability = Literal["full", "process"]
Columns = Iterable[sa.ColumnElement[Any]]
Single = Callable[[sa.Connection, type[StoreError]], AbstractContextManager[None]]
"""A transaction of one statement, which is durable as it returns.

Raises the error given where it may be durable, and nobody has said so.
"""


class Run(Protocol):
    """Runs work on a connection, in a transaction of its own or of a group."""

    def __call__(self, work: Callable[[sa.Connection], Found], /) -> Awaitable[Found]:
        """What `work` returns. Raises StoreError."""


class Dialect(ABC):
    """One database: how it is opened, how transactions begin and end, and how many rows are written.

    What is written here is that of a server with ON CONFLICT and RETURNING. `subject` says in messages what
    is kept, and where.
    """

    engine: sa.Engine
    subject: str
    # Errors of the driver; those among them that `value_errors` names are the fault of a value.
    errors: tuple[type[Exception], ...]
    value_errors: tuple[type[Exception], ...]
    # The name of the database program, and which of its settings let commits outlive a power loss.
    product: str
    synced_by: str
    # None: a transaction of one statement is as any other.
    single: Single | None = None

    def dispose(self) -> None:
        """Closes the connections that nobody uses."""
        self.engine.dispose()

    def is_usable(self, connection: sa.Connection) -> bool:
        """Whether a kept connection may be used: its server has neither closed it nor sent anything since."""
        return not connection.invalidated

    def file_stamp(self) -> object | None:
        """What each commit to the database changes, of whichever process; it is found without a thread.

        To be compared with earlier ones of this object. None: that cannot be told, so the database is asked.
        """
        return None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection on which everything read is of one moment."""
        with self.engine.connect() as connection:
            yield connection

    @abstractmethod
    def begin(self, connection: sa.Connection) -> None:
        """Opens a transaction that writes."""

    @abstractmethod
    def commit(self, connection: sa.Connection) -> None:
        """Makes the transaction durable, if one is open. After an error it may be durable or not."""

    @abstractmethod
    def rollback(self, connection: sa.Connection) -> None:
        """Takes the transaction back, if one is open; raises no error of the driver.

        A broken connection does not return to the pool.
        """

    def hits_all(self, error: BaseException | None) -> bool:
        """Whether each write of a group would fail by this error as well, as on a full disk.

        False where that is not known: a server may refuse one that is too large.
        """
        return False

    @abstractmethod
    def is_collision(self, error: BaseException) -> bool:
        """Whether the database took the transaction back for another one's sake: once more, it may pass."""

    @abstractmethod
    def locked(self, connection: sa.Connection, number: int) -> AbstractContextManager[None]:
        """Within it no other process goes on that takes this lock: tables may be changed, then committed."""

    @abstractmethod
    def take_turns(self, connection: sa.Connection, number: int) -> None:
        """Waits in the open transaction until no other one that writes has taken this number (64 bits)."""

    @contextlib.contextmanager
    def waiting_for(self, connection: sa.Connection, seconds: float | None) -> Iterator[None]:
        """Within it each answer is waited for so long; None: for ever."""
        self.wait_for_answers(connection, seconds)
        try:
            yield
        finally:
            if not connection.invalidated:
                self.wait_for_answers(connection, ANSWER_SECONDS)

    @abstractmethod
    def wait_for_answers(self, connection: sa.Connection, seconds: float | None) -> None:
        """The same from now on."""

    @abstractmethod
    def claim_alone(self, connection: sa.Connection, number: int) -> bool:
        """Takes this number as long as the connection lasts; False: another connection has it.

        It has it already: nothing changes. A connection whose machine is gone is ended by the server within
        a minute, if it is not used meanwhile.
        """

    @abstractmethod
    def milliseconds(self, connection: sa.Connection) -> int:
        """The wall clock of the database in ms; of a file that of this machine."""

    @abstractmethod
    def syncs(self, connection: sa.Connection) -> bool:
        """Whether what is committed outlives a power loss; in memory nothing is to outlive anything."""

    @abstractmethod
    def is_replica(self, connection: sa.Connection) -> bool:
        """Whether it follows another server, and refuses to be written to."""

    @abstractmethod
    def insert_many(self, connection: sa.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
        """Writes `rows` in the open transaction through the driver: hot rows do not pass SQLAlchemy.

        Returns how many were inserted or changed a row; the others were there already.
        """

    @abstractmethod
    def write_guarded(
        self, connection: sa.Connection, upsert: GuardedUpsert, rows: Sequence[Row]
    ) -> set[object]:
        """Writes `rows`, each of another key, in the open transaction; the keys of the rows written."""

    def delete_keys(
        self, connection: sa.Connection, table: sa.Table, keys: Sequence[tuple[str, int]]
    ) -> None:
        """Deletes in the open transaction the rows of `table` whose primary keys are among `keys`."""
        given = json_rows(sa.literal(msgspec.json.encode(keys).decode(), sa.Text)).c
        is_its = self.among(table.primary_key, (given.name, given.number))
        connection.execute(sa.delete(table).where(is_its))

    def among(self, columns: Columns, keys: Columns) -> sa.ColumnElement[bool]:
        """Whether the `columns` of a row to read, change or delete are those of a row of a table of keys.

        Each key is there once.
        """
        return sa.tuple_(*columns).in_(sa.select(*keys))

    def take(self, connection: sa.Connection, table: sa.Table, window: sa.Select[Any]) -> Sequence[Any]:
        """Deletes the rows whose primary keys `window` selects; what they were when they were deleted."""
        is_wanted = self.among(table.primary_key, window.correlate(None).subquery("window").c)
        return connection.execute(sa.delete(table).where(is_wanted).returning(*table.c)).all()

    def first_rows(
        self, connection: sa.Connection, selection: sa.Select[Any], order: Sequence[Any], limit: int
    ) -> Sequence[Any]:
        """The first rows of `selection` in the descending order of the columns `order`, at most `limit`.

        An index leads to the first column; of the rows behind the last one none is sorted.
        """
        return connection.execute(newest_first(selection, order, limit)).all()

    def fetch(
        self, connection: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """All rows of `query`; none of their bytes may be NULL."""
        return connection.execute(query, values).all()

    def row_order(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """The columns in whose order a walk over all rows of `table` reads fastest; unique together."""
        return tuple(table.primary_key)  # there is no other order that stays

    def hold(self, connection: sa.Connection, keys: sa.Select[Any]) -> sa.FromClause:
        """What `keys` (a text and two numbers) selects now, as a table until the next call.

        Its columns are `name`, `number` and `other`.
        """
        # As a parameter: a table of the connection would cost the server's catalogue more.
        found = connection.execute(sa.select(JsonLists(*keys.subquery().c))).scalar()
        return json_rows(sa.literal(found or "[]", sa.Text))

    def measure(self, connection: sa.Connection, tables: Iterable[sa.Table]) -> int:
        """The bytes that the database uses for `tables`; of a server roughly, by reading all of their rows.

        Its files say nothing: space that was removed is used again, but seldom goes back to the disk.
        """
        with self.waiting_for(connection, LONG_ANSWER_SECONDS):
            return sum(int(connection.scalar(_size_of(table)) or 0) for table in tables)

    def used_after(self, connection: sa.Connection, estimate: int) -> int:
        """The bytes in use after a removal: measured where that is cheap, else the `estimate`."""
        return estimate

    def give_back(self, connection: sa.Connection) -> bool:
        """Returns a part of the unused space to the disk; whether there is more. May end the transaction.

        A server uses the space again, or gives it back beside the work.
        """
        return False

    def explain(self, cause: BaseException) -> str:
        """What does not work, where, and what to check; never a password."""
        return (
            f"{self.subject} cannot be reached: {self.said_by(cause)}; "
            "check that the server runs and that database.url or store.url names its user and database"
        )

    def said_by(self, cause: BaseException) -> str:
        """The words of the driver or the server, on one line."""
        return " ".join(str(cause).split())


def newest_first(selection: sa.Select[Any], order: Sequence[Any], limit: int) -> sa.Select[Any]:
    """The first rows in the descending order of columns."""
    return selection.order_by(*(column.desc() for column in order)).limit(limit)


def write_upsert(upsert: Upsert, values: str) -> str:
    """The statement for rows from `values`: `VALUES …`, or a query."""
    statement = f"INSERT INTO {upsert.table.name} ({quoted(upsert.columns)}) {values}"
    if not upsert.changes:
        return f"{statement} ON CONFLICT ({quoted(upsert.key)}) DO NOTHING"
    changes = ",".join(f'"{name}"={value}' for name, value in upsert.changes)
    guard = f" WHERE {upsert.guard}" if upsert.guard else ""
    return f"{statement} ON CONFLICT ({quoted(upsert.key)}) DO UPDATE SET {changes}{guard}"


def write_replacement(upsert: GuardedUpsert, source: str) -> str:
    """The statement that replaces rows by those of `source`, which is named `given`."""
    name, changes = upsert.table.name, ",".join(f'"{one}"=given."{one}"' for one in upsert.columns[1:])
    same = f'{name}."{upsert.key}"=given."{upsert.key}"'
    return f"UPDATE {name} SET {changes} FROM {source} WHERE {same} AND ({upsert.guard})"  # noqa: S608


def write_addition(upsert: GuardedUpsert, source: str) -> str:
    """The statement that adds the rows of `source` whose key is not there."""
    return f"INSERT INTO {upsert.table.name} ({quoted(upsert.columns)}) {source} ON CONFLICT DO NOTHING"


def quoted(names: Iterable[str], of: str = "") -> str:
    """The names of columns, with a comma between; `of`: each with that table."""
    table = f"{of}." if of else ""
    return ",".join(f'{table}"{name}"' for name in names)


def in_chunks(upsert: Upsert | GuardedUpsert, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows in the order of their keys, CHUNK_ROWS at a time: of two nodes one waits, never both."""
    ordered = sorted(rows, key=_key_of(upsert))
    return (ordered[start : start + CHUNK_ROWS] for start in range(0, len(ordered), CHUNK_ROWS))


def read_address(url: str, form: str) -> sa.URL:
    """Raises StoreUnavailable where `url` is not an address of the `form`."""
    try:
        address = sa.make_url(url)
        # As libpq has it, the folder of a socket may stand where a host does: %2Frun%2Fpostgresql.
        return address.set(host=unquote(address.host)) if address.host else address
    except (sa.exc.ArgumentError, ValueError):
        # The reason contains the whole address with its password.
        raise StoreUnavailable(
            f"database.url or store.url is not an address; write {form}://USER:PASSWORD@HOST:PORT/NAME, "
            "special characters of a password as %XX"
        ) from None


def _key_of(upsert: Upsert | GuardedUpsert) -> Callable[[Row], Any]:
    names = upsert.key if isinstance(upsert, Upsert) else (upsert.key,)
    return itemgetter(*map(upsert.columns.index, names))


def _size_of(table: sa.Table) -> sa.Select[Any]:
    values = [column for column in table.c if isinstance(column.type, sa.LargeBinary)]
    sizes = [sa.func.coalesce(sa.func.sum(StoredSize(column)), 0) for column in values]
    return sa.select(sa.func.count() * ROW_BYTES + sum(sizes, start=sa.literal(0))).select_from(table)
