"""The history in PostgreSQL: any number of nodes on any number of machines write one."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.types.string import StrBinaryDumper, StrDumperUnknown

from scheduler_service.persistence.history.arrays import insert_rows, mark_dropped
from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.dialect import Removal
from scheduler_service.persistence.history.postgres_removal import PostgresRemoval
from scheduler_service.ports.errors import StoreUnavailable

DRIVER = "postgresql+psycopg"
# A server that is gone without a word is found out in seconds, not in the kernel's quarter of an hour.
CONNECTION = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "punctual history",
}
# Any number will do, as long as all nodes take the same.
LOCK = 1_347_767_876


class PostgresDialect:
    """dialect.Dialect over PostgreSQL. A commit is as durable as the server's `synchronous_commit` says.

    A connection that the server has ended is replaced before it is used.
    """

    errors: tuple[type[Exception], ...] = (psycopg.Error,)
    faults: tuple[type[Exception], ...] = (psycopg.IntegrityError, psycopg.DataError)

    def __init__(self, *, url: str) -> None:
        """Raises StoreUnavailable where `url` is no address; connects to nothing yet."""
        address = _read_address(url)
        self._where = f"{address.host or 'this machine'}:{address.port or 5432}"
        given = {name: value for name, value in CONNECTION.items() if name not in address.query}
        self.engine = sa.create_engine(
            address.set(drivername=DRIVER), pool_pre_ping=True, connect_args=given, hide_parameters=True
        )
        sa.event.listen(self.engine, "connect", _prepare)
        self._reader = self.engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self.removal: Removal = PostgresRemoval()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection on which all that is read is of one moment."""
        with self._reader.connect() as connection:
            yield connection

    def begin(self, connection: sa.Connection) -> psycopg.Connection[Any]:
        """The driver's connection, which opens a transaction with its first statement."""
        raw = connection.connection.driver_connection
        assert isinstance(raw, psycopg.Connection)
        return raw

    def is_open(self, _: psycopg.Connection[Any]) -> bool:
        """Whether there is something to end: without a statement a commit costs nothing."""
        return True

    def commit(self, raw: psycopg.Connection[Any]) -> None:
        """Makes the transaction durable. An error leaves open whether it is: a repetition does nothing."""
        raw.commit()

    def rollback(self, connection: sa.Connection, raw: psycopg.Connection[Any]) -> None:
        """Takes the transaction back; a connection that is broken does not go back to the others."""
        try:
            raw.rollback()
        except psycopg.Error:
            connection.invalidate()

    def lock(self, connection: sa.Connection) -> None:
        """Of several who would make the tables at once, lets one go on at a time."""
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")

    def insert(self, connection: psycopg.Connection[Any], rows: Rows) -> None:
        """Writes all `rows` in the transaction that is open."""
        insert_rows(connection, rows)

    def mark_dropped(self, connection: psycopg.Connection[Any], dropped: Iterable[tuple[str, int]]) -> None:
        """Marks executions whose detail was given up."""
        mark_dropped(connection, dropped)

    def explain(self, cause: BaseException) -> str:
        """What does not work, at which server, and what to look at. libpq says no passwords."""
        said = " ".join(str(cause).split())
        return (
            f"the history in PostgreSQL at {self._where} cannot be reached: {said}; "
            "check that the server runs and database.url names its user and database"
        )


class _Text(StrBinaryDumper):
    """A text as PostgreSQL can hold it: the character NUL becomes U+FFFD."""

    def dump(self, obj: str) -> Any:
        return super().dump(_without_nul(obj))


class _UnknownText(StrDumperUnknown):
    """The same for a text whose type the server finds out."""

    def dump(self, obj: str) -> Any:
        return super().dump(_without_nul(obj))


def _without_nul(text: str) -> str:
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _prepare(raw: Any, _record: object) -> None:
    # The driver takes what was registered last, where it may choose.
    raw.adapters.register_dumper(str, _Text)
    raw.adapters.register_dumper(str, _UnknownText)


def _read_address(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # The reason would go on with the whole address, its password in it.
        raise StoreUnavailable(
            "database.url is no address; write postgresql://USER:PASSWORD@HOST:PORT/NAME, "
            "what is special in a password as %XX"
        ) from None
