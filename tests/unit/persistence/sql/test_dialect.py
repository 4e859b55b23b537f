"""What every database does with the same statements: who wins, what is kept, and in which order texts are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scheduler_service.persistence.sql.database import Database
from scheduler_service.persistence.sql.dialect import Dialect, Durability
from scheduler_service.persistence.sql.expressions import (
    AnyMemberLike,
    GuardedUpsert,
    IsIn,
    JsonLists,
    Like,
    Member,
    NewestState,
    Upsert,
    bounded_text,
    json_rows,
    overwrite,
    text,
)
from scheduler_service.persistence.sql.migrations import Migrations
from scheduler_service.persistence.sql.sqlite import SqliteDialect

metadata = sa.MetaData()
things = sa.Table(
    "things",
    metadata,
    sa.Column("name", text(64), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.BigInteger),
    sa.Column("words", sa.Text),
    sa.Column("content", sa.LargeBinary),
)
holders = sa.Table(
    "holders",
    metadata,
    sa.Column("job", bounded_text(260), primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("state", sa.LargeBinary),
)
TABLES = Migrations(
    subject="a test",
    scripts="scheduler_service.persistence.history.migrations",
    version_table="test_version",
    metadata=(metadata,),
    lock=7,
)
COLUMNS = tuple(things.c.keys())
NEWER = Upsert(
    things,
    COLUMNS,
    ("name", "number"),
    (
        *overwrite("sequence", "ended"),
        ("words", "coalesce(excluded.words,things.words)"),
        *overwrite("content"),
    ),
    guard="excluded.sequence>things.sequence AND things.ended IS NULL",
)
CLAIMS = GuardedUpsert(
    holders, ("job", "sequence", "state"), ("expected",), guard="holders.sequence = given.expected"
)
MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.fixture
def database(bare_url: str) -> Iterator[Database]:
    opened = Database(url=bare_url, migrations=TABLES)
    yield opened
    opened.close()


def put(database: Database, *rows: tuple[object, ...], upsert: Upsert = NEWER) -> int:
    return database.write(lambda connection: database.dialect.insert_many(connection, upsert, rows))


def read(database: Database, statement: sa.Select[Any]) -> list[tuple[Any, ...]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(statement)]


def test_what_is_newer_wins_and_the_rest_stays(database: Database) -> None:
    """Row by row of one statement; the guard looks at what was there before any column of it changed."""
    assert put(database, ("a", 1, 1, None, "first", b"1"), ("a", 2, 5, None, "kept", b"2")) == 2
    again = (
        ("a", 1, 2, 9, None, b"new"),  # newer: ends, and keeps the words
        ("a", 2, 5, 9, "old", b"old"),  # not newer
        ("a", 3, 1, None, None, None),  # not there yet
    )
    assert put(database, *again) == 2
    assert put(database, ("a", 1, 3, None, "late", b"late")) == 0, "it has ended"
    assert read(database, sa.select(things).order_by(things.c.number)) == [
        ("a", 1, 2, 9, "first", b"new"),
        ("a", 2, 5, None, "kept", b"2"),
        ("a", 3, 1, None, None, None),
    ]


def test_what_adds_up_is_added_once_for_each_row(database: Database) -> None:
    """Without a guard every row counts."""
    add = Upsert(things, COLUMNS, ("name", "number"), (("sequence", "things.sequence+excluded.sequence"),))
    for _ in range(3):
        assert put(database, ("a", 1, 2, None, None, None), ("b", 1, 3, None, None, None), upsert=add) == 2
    assert read(database, sa.select(things.c.sequence).order_by(things.c.name)) == [(6,), (9,)]


def test_what_is_there_stays_where_nothing_is_to_change(database: Database) -> None:
    """Only what was added is counted."""
    only = Upsert(things, COLUMNS, ("name", "number"))
    assert put(database, ("a", 1, 1, None, "first", None), upsert=only) == 1
    more = [("a", 1, 2, None, "second", None), ("b", 1, 1, None, None, None)]
    assert put(database, *more, upsert=only) == 1
    assert read(database, sa.select(things.c.name, things.c.words).order_by(things.c.name)) == [
        ("a", "first"),
        ("b", None),
    ]


def test_a_guarded_row_is_written_or_told(database: Database) -> None:
    """Each by what it expects to be there: absent, as it was read, or changed by another since."""

    def claim(*rows: tuple[object, ...]) -> set[object]:
        return database.write(lambda connection: database.dialect.write_guarded(connection, CLAIMS, rows))

    assert claim(("j1", 1, b"one", 0), ("j2", 4, b"two", 0)) == {"j1", "j2"}
    assert claim(("j1", 2, b"next", 1), ("j2", 9, b"lost", 3), ("j3", 1, None, 0)) == {"j1", "j3"}
    assert read(database, sa.select(holders).order_by(holders.c.job)) == [
        ("j1", 2, b"next"), ("j2", 4, b"two"), ("j3", 1, None),
    ]  # fmt: skip


def test_values_are_kept_as_they_are(database: Database) -> None:
    """Every byte, quotes, backslashes, characters beyond the first plane, numbers of 64 bits, and much."""
    words, content = "'\"\\ %s :x ?\n\t😀 作业 é" * 5_000, bytes(range(256)) * 400
    put(database, ("😀 'n\\", MOST, LEAST, None, words, bytearray(content)), ("", 0, 0, 0, "", b""))
    assert read(database, sa.select(things).order_by(things.c.number.desc())) == [
        ("😀 'n\\", MOST, LEAST, None, words, content),
        ("", 0, 0, 0, "", b""),
    ]


def test_texts_differ_and_follow_each_other_by_their_bytes(database: Database) -> None:
    """Upper and lower case, accents and spaces at the end: in keys, in conditions and in lists."""
    names = ["a", "A", "a ", "á", "a\u0301", "B", "b", "\uffee", "😀", "a\n", "ab"]
    assert put(database, *((name, 1, 1, None, None, None) for name in names)) == len(names)
    listed = [name for (name,) in read(database, sa.select(things.c.name).order_by(things.c.name))]
    assert listed == sorted(names, key=str.encode)
    for name in names:
        found = read(database, sa.select(things.c.name).where(things.c.name == name))
        assert found == [(name,)]
        wanted = sa.literal(f'["{name}"]'.replace("\n", "\\n"))
        assert read(database, sa.select(things.c.name).where(IsIn(things.c.name, wanted))) == found
    above = sa.tuple_(things.c.name, things.c.number) > sa.tuple_(sa.literal("a"), sa.literal(1))
    assert len(read(database, sa.select(things.c.name).where(above))) == len(names) - 3


@pytest.mark.parametrize(
    "row",
    [
        ("n" * 65, 1, 1, None, None, None),
        ("n", MOST + 1, 1, None, None, None),
        ("n", 1, None, None, None, None),
        ("half \ud83d", 1, 1, None, None, None),
    ],
)
def test_what_does_not_fit_is_refused_and_not_cut(database: Database, row: tuple[object, ...]) -> None:
    """As an error of the value: others may pass. SQLite and PostgreSQL have no bound on these texts."""
    put(database, ("there", 1, 1, None, None, None))
    if row[0] == "n" * 65 and not database.dialect.product.startswith("M"):
        assert put(database, row) == 1
        return
    with pytest.raises((*database.dialect.value_errors, UnicodeEncodeError, OverflowError)):
        put(database, ("other", 1, 1, None, None, None), row)
    assert read(database, sa.select(things.c.name)) == [("there",)]


def test_rows_of_keys_are_found_changed_and_deleted(database: Database) -> None:
    """By a table that is made of what a query holds: no others, and each once."""
    put(database, *((f"n{one % 3}", one, one, None, None, None) for one in range(30)))
    dialect, columns = database.dialect, (things.c.name, things.c.number)

    def work(connection: sa.Connection) -> tuple[Any, int, int]:
        keys = sa.select(things.c.name, things.c.number, things.c.sequence).where(things.c.sequence >= 20)
        held = dialect.hold(connection, keys)
        own = dialect.among(columns, (held.c.name, held.c.number))
        total = connection.execute(sa.select(sa.func.sum(things.c.sequence)).where(own)).scalar_one()
        changed = connection.execute(sa.update(things).where(own).values(ended=1)).rowcount
        return total, changed, connection.execute(sa.delete(things).where(own)).rowcount

    total, changed, deleted = database.write(work)
    assert (int(total), changed, deleted) == (sum(range(20, 30)), 10, 10)
    assert read(database, sa.select(sa.func.count()).select_from(things)) == [(20,)]


@pytest.mark.parametrize("count", [0, 1, 5, 700])
def test_rows_are_deleted_by_their_whole_keys(database: Database, count: int) -> None:
    """However many; those that share a part of a key stay, and one that is not there is nothing."""
    put(database, *((f"n{one % 3}", one, one, None, None, None) for one in range(900)))
    keys = [(f"n{one % 3}", one) for one in range(count)]
    others = [("n1", 0), ("n", 900)]
    database.write(lambda connection: database.dialect.delete_keys(connection, things, keys + others))
    left = read(database, sa.select(things.c.number).order_by(things.c.number))
    assert left == [(one,) for one in range(count, 900)]


@pytest.mark.parametrize("count", [1, 2, 256])
def test_a_file_is_searched_for_the_rows_that_are_deleted(count: int, tmp_path: Path) -> None:
    """Not read whole: a burst leaves thousands of records, and those that the history has go in parts."""
    database, steps = Database(url=f"sqlite:///{tmp_path}/things.db", migrations=TABLES), 0
    put(database, *((f"n{one}", one, one, None, None, None) for one in range(5_000)))

    def step() -> None:
        nonlocal steps
        steps += 1

    def work(connection: sa.Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(step, 1)
        database.dialect.delete_keys(connection, things, [(f"n{one}", one) for one in range(count)])
        driver.set_progress_handler(None, 0)

    database.write(work)
    assert read(database, sa.select(sa.func.count()).select_from(things)) == [(5_000 - count,)]
    assert 0 < steps < 60 * (count + 5)
    database.close()


def test_what_is_taken_is_what_is_gone(database: Database) -> None:
    """The first rows of a table, whole."""
    put(database, *((f"n{one}", one, one, None, "w", b"c") for one in range(9)))
    window = sa.select(things.c.name, things.c.number).order_by(things.c.name).limit(4)
    taken = database.write(lambda connection: database.dialect.take(connection, things, window))
    assert sorted(map(tuple, taken)) == [(f"n{one}", one, one, None, "w", b"c") for one in range(4)]
    assert read(database, sa.select(sa.func.min(things.c.number))) == [(4,)]
    assert database.write(lambda connection: len(database.dialect.take(connection, things, window))) == 4


@pytest.mark.parametrize("limit", [1, 3, 4, 9, 10, 50])
def test_the_first_rows_are_those_of_the_whole_order(database: Database, limit: int) -> None:
    """Also where more rows than are asked for have the first column in common."""
    put(database, *((f"n{one % 5}", one, one // 4, None, None, None) for one in range(10)))
    order = (things.c.sequence, things.c.name, things.c.number)
    everything = sorted(((one // 4, f"n{one % 5}", one) for one in range(10)), reverse=True)
    with database.reading() as connection:
        found = database.dialect.first_rows(connection, sa.select(*order), order, limit)
    assert list(map(tuple, found)) == everything[:limit]


def test_json_is_read_and_written_alike(database: Database) -> None:
    """Members by any key, patterns, rows as one text, and what is no JSON."""
    labels = '{"team":"Blue é","a.b c":"x_y"}'
    put(
        database,
        ("a", 1, 1, None, labels, b'{"state":"failed","x":[1]}'),
        ("b", 2, 1, None, "{}", b"\xffno json"),
    )
    label = things.c.words
    for condition, names in (
        (Member(label, sa.literal("team")) == "Blue é", ["a"]),
        (Member(label, sa.literal("a.b c")) == "x_y", ["a"]),
        (Member(label, sa.literal("none")).is_(None), ["a", "b"]),
        (Like(things.c.name, sa.literal("%A%")), ["a"]),
        (AnyMemberLike(label, sa.literal("%blue%")), ["a"]),
        (AnyMemberLike(label, sa.literal("x\\_y")), ["a"]),
        (AnyMemberLike(label, sa.literal("x\\_")), []),
        (NewestState(things.c.content) == "failed", ["a"]),
        (NewestState(things.c.content).is_(None), ["b"]),
    ):
        found = read(database, sa.select(things.c.name).where(condition).order_by(things.c.name))
        assert [name for (name,) in found] == names, condition
    rows = json_rows(sa.literal('[["a",1,2],["b",3,4]]', sa.Text)).alias("rows")
    joined = sa.select(rows.c.name, rows.c.other, things.c.number).join_from(
        rows, things, rows.c.name == things.c.name
    )
    assert sorted(read(database, joined)) == [("a", 2, 1), ("b", 4, 2)]
    ((lists,),) = read(database, sa.select(JsonLists(things.c.name, things.c.ended, things.c.number)))
    assert sorted(json.loads(lists)) == [["a", None, 1], ["b", None, 2]]


def test_one_knows_the_time_and_whether_it_keeps_what_it_confirms(database: Database) -> None:
    """What `punctual doctor` asks; the tests' servers do not sync."""
    dialect: Dialect = database.dialect
    with database.reading() as connection:
        assert abs(dialect.milliseconds(connection) - dialect.milliseconds(connection)) < 60_000
        assert not dialect.is_replica(connection)
        assert dialect.syncs(connection) == (dialect.product == "SQLite")


@pytest.mark.parametrize(("durability", "is_kept"), [("full", True), ("process", False)])
def test_whether_what_is_committed_is_kept_through_a_power_loss(
    tmp_path: Path, durability: Durability, is_kept: bool
) -> None:
    """As the file is opened: the log is synced at each commit, or left to the system (SPEC section 8)."""
    dialect = SqliteDialect.open(url=f"sqlite:///{tmp_path}/file", subject="a test", durability=durability)
    try:
        with dialect.reading() as connection:
            synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
            assert dialect.syncs(connection) is is_kept is (synchronous == 2)
            assert connection.exec_driver_sql("PRAGMA secure_delete").scalar_one() == 2  # FAST
    finally:
        dialect.engine.dispose()
