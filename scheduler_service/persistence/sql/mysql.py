"""MariaDB and MySQL: any number of nodes on any number of machines use one database."""

import contextlib
import socket
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import pymysql
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler, TypeCompiler

from scheduler_service.persistence.sql.dialect import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    IDLE_SECONDS,
    PROBE_SECONDS,
    PROBES,
    UNANSWERED_MS,
    Columns,
    Dialect,
    in_chunks,
    newest_first,
    quoted,
    read_address,
)
from scheduler_service.persistence.sql.expressions import (
    AnyMemberLike,
    Changes,
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
    SumBefore,
    Unindexed,
    Upsert,
    write_as,
)
from scheduler_service.ports.errors import StoreUnavailable

DRIVER = "mysql+pymysql"
PORT = 3306
# Texts are compared by their bytes, and spaces at their end count: the two programs name that differently.
BYTEWISE_MARIADB, BYTEWISE_MYSQL = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"
OLDEST_MARIADB, OLDEST_MYSQL = (10, 6), (8, 0, 17)
# Whatever the server's own modes are: values are refused, never cut; a backslash is a character.
MODES = "STRICT_ALL_TABLES,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO"
LOCK_WAIT_SECONDS = 10
UNUSED_SECONDS = 30
MIGRATION_SECONDS = 3_600
# MariaDB cuts an array of rows here without a word; an answer has to fit into `max_allowed_packet` anyway.
JSON_BYTES = 1 << 30
# What a packet holds beside the rows: the text of the longest statement, roughly.
STATEMENT_BYTES = 16 << 10
DEADLOCK, CHANGED_SINCE, PACKET_TOO_LARGE = 1213, 1020, 1153
_PACKET, _HAS_TURN = "max_allowed_packet", "has_turn"
_BOTH = ("mysql", "mariadb")
FILES = frozenset(("ssl_ca", "ssl_cert", "ssl_key"))
PARAMETERS = FILES | {"charset", "ssl_verify_cert", "ssl_verify_identity", "unix_socket"}
"""What an address may say behind `?`."""
TEXT = "LONGTEXT CHARACTER SET utf8mb4"
_encode = msgspec.json.Encoder().encode


