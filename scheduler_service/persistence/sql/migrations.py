"""Brings the tables of a database up to date, and reports what is not (`punctual db migrate|check`)."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module, resources
from typing import Any, NoReturn

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.ports.errors import StoreUnavailable


class Migrations(msgspec.Struct, frozen=True, kw_only=True):
    """Tables, and the package `scripts` of the steps that lead older ones to them.

    A step is a module whose name begins with the version of the tables that its `upgrade` leaves
    (`v0013_…`). The version is kept in `version_table`. `lock` is the same number in all programs that use
    these tables. `unversioned` is the version of tables that are there without one; None: there are no such
    tables. `subject` names the database in messages.
    """

    subject: str
    scripts: str
    version_table: str
    metadata: tuple[sa.MetaData, ...]
    lock: int
    unversioned: str | None = None

    @property
    def head(self) -> str:
        """The newest version: that of the last step."""
        return max(_steps(self.scripts))

    @property
    def tables(self) -> frozenset[str]:
        """The names of all tables."""
        return frozenset(name for part in self.metadata for name in part.tables)


@cache
def _steps(package: str) -> Mapping[str, str]:
    """The names of the modules by their versions, in order."""
    names = sorted(file.name.removesuffix(".py") for file in resources.files(package).iterdir())
    return {name[1:5]: f"{package}.{name}" for name in names if name.startswith("v")}


class Check(msgspec.Struct, frozen=True):
    """What `check` found: the version of the tables (None: there are none yet), and this program's.

    `differences` from the tables that this program has are sentences.
    """

    current: str | None
    head: str
    differences: tuple[str, ...] = ()

    @property
    def up_to_date(self) -> bool:
        """Whether nothing is left to do."""
        return self.current == self.head and not self.differences

    @property
    def remedy(self) -> str:
        """What makes the tables those of this program."""
        if self.current is None or self.current < self.head:
            return "run 'punctual db migrate'"
        if self.current > self.head:
            return "start the newer program, which made them"
        return (
            "no version of Punctual made the tables so, and 'punctual db migrate' leaves them: undo what was "
            "changed there, or restore a backup"
        )


def upgrade(dialect: Dialect, migrations: Migrations) -> None:
    """Makes the tables, or runs the migrations that are missing. If none is, one query.

    All or nothing, where the database can take changes of tables back. Where it cannot, what was cut off is
    gone on with: each step looks for what is there (`add_missing`).

    Raises StoreUnavailable where a newer program made the tables.
    """
    with dialect.engine.connect() as connection:
        if current_version(connection, migrations) == migrations.head:
            return
        # Of several processes that start at once, one does it; the others then find nothing to do.
        with dialect.locked(connection, migrations.lock):
            current = current_version(connection, migrations)
            if current is None:
                current = _add_version(connection, migrations)
            if current > migrations.head:
                raise StoreUnavailable(
                    f"{migrations.subject} has version {current}, this program knows versions up to "
                    f"{migrations.head}; start the newer program"
                )
            if current < migrations.head:
                _migrate(connection, migrations, current)
            connection.commit()


def check(engine: sa.Engine, migrations: Migrations) -> Check:
    """Compares the tables with the schema; changes nothing."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with engine.connect() as connection:
        current = current_version(connection, migrations)
        if current is None:
            return Check(None, migrations.head)

        def is_own(name: str | None, kind: str, _: object) -> bool:
            return kind != "table" or name in migrations.tables

        # Other tables in the database are not compared: nodes of a cluster keep theirs beside the history.
        opts = {"version_table": migrations.version_table, "include_name": is_own}
        context = MigrationContext.configure(connection, opts=opts)
        found = compare_metadata(context, list(migrations.metadata))  # type: ignore[arg-type]
        return Check(current, migrations.head, tuple(_describe_all(found, engine.dialect)))


def current_version(connection: sa.Connection, migrations: Migrations) -> str | None:
    """The version of the tables, or None where there are none."""
    if not sa.inspect(connection).has_table(migrations.version_table):
        return None
    return connection.execute(
        sa.text(f"SELECT version_num FROM {migrations.version_table}")  # noqa: S608
    ).scalar()


def _describe_all(found: list[Any], dialect: sa.Dialect) -> Iterator[str]:
    """What Alembic found, as tuples and as lists of such for one column."""
    found = [one for group in found for one in (group if isinstance(group, list) else [group])]
    removed = {one[1].name for one in found if one[0] == "remove_index"}
    added = {one[1].name for one in found if one[0] == "add_index"}
    missing = {one[1].name for one in found if one[0] == "add_table"}
    for one in found:
        kind, subject = one[:2]
        if kind == "add_index" and subject.table.name in missing:
            continue
        if kind == "add_index" and subject.name in removed:
            yield f"{_of_table(subject, 'index')} is not ({_columns(subject)}) as this program makes it"
        elif not (kind == "remove_index" and subject.name in added):
            yield from _describe(one, dialect)


