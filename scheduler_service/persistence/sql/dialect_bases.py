"""What two of the databases have in common: ON CONFLICT and RETURNING, or a server to connect to."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.sql.dialect import LONG_ANSWER_SECONDS, Columns
from scheduler_service.persistence.sql.expressions import (
    GuardedUpsert,
    JsonLists,
    Row,
    StoredSize,
    Upsert,
    json_rows,
)
from scheduler_service.ports.errors import StoreUnavailable

# So many rows make a statement: what one holds in memory stays far from what a server takes.
CHUNK_ROWS = 1_000
# What a row takes beside its values of variable length, with its part of the indexes, roughly.
ROW_BYTES = 250
CONNECT_SECONDS = 5
# A server that has vanished is noticed in seconds, not after the kernel's quarter of an hour.
IDLE_SECONDS, PROBE_SECONDS, PROBES, UNANSWERED_MS = 10, 5, 3, 15_000
# A server that stands still, or a proxy before it, keeps a connection open and says nothing.
ANSWER_SECONDS = 300.0


class OnConflict:
    """The part of dialect.Dialect that SQLite and PostgreSQL share."""

    def among(self, columns: Columns, keys: Columns) -> sa.ColumnElement[bool]:
        return sa.tuple_(*columns).in_(sa.select(*keys))

    def first_rows(
        self, connection: sa.Connection, selection: sa.Select[Any], order: Sequence[Any], limit: int
    ) -> Sequence[Any]:
        return connection.execute(newest_first(selection, order, limit)).all()

    def take(self, connection: sa.Connection, table: sa.Table, window: sa.Select[Any]) -> Sequence[Any]:
        is_wanted = self.among(table.primary_key, window.correlate(None).subquery("window").c)
        return connection.execute(sa.delete(table).where(is_wanted).returning(*table.c)).all()


class OnServer(ABC):
    """The part of dialect.Dialect that PostgreSQL and MariaDB share. `subject` has the server's address."""

    engine: sa.Engine
    subject: str
    errors: tuple[type[Exception], ...]

    def dispose(self) -> None:
        self.engine.dispose()

    def file_stamp(self) -> object | None:
        """None: a server is asked."""
        return None

    def hits_all(self, error: BaseException | None) -> bool:
        """False: one that is too large is refused like a server that is away."""
        return False

    @abstractmethod
    def wait_for_answers(self, connection: sa.Connection, seconds: float | None) -> None:
        """How long each answer is waited for on this connection from now on; None: for ever."""

    @contextlib.contextmanager
    def waiting_for(self, connection: sa.Connection, seconds: float | None) -> Iterator[None]:
        """The same within the block."""
        self.wait_for_answers(connection, seconds)
        try:
            yield
        finally:
            if not connection.invalidated:
                self.wait_for_answers(connection, ANSWER_SECONDS)

    @abstractmethod
    def among(self, columns: Columns, keys: Columns) -> sa.ColumnElement[bool]:
        """As `Dialect`."""

    def delete_keys(
        self, connection: sa.Connection, table: sa.Table, keys: Sequence[tuple[str, int]]
    ) -> None:
        given = json_rows(sa.literal(msgspec.json.encode(keys).decode(), sa.Text)).c
        is_its = self.among(table.primary_key, (given.name, given.number))
        connection.execute(sa.delete(table).where(is_its))

    def fetch(
        self, connection: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        return connection.execute(query, values).all()

    def row_order(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """The order of the primary key: there is no other that stays."""
        return tuple(table.primary_key)

    def hold(self, connection: sa.Connection, keys: sa.Select[Any]) -> sa.FromClause:
        """As a parameter: a table of the connection would cost the server's catalogue more."""
        found = connection.execute(sa.select(JsonLists(*keys.subquery().c))).scalar()
        return json_rows(sa.literal(found or "[]", sa.Text))

    def measure(self, connection: sa.Connection, tables: Iterable[sa.Table]) -> int:
        """The bytes that the rows of `tables` hold, roughly: reads all of them.

        Files say nothing here: space that was removed is used again, but seldom goes back to the disk.
        """
        with self.waiting_for(connection, LONG_ANSWER_SECONDS):
            return sum(int(connection.scalar(_size_of(table)) or 0) for table in tables)

    def used_after(self, connection: sa.Connection, estimate: int) -> int:
        """The estimate: measuring reads all rows."""
        return estimate

    def give_back(self, connection: sa.Connection) -> bool:
        """Does nothing: the server uses the space again, or gives it back beside the work."""
        return False

    def explain(self, cause: BaseException) -> str:
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