class MysqlDialect(Dialect):
    """MariaDB or MySQL. A commit is as durable as the server's settings say.

    Readers have the snapshot of REPEATABLE READ; writers READ COMMITTED, so that gaps between rows are not
    locked. A connection that the server has ended is replaced before it is used.
    """

    errors: tuple[type[Exception], ...] = (pymysql.Error,)
    value_errors: tuple[type[Exception], ...] = (pymysql.IntegrityError, pymysql.DataError)
    product = "MariaDB or MySQL"
    synced_by = "innodb_flush_log_at_trx_commit = 1, and with a binlog sync_binlog = 1"

    def __init__(self, *, url: str, subject: str) -> None:
        """Raises StoreUnavailable where `url` is not an address; opens no connection yet."""
        address = read_address(url, url.partition(":")[0])
        _check(address)
        self.subject = (
            f"{subject} in MariaDB or MySQL at {address.host or 'this machine'}:{address.port or PORT}"
        )
        self.engine = sa.create_engine(
            address.set(drivername=DRIVER),
            connect_args={
                "charset": "utf8mb4",
                "collation": "utf8mb4_bin",
                "connect_timeout": CONNECT_SECONDS,
            },
            hide_parameters=True,
            isolation_level="REPEATABLE READ",
            pool_pre_ping=True,
        )
        sa.event.listen(self.engine, "do_connect", _connect)
        sa.event.listen(self.engine, "connect", self._prepare, insert=True)

    def begin(self, connection: sa.Connection) -> None:
        """The driver opens the transaction with the first statement."""
        _run(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def commit(self, connection: sa.Connection) -> None:
        _driver(connection).commit()
        _end_turns(connection)

    def rollback(self, connection: sa.Connection) -> None:
        if connection.invalidated:
            return
        try:
            _driver(connection).rollback()
            _end_turns(connection)
        except pymysql.Error:
            connection.invalidate()

    def is_collision(self, error: BaseException) -> bool:
        return error.args[:1] in ((DEADLOCK,), (CHANGED_SINCE,))

    @contextlib.contextmanager
    def locked(self, connection: sa.Connection, number: int) -> Iterator[None]:
        """Changes of tables end the transaction: the lock is the connection's, and ends with it."""
        with self.waiting_for(connection, None):
            self.take_turns(connection, number, MIGRATION_SECONDS)
            _driver(connection).commit()  # what was read before is of an older moment
            try:
                yield
            finally:
                with contextlib.suppress(pymysql.Error):
                    _end_turns(connection)

    def wait_for_answers(self, connection: sa.Connection, seconds: float | None) -> None:
        _wait_for_answers(_driver(connection), seconds)

    def take_turns(self, connection: sa.Connection, number: int, seconds: int = LOCK_WAIT_SECONDS) -> None:
        # Such names hold for all databases of the server.
        text = "SELECT GET_LOCK(CONCAT('punctual ', MD5(DATABASE()), ' ', %s), %s)"
        if _run(connection, text, number, seconds) != [(1,)]:
            raise StoreUnavailable(
                f"{self.subject} waits for another program, for {seconds} s now; try again"
            )
        connection.info[_HAS_TURN] = True

    def claim_alone(self, connection: sa.Connection, number: int) -> bool:
        _run(connection, f"SET SESSION wait_timeout = {UNUSED_SECONDS}")
        name = "CONCAT('punctual ', MD5(DATABASE()), ' alone ', %s)"
        text = f"SELECT IS_USED_LOCK({name}) <=> CONNECTION_ID() OR GET_LOCK({name}, 0)"
        found = _run(connection, text, number, number)
        _driver(connection).commit()
        return found == [(1,)]

    def milliseconds(self, connection: sa.Connection) -> int:
        text = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
        return int(connection.exec_driver_sql(text).scalar_one())

    def syncs(self, connection: sa.Connection) -> bool:
        text = "SELECT @@innodb_flush_log_at_trx_commit = 1 AND (NOT @@log_bin OR @@sync_binlog = 1)"
        return bool(connection.exec_driver_sql(text).scalar_one())

    def is_replica(self, connection: sa.Connection) -> bool:
        return bool(connection.exec_driver_sql("SELECT @@read_only").scalar_one())

    def insert_many(self, connection: sa.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
        """By one statement for many rows, which come as one JSON text."""
        return len(rows) - len(_merge(connection, _compose(upsert), in_chunks(upsert, rows)))

    def write_guarded(
        self, connection: sa.Connection, upsert: GuardedUpsert, rows: Sequence[Row]
    ) -> set[object]:
        admitted = [row for some in in_chunks(upsert, rows) for row in _admit(connection, upsert, some)]
        refused = _merge(connection, _compose_guarded(upsert), [admitted])
        return {row[0] for row in admitted} - {row[0] for row in refused}

    def among(self, columns: Columns, keys: Columns) -> sa.ColumnElement[bool]:
        """As a join: of IN and a subquery an UPDATE or DELETE would look at the whole table."""
        return sa.and_(*(column == key for column, key in zip(columns, keys, strict=True)))

    def first_rows(
        self, connection: sa.Connection, selection: sa.Select[Any], order: Sequence[Any], limit: int
    ) -> Sequence[Any]:
        """Asks for the end of the first column before: else all rows would be sorted by the others."""
        first = newest_first(selection.with_only_columns(order[0]), order[:1], 1).offset(limit - 1)
        end = connection.execute(first).scalar()
        within = selection if end is None else selection.where(order[0] >= end)
        return connection.execute(newest_first(within, order, limit)).all()

    def take(self, connection: sa.Connection, table: sa.Table, window: sa.Select[Any]) -> Sequence[Any]:
        """Locks the rows as it reads them: not all versions have RETURNING."""
        key = tuple(table.primary_key)
        is_wanted = self.among(key, window.correlate(None).subquery("window").c)
        found = connection.execute(sa.select(table).where(is_wanted).with_for_update()).all()
        places = [list(table.c).index(column) for column in key]
        names = tuple(column.name for column in key)
        same = " AND ".join(f'{table.name}."{name}"=taken."{name}"' for name in names)
        text = f"DELETE {table.name} FROM {_source(table, names, (), 'taken')} JOIN {table.name} ON {same}"
        if found:
            _run(connection, text, _encode([[row[place] for place in places] for row in found]).decode())
        return found

    def said_by(self, cause: BaseException) -> str:
        number, *text = cause.args if len(cause.args) > 1 else (None, cause)
        return " ".join(map(str, text)) + ("" if number is None else f" ({number})")

    def _prepare(self, raw: pymysql.Connection, record: sa.pool.ConnectionPoolEntry) -> None:
        """What a new connection is told, and asked. Raises StoreUnavailable for a server that is too old."""
        with raw.cursor() as cursor:
            cursor.execute("SELECT VERSION(), @@max_allowed_packet")
            version, record.info[_PACKET] = cast("tuple[str, int]", cursor.fetchone())
            if _number(version) < (OLDEST_MARIADB if _is_mariadb(version) else OLDEST_MYSQL):
                raw.close()
                raise StoreUnavailable(
                    f"{self.subject} has version {version}: MariaDB 10.6 or MySQL 8.0.17 is needed"
                )
            cursor.execute(
                f"SET SESSION sql_mode='{MODES}',innodb_lock_wait_timeout={LOCK_WAIT_SECONDS},"
                f"group_concat_max_len={JSON_BYTES}"
            )
            self.product = "MariaDB" if _is_mariadb(version) else "MySQL"


def _is_mariadb(version: str) -> bool:
    return "MariaDB" in version


def _check(address: sa.URL) -> None:
    """Raises StoreUnavailable for what the driver would not say in words."""
    if not address.database:
        raise StoreUnavailable(
            "database.url or store.url names no database; write mysql://USER:PASSWORD@HOST:PORT/NAME"
        )
    for name, value in address.query.items():
        if name not in PARAMETERS:
            known = ", ".join(sorted(PARAMETERS))
            raise StoreUnavailable(
                f"the address of the database has the unknown parameter {name!r}; known are {known}"
            )
        if name in FILES and not Path(str(value)).is_file():
            raise StoreUnavailable(
                f"the address of the database: {name} names {str(value)!r}, which is not a file"
            )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split("."))


def _connect(_: object, __: object, ___: object, given: dict[str, Any]) -> pymysql.Connection:
    """A connection of which the kernel notices that its server has vanished; a file needs none of it.

    Of one that stands still it notices nothing: there each answer has a limit, the first one a short one.
    """
    connection = _open(given | {"read_timeout": CONNECT_SECONDS})
    _wait_for_answers(connection, ANSWER_SECONDS)
    return connection


def _open(given: dict[str, Any]) -> pymysql.Connection:
    if "unix_socket" in given:
        return pymysql.connect(**given)
    connection = pymysql.connect(**given, defer_connect=True)
    place = (connection.host, connection.port)
    try:
        opened = socket.create_connection(place, CONNECT_SECONDS)
    except OSError as error:
        raise pymysql.OperationalError(2003, f"no connection to {place[0]}:{place[1]}: {error}") from error
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", IDLE_SECONDS),
        ("TCP_KEEPINTVL", PROBE_SECONDS),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", UNANSWERED_MS),
    ):
        if hasattr(socket, name):  # macOS lacks some
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    connection.connect(opened)
    return connection


