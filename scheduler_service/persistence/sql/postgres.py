"""PostgreSQL: any number of nodes on any number of machines use one database."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler

from scheduler_service.persistence.sql.dialect import (
    CONNECT_SECONDS,
    IDLE_SECONDS,
    PROBE_SECONDS,
    PROBES,
    UNANSWERED_MS,
    Dialect,
    in_chunks,
    quoted,
    read_address,
    write_addition,
    write_replacement,
    write_upsert,
)
from scheduler_service.persistence.sql.expressions import (
    WHERE,
    AnyMemberLike,
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
    write_as,
)
from scheduler_service.persistence.sql.postgres_arrays import Array, ArrayOf, array_of, numbers
from scheduler_service.persistence.sql.postgres_connections import (
    ROLLED_BACK,
    BoundedConnection,
    connect,
    driver_of,
    is_silent,
    prepare,
    replace_ended,
    roll_back,
    single_statement,
)
from scheduler_service.ports.errors import StoreUnavailable

DRIVER = "postgresql+psycopg"
CONNECTION = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": IDLE_SECONDS,
    "keepalives_interval": PROBE_SECONDS,
    "keepalives_count": PROBES,
    "tcp_user_timeout": UNANSWERED_MS,
    "application_name": "punctual",
}
# Every text fits. In others a character has no place, or lengths are those of bytes.
ENCODING = "UTF8"

PROBED = (
    f"SET tcp_keepalives_idle = {IDLE_SECONDS}; SET tcp_keepalives_interval = {PROBE_SECONDS}; "
    f"SET tcp_keepalives_count = {PROBES}"
)
"""The server notices in less than a minute that the machine of a connection is gone."""


class PostgresDialect(Dialect):
    """PostgreSQL. A commit is as durable as the server's `synchronous_commit` says.

    A connection that the server has ended is replaced before it is used.
    """

    errors: tuple[type[Exception], ...] = (psycopg.Error,)
    value_errors: tuple[type[Exception], ...] = (psycopg.IntegrityError, psycopg.DataError)
    product = "PostgreSQL"
    synced_by = "fsync and synchronous_commit on"

    def __init__(self, *, url: str, subject: str) -> None:
        """Raises StoreUnavailable where `url` is not an address; opens no connection yet."""
        address = read_address(url, "postgresql")
        self.subject = f"{subject} in PostgreSQL at {address.host or 'this machine'}:{address.port or 5432}"
        given = {name: value for name, value in CONNECTION.items() if name not in address.query}
        # Whatever PGCLIENTENCODING says.
        given |= {"client_encoding": ENCODING}
        self.engine = sa.create_engine(
            address.set(drivername=DRIVER), connect_args=given, hide_parameters=True
        )
        # Before what SQLAlchemy asks of the first connection: without an encoding it gets bytes for texts.
        sa.event.listen(self.engine, "connect", self._check_encoding, insert=True)
        sa.event.listen(self.engine, "do_connect", connect)
        sa.event.listen(self.engine, "connect", prepare)
        sa.event.listen(self.engine, "checkout", replace_ended)
        self._reader = self.engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self.single = lambda connection, unconfirmed: single_statement(
            connection, lambda error: unconfirmed(self.explain(error))
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._reader.connect() as connection:
            yield connection

    def begin(self, connection: sa.Connection) -> None:
        """Does nothing: the driver opens a transaction with the first statement."""

    def commit(self, connection: sa.Connection) -> None:
        driver_of(connection).commit()

    def is_usable(self, connection: sa.Connection) -> bool:
        return not connection.invalidated and is_silent(driver_of(connection))

    def rollback(self, connection: sa.Connection) -> None:
        roll_back(connection)

    def is_collision(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) in ROLLED_BACK

    @contextlib.contextmanager
    def locked(self, connection: sa.Connection, number: int) -> Iterator[None]:
        with self.waiting_for(connection, None):
            self.take_turns(connection, number)
            yield

    def wait_for_answers(self, connection: sa.Connection, seconds: float | None) -> None:
        cast("BoundedConnection", driver_of(connection)).answer_seconds = seconds

    def take_turns(self, connection: sa.Connection, number: int) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.cast(number, sa.BigInteger))))

    def claim_alone(self, connection: sa.Connection, number: int) -> bool:
        raw = driver_of(connection)
        raw.execute(PROBED)
        text = (
            "SELECT pg_try_advisory_lock(%(number)s) WHERE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = "
            "'advisory' AND pid = pg_backend_pid() AND objsubid = 1 "
            "AND (classid::bigint << 32 | objid::bigint) = %(number)s)"
        )
        found = raw.execute(text, {"number": number}).fetchone()
        raw.commit()
        return found is None or bool(found[0])

    def milliseconds(self, connection: sa.Connection) -> int:
        text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        return int(connection.exec_driver_sql(text).scalar_one())

    def syncs(self, connection: sa.Connection) -> bool:
        text = "SELECT 'off' NOT IN (current_setting('fsync'), current_setting('synchronous_commit'))"
        return bool(connection.exec_driver_sql(text).scalar_one())

    def is_replica(self, connection: sa.Connection) -> bool:
        return bool(connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one())

    def insert_many(self, connection: sa.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
        """By one statement, each column an array, however many."""
        raw = driver_of(connection)
        return sum(
            raw.execute(_compose(upsert), _arrays(_makers(upsert), some)).rowcount
            for some in in_chunks(upsert, rows)
        )

    def write_guarded(
        self, connection: sa.Connection, upsert: GuardedUpsert, rows: Sequence[Row]
    ) -> set[object]:
        """As `insert_many`, in the order of keys."""
        raw = driver_of(connection)
        written: set[object] = set()
        for some in in_chunks(upsert, rows):
            found = raw.execute(_compose_guarded(upsert), _arrays(_guarded_makers(upsert), some))
            written.update(key for (key,) in found)
        return written

    def _check_encoding(self, raw: psycopg.Connection[Any], _record: object) -> None:
        """Raises StoreUnavailable for a database in which not every text can be kept."""
        kept, name = raw.info.parameter_status("server_encoding"), raw.info.dbname
        if kept in (ENCODING, None):  # None: a pooler between them does not say it
            return
        raw.close()
        raise StoreUnavailable(
            f"{self.subject} cannot be kept in the database {name!r}, whose encoding is {kept}: make another"
            f" one (CREATE DATABASE name TEMPLATE template0 ENCODING '{ENCODING}') and name it in "
            f"database.url or store.url; what {name!r} holds comes along by pg_dump and psql"
        )


@cache
def _compose(upsert: Upsert) -> bytes:
    """The statement, the same for any number of rows: the server prepares it once."""
    columns = upsert.table.c
    arrays = ",".join(f"%b::{array_of(columns[name].type)[0]}" for name in upsert.columns)
    return write_upsert(upsert, f"SELECT * FROM unnest({arrays})").encode()  # noqa: S608


@cache
def _compose_guarded(upsert: GuardedUpsert) -> bytes:
    """The same for rows that need not be written: what is there is changed, the rest is added."""
    columns = upsert.table.c
    kinds = [array_of(columns[name].type)[0] for name in upsert.columns] + ["bigint[]"] * len(upsert.given)
    names, own = quoted((*upsert.columns, *upsert.given)), quoted(upsert.columns)
    key, arrays = f'"{upsert.key}"', ",".join(f"%b::{kind}" for kind in kinds)
    may_add = f" AND ({upsert.adds})" if upsert.adds else ""
    new = f"SELECT {own} FROM given WHERE {key} NOT IN (SELECT {key} FROM changed){may_add}"  # noqa: S608
    parts = (
        f"given ({names}) AS (SELECT * FROM unnest({arrays}))",  # noqa: S608
        f"changed AS ({write_replacement(upsert, 'given')} RETURNING given.{key})",
        f"added AS ({write_addition(upsert, new)} RETURNING {key})",
    )
    written = f"SELECT {key} FROM changed UNION ALL SELECT {key} FROM added"  # noqa: S608
    return f"WITH {','.join(parts)} {written}".encode()


@cache
def _makers(upsert: Upsert) -> tuple[ArrayOf, ...]:
    """What makes an array of each column."""
    return tuple(array_of(upsert.table.c[name].type)[1] for name in upsert.columns)


@cache
def _guarded_makers(upsert: GuardedUpsert) -> tuple[ArrayOf, ...]:
    """The same, with the numbers that are given beside the columns."""
    own = (array_of(upsert.table.c[name].type)[1] for name in upsert.columns)
    return (*own, *(numbers for _ in upsert.given))


def _arrays(makers: Sequence[ArrayOf], rows: Sequence[Row]) -> list[Array]:
    return [make(column) for make, column in zip(makers, zip(*rows, strict=True), strict=True)]


@compiles(sa.schema.CreateIndex, "postgresql")
def _create_index(create: sa.schema.CreateIndex, compiler: DDLCompiler, **options: Any) -> str:
    index = create.element
    if WHERE in index.info:
        index.dialect_options["postgresql"]["where"] = index.info[WHERE]
    written: str = compiler.visit_create_index(create, **options)  # type: ignore[no-untyped-call]
    return written


write_as(
    {
        TextBytes: "convert_to({0}, 'UTF8')",
        Unindexed: "{0}",
        Member: "(CAST({0} AS json) ->> {1})",
        Like: "{0} ILIKE {1} ESCAPE '\\'",
        AnyMemberLike: "EXISTS (SELECT 1 FROM json_each_text(CAST({0} AS json)) AS member "
        "WHERE member.value ILIKE {1} ESCAPE '\\')",
        # `encode` takes any bytes. Quotes within texts of JSON are escaped: the first match is the member.
        NewestState: "substring(encode({0}, 'escape') from '\"state\":\"([a-z]+)\"')",
        # An array: with a subquery PostgreSQL would rather read the whole table.
        IsIn: "{0} = ANY(ARRAY(SELECT json_array_elements_text(CAST({1} AS json))))",
        StoredSize: "pg_column_size({0})",
        IndexSteps: "{0}",
        JsonLists: "CAST(json_agg(json_build_array({every})) AS text)",
        JsonRows: "(SELECT value ->> 0 AS name, CAST(value ->> 1 AS bigint) AS number, "
        "CAST(value ->> 2 AS bigint) AS other FROM json_array_elements(CAST({0} AS json)))",
    },
    "postgresql",
)
