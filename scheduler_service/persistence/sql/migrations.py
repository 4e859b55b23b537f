"""Brings the tables of a database up to date, and reports what is not (`punctual db migrate|check`)."""

import threading
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.ports.errors import StoreUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

# Alembic keeps its state in its modules.
_ONE_AT_A_TIME = threading.Lock()


class Migrations(msgspec.Struct, frozen=True, kw_only=True):
    """Tables, and the scripts of Alembic in `scripts` (`a.package:folder`) that lead older ones to `head`.

    The version is kept in `version_table`. `lock` is the same number in all programs that use these tables.
    `unversioned` is the version of tables that are there without one; None: there are no such tables.
    `subject` names the database in messages.
    """

    subject: str
    scripts: str
    head: str
    version_table: str
    metadata: tuple[sa.MetaData, ...]
    lock: int
    unversioned: str | None = None

    @property
    def tables(self) -> frozenset[str]:
        """The names of all tables."""
        return frozenset(name for part in self.metadata for name in part.tables)


class Check(msgspec.Struct, frozen=True):
    """What `check` found: the version of the tables (None: there are none yet), and this program's."""

    current: str | None
    head: str
    differences: tuple[str, ...] = ()

    @property
    def up_to_date(self) -> bool:
        """Whether nothing is left to do."""
        return self.current == self.head and not self.differences


def upgrade(dialect: Dialect, migrations: Migrations) -> None:
    """Makes the tables, or runs the migrations that are missing: all or nothing. If none is, one query.

    Raises StoreUnavailable where a newer program made the tables.
    """
    with dialect.engine.connect() as connection:
        if current_version(connection, migrations) == migrations.head:
            return
        # Of several processes that start at once, one does it; the others then find nothing to do. All is
        # one transaction: tables without their version could not be migrated after a kill.
        dialect.lock(connection, migrations.lock)
        current = current_version(connection, migrations)
        if current is None:
            current = _add_version(connection, migrations)
        if current > migrations.head:
            raise StoreUnavailable(
                f"{migrations.subject} has version {current}, this program knows versions up to "
                f"{migrations.head}; start the newer program"
            )
        if current < migrations.head:
            _migrate(connection, migrations)
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
        return Check(current, migrations.head, tuple(str(difference) for difference in found))


def current_version(connection: sa.Connection, migrations: Migrations) -> str | None:
    """The version of the tables, or None where there are none."""
    if not sa.inspect(connection).has_table(migrations.version_table):
        return None
    return connection.execute(
        sa.text(f"SELECT version_num FROM {migrations.version_table}")  # noqa: S608
    ).scalar()


def script_config(migrations: Migrations) -> "Config":
    """What Alembic has to know to find the scripts of `migrations`."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "scheduler_service.persistence.sql:alembic")
    config.set_main_option("version_locations", migrations.scripts)
    config.set_main_option("path_separator", "newline")
    return config


def _add_version(connection: sa.Connection, migrations: Migrations) -> str:
    """Makes the tables of the newest version, unless there are unversioned ones; the version they have."""
    found = migrations.tables & set(sa.inspect(connection).get_table_names())
    version = migrations.head
    if found and migrations.unversioned is not None:
        version = migrations.unversioned
    else:
        for metadata in migrations.metadata:
            metadata.create_all(connection, checkfirst=False)
    table = _version_table(migrations)
    table.create(connection)
    connection.execute(sa.insert(table).values(version_num=version))
    return version


def _version_table(migrations: Migrations) -> sa.Table:
    """As Alembic makes it, which is only imported where tables have to be changed: it is heavy."""
    name = migrations.version_table
    column = sa.Column("version_num", sa.String(32), nullable=False)
    return sa.Table(name, sa.MetaData(), column, sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc"))


def _migrate(connection: sa.Connection, migrations: Migrations) -> None:
    from alembic import command

    config = script_config(migrations)
    config.attributes.update(connection=connection, migrations=migrations)
    with _ONE_AT_A_TIME:
        command.upgrade(config, "head")