def _wait_for_answers(raw: pymysql.Connection, seconds: float | None) -> None:
    """How long each answer is waited for from now on; the driver has no public way to change it."""
    raw._read_timeout = seconds


def _driver(connection: sa.Connection) -> pymysql.Connection:
    return cast("pymysql.Connection", connection.connection.driver_connection)


def _run(connection: sa.Connection, text: str, *values: object) -> list[Any]:
    """The rows of a statement that does not pass SQLAlchemy."""
    with _driver(connection).cursor() as cursor:
        cursor.execute(text, values)
        return list(cursor.fetchall())


def _end_turns(connection: sa.Connection) -> None:
    if connection.info.pop(_HAS_TURN, False):
        _run(connection, "SELECT RELEASE_ALL_LOCKS()")


class _Statement(msgspec.Struct, frozen=True):
    """An upsert for any number of rows; `tells`: `@refused` has the places of those that changed nothing."""

    table: str
    text: str
    tells: bool


@cache
def _compose(upsert: Upsert) -> _Statement:
    source = _source(upsert.table, upsert.columns, (), "excluded")
    return _write(upsert.table, upsert.columns, source, "excluded", upsert.key, upsert.changes, upsert.guard)


@cache
def _compose_guarded(upsert: GuardedUpsert) -> _Statement:
    source = _source(upsert.table, upsert.columns, upsert.given, "given")
    changes = tuple((name, f'given."{name}"') for name in upsert.columns[1:])
    return _write(upsert.table, upsert.columns, source, "given", (upsert.key,), changes, upsert.guard)