def _describe(difference: tuple[Any, ...], dialect: sa.Dialect) -> Iterator[str]:
    """The sentence for one difference; comments are none."""
    match difference:
        case ("add_table", table):
            yield f"the table {table.name} is missing"
        case ("remove_table", table):
            yield f"the table {table.name} is unknown"
        case ("add_column", _, table, column):
            yield f"the column {table}.{column.name} is missing"
        case ("remove_column", _, table, column):
            yield f"the column {table}.{column.name} is unknown"
        case ("add_index", index):
            yield f"{_of_table(index, 'index')} is missing: it is of ({_columns(index)})"
        case ("remove_index", index):
            yield f"{_of_table(index, 'index')} is unknown"
        case ("add_constraint" | "add_fk", constraint):
            yield f"{_of_table(constraint, 'constraint')} is missing: it is of ({_columns(constraint)})"
        case ("remove_constraint" | "remove_fk", constraint):
            yield f"{_of_table(constraint, 'constraint')} of ({_columns(constraint)}) is unknown"
        case ("modify_type", _, table, column, _, old, new):
            types = f"{old.compile(dialect)} instead of {new.compile(dialect)}"
            yield f"the column {table}.{column} has the type {types}"
        case ("modify_nullable", _, table, column, _, old, _):
            rule = "may be NULL and must not" if old else "must not be NULL and may"
            yield f"the column {table}.{column} {rule}"
        case ("modify_default", _, table, column, *_):
            yield f"the column {table}.{column} has another default"


def _of_table(item: sa.Index | sa.Constraint, noun: str) -> str:
    table = getattr(item, "table", None)
    return " ".join([f"the {noun}", *([str(item.name)] if item.name else []), f"of the table {table}"])


def _columns(item: Any) -> str:
    return ", ".join(getattr(one, "name", None) or str(one) for one in item.columns)


def add_missing(connection: sa.Connection, *parts: sa.Table | sa.Column[Any] | sa.Index) -> None:
    """Makes those of `parts` that are not there yet; a table with its indexes."""
    for part in parts:
        if isinstance(part, sa.Table):
            if sa.inspect(connection).has_table(part.name):
                add_missing(connection, *part.indexes)
            else:
                part.create(connection)
        elif isinstance(part, sa.Index):
            if part.name not in _names(sa.inspect(connection).get_indexes(_table_of(part))):
                part.create(connection)
        elif part.name not in _names(sa.inspect(connection).get_columns(_table_of(part))):
            _add_column(connection, part)


def named(table: sa.Table, index: str) -> sa.Index:
    """The index of a table that has this name."""
    return next(one for one in table.indexes if one.name == index)


def _names(found: Iterable[Any]) -> set[object]:
    return {one["name"] for one in found}


def _table_of(part: sa.Index | sa.Column[Any]) -> str:
    assert part.table is not None
    return part.table.name


def _add_column(connection: sa.Connection, column: sa.Column[Any]) -> None:
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    like = sa.Column(column.name, column.type, nullable=column.nullable, server_default=column.server_default)
    Operations(MigrationContext.configure(connection)).add_column(_table_of(column), like)


def _add_version(connection: sa.Connection, migrations: Migrations) -> str:
    """Makes the tables of the newest version, unless there are unversioned ones; the version they have.

    The table of the version comes first, and its row last: so one without a row says that the tables that
    are there belong to this program, and may be half made.
    """
    table, version = _version_table(migrations), migrations.head
    parts = [one for part in migrations.metadata for one in part.sorted_tables]
    if not sa.inspect(connection).has_table(table.name):
        found = migrations.tables & set(sa.inspect(connection).get_table_names())
        if found:
            version = migrations.unversioned or _refuse_others(migrations, found)
        table.create(connection)
        if not found and connection.dialect.name == "sqlite":
            for text in _creation(migrations.metadata):
                connection.exec_driver_sql(text)
            parts = []
    if version == migrations.head:
        add_missing(connection, *parts)
    connection.execute(sa.insert(table).values(version_num=version))
    return version


@cache
def _creation(metadata: tuple[sa.MetaData, ...]) -> tuple[str, ...]:
    """The statements that make all tables in a new SQLite database: to compile them takes longest."""
    texts: list[str] = []
    compiler = sqlite.dialect()
    engine = sa.create_mock_engine(
        "sqlite://", lambda made, *_: texts.append(str(made.compile(dialect=compiler)))
    )
    for part in metadata:
        part.create_all(engine, checkfirst=False)
    return tuple(texts)


def _refuse_others(migrations: Migrations, found: Iterable[str]) -> NoReturn:
    raise StoreUnavailable(
        f"{migrations.subject} cannot be kept where others have tables of the same names "
        f"({', '.join(sorted(found))}); name another database"
    )


def _version_table(migrations: Migrations) -> sa.Table:
    """As Alembic made it in 0.1.0."""
    name = migrations.version_table
    column = sa.Column("version_num", sa.String(32), nullable=False)
    return sa.Table(name, sa.MetaData(), column, sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc"))


def _migrate(connection: sa.Connection, migrations: Migrations, current: str) -> None:
    from alembic.migration import MigrationContext  # only here: it is heavy
    from alembic.operations import Operations

    change = Operations(MigrationContext.configure(connection))
    table = _version_table(migrations)
    for version, module in _steps(migrations.scripts).items():
        if version > current:
            import_module(module).upgrade(change)
            connection.execute(sa.update(table).values(version_num=version))