def _admit(connection: sa.Connection, upsert: GuardedUpsert, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that may be added, and those whose key is there, which are locked."""
    if not upsert.adds:
        return rows
    width = len(upsert.columns)
    text = _encode([(row[0], *row[width:]) for row in rows]).decode()
    return [rows[place - 1] for (place,) in sorted(_run(connection, _compose_admission(upsert), text))]


@cache
def _compose_admission(upsert: GuardedUpsert) -> str:
    own = f'{upsert.table.name}."{upsert.key}"'
    source = _source(upsert.table, (upsert.key,), upsert.given, "given")
    joined = f'{source} LEFT JOIN {upsert.table.name} ON {own}=given."{upsert.key}"'
    return f"SELECT given.of_row FROM {joined} WHERE ({upsert.adds}) OR {own} IS NOT NULL FOR UPDATE"  # noqa: S608


def _write(
    table: sa.Table,
    columns: Sequence[str],
    source: str,
    alias: str,
    key: Sequence[str],
    changes: Changes,
    guard: str,
) -> _Statement:
    """An insert that changes what is there.

    The guard is computed before the first column changes. One assignment follows the other, and what they
    change is what the next one would read.
    """
    refused = f"(@refused:=CONCAT_WS(',',@refused,{alias}.of_row)) IS NULL"
    if not changes:
        own = f'{table.name}."{key[0]}"'
        assigned = [f'"{key[0]}"=IF({refused},{own},{own})']
    elif not guard:
        assigned = [f'"{name}"={value}' for name, value in changes]
    else:
        first, own = changes[0], f'{table.name}."{changes[0][0]}"'
        assigned = [f'"{first[0]}"=IF(@fits:=({guard}),{first[1]},IF({refused},{own},{own}))']
        assigned += [f'"{name}"=IF(@fits,{value},{table.name}."{name}")' for name, value in changes[1:]]
    own = quoted(columns, alias)
    text = f"INSERT INTO {table.name} ({quoted(columns)}) SELECT {own} FROM {source} ON DUPLICATE KEY UPDATE "  # noqa: S608
    return _Statement(table.name, text + ",".join(assigned), bool(guard) or not changes)


def _source(table: sa.Table, columns: Sequence[str], given: Sequence[str], alias: str) -> str:
    """The rows of the JSON text `%s` as a table: arrays of arrays; bytes come in base 64.

    Types hold more than their columns, so that the insert refuses what does not fit: here it would be cut.
    """
    kinds = [table.c[name].type for name in columns] + [sa.BigInteger()] * len(given)
    names = (*columns, *given)
    read = ",".join(
        f"\"{name}\" {_json_type(kind)} PATH '$[{place}]' ERROR ON ERROR"
        for place, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )
    shown = ",".join(
        f'FROM_BASE64("{name}") AS "{name}"' if isinstance(kind, sa.LargeBinary) else f'"{name}"'
        for name, kind in zip(names, kinds, strict=True)
    )
    rows = f"JSON_TABLE(%s,'$[*]' COLUMNS (of_row FOR ORDINALITY,{read})) AS json_rows"
    return f"(SELECT of_row,{shown} FROM {rows}) AS {alias}"  # noqa: S608


def _json_type(kind: sa.types.TypeEngine[Any]) -> str:
    return "DECIMAL(20)" if isinstance(kind, sa.Integer) else TEXT


def _merge(connection: sa.Connection, statement: _Statement, chunks: Iterable[Sequence[Row]]) -> list[Row]:
    """Writes rows; those that changed nothing, if the statement tells."""
    refused: list[Row] = []
    for text, rows in (one for some in chunks for one in _packets(connection, statement.table, some)):
        if not statement.tells:
            _run(connection, statement.text, text)
            continue
        _run(connection, "SET @refused=NULL")
        _run(connection, statement.text, text)
        ((places,),) = _run(connection, "SELECT @refused")
        refused += [rows[int(place) - 1] for place in _split(places)]
    return refused


def _split(places: str | bytes | None) -> list[str]:
    text = places.decode() if isinstance(places, bytes) else places
    return text.split(",") if text else []


def _packets(
    connection: sa.Connection, table: str, rows: Sequence[Row]
) -> Iterator[tuple[str, Sequence[Row]]]:
    """The rows as JSON texts that each fit into a packet. Raises DataError for a row that fits into none."""
    most = connection.info[_PACKET] - STATEMENT_BYTES
    texts: list[bytes] = []
    some: list[Row] = []
    size = 0
    for row in rows:
        text = _encode(row)
        length = len(text) + text.count(b"'") + 1  # which the driver doubles
        if length > most:
            raise pymysql.DataError(
                PACKET_TOO_LARGE,
                f"a row of {table} takes {length} bytes, and the server's max_allowed_packet is "
                f"{connection.info[_PACKET]}: set it higher",
            )
        if size + length > most:
            yield _array(texts), some
            texts, some, size = [], [], 0
        texts.append(text)
        some.append(row)
        size += length
    if some:
        yield _array(texts), some


def _array(texts: Sequence[bytes]) -> str:
    return f"[{b','.join(texts).decode()}]"


@compiles(sa.schema.CreateTable, *_BOTH)
def _create_table(create: sa.schema.CreateTable, compiler: DDLCompiler, **options: Any) -> str:
    collation = BYTEWISE_MARIADB if compiler.dialect.is_mariadb else BYTEWISE_MYSQL  # type: ignore[attr-defined]
    written: str = compiler.visit_create_table(create, **options)  # type: ignore[no-untyped-call]
    return f"{written.rstrip()} ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation}"


@compiles(sa.Text, *_BOTH)
def _text(kind: sa.Text, compiler: TypeCompiler, **options: Any) -> str:
    return "LONGTEXT"


@compiles(sa.LargeBinary, *_BOTH)
def _large_binary(kind: sa.LargeBinary, compiler: TypeCompiler, **options: Any) -> str:
    return "LONGBLOB"


@compiles(SumBefore, *_BOTH)
def _sum_before(element: SumBefore, compiler: SQLCompiler, **options: Any) -> str:
    """A subquery's order is lost here where it is not said again."""
    number, *order = (compiler.process(clause, **options) for clause in element.clauses)
    return f"sum({number}) OVER (ORDER BY {', '.join(order)} ROWS UNBOUNDED PRECEDING) - {number}"


_VALUES = f"COLUMNS (value {TEXT} PATH '$')"
_ROW = f"name {TEXT} PATH '$[0]', number BIGINT PATH '$[1]', other BIGINT PATH '$[2]'"
write_as(
    {
        Unindexed: "{0}",
        # As bytes: what comes out of JSON has not its column's collation, and would ignore spaces at its end.
        Member: "CAST(JSON_UNQUOTE(JSON_EXTRACT({0}, CONCAT('$.', JSON_QUOTE({1})))) AS BINARY)",
        Like: "LOWER({0}) LIKE LOWER({1}) ESCAPE '\\'",
        AnyMemberLike: f"EXISTS (SELECT 1 FROM JSON_TABLE({{0}}, '$.*' {_VALUES}) AS member "  # noqa: S608
        "WHERE LOWER(member.value) LIKE LOWER({1}) ESCAPE '\\')",
        NewestState: "IF(JSON_VALID(CONVERT({0} USING utf8mb4)), "
        "JSON_UNQUOTE(JSON_EXTRACT(CONVERT({0} USING utf8mb4), '$.state')), NULL)",
        IsIn: f"{{0}} IN (SELECT wanted.value FROM JSON_TABLE({{1}}, '$[*]' {_VALUES}) AS wanted)",  # noqa: S608
        StoredSize: "LENGTH({0})",
        IndexSteps: "{1}",
        JsonLists: "JSON_ARRAYAGG(JSON_ARRAY({every}))",
        JsonRows: f"JSON_TABLE({{0}}, '$[*]' COLUMNS ({_ROW}))",
    },
    *_BOTH,
)
