"""Brings the history's tables up to date, and says what is not (`punctual db migrate|check`)."""

import threading

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.history.dialect import Dialect
from scheduler_service.persistence.history.schema import metadata

VERSION_TABLE = "history_version"
HEAD = "0002"
# Alembic keeps what it works on in its modules.
_ONE_AT_A_TIME = threading.Lock()


class Check(msgspec.Struct, frozen=True):
    """What `check` found: the version that lies there (None: no tables yet) and the one that belongs."""

    current: str | None
    head: str
    differences: tuple[str, ...] = ()

    @property
    def up_to_date(self) -> bool:
        """Whether nothing is left to do."""
        return self.current == self.head and not self.differences


def upgrade(dialect: Dialect) -> None:
    """Runs the migrations that are missing, all or nothing; none of them: costs one query."""
    with dialect.engine.connect() as connection:
        if current_version(connection) == HEAD:
            return
        # Tables without their version, as a killed process would leave them, could not be migrated again.
        # Who comes second finds the tables made, and nothing to do.
        dialect.lock(connection)
        with _ONE_AT_A_TIME:
            _migrate(connection)
        connection.commit()


def check(engine: sa.Engine) -> Check:
    """Compares the tables with the schema, changing nothing."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with engine.connect() as connection:
        current = current_version(connection)
        if current is None:
            return Check(None, HEAD)
        # In a database of several nodes lie other tables, which are no business of the history.
        opts = {"version_table": VERSION_TABLE, "include_name": _is_own}
        context = MigrationContext.configure(connection, opts=opts)
        found = tuple(str(difference) for difference in compare_metadata(context, metadata))
        return Check(current, HEAD, found)


def current_version(connection: sa.Connection) -> str | None:
    """The version of the tables, or None where there are none."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608


def _is_own(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or name in metadata.tables


def _migrate(connection: sa.Connection) -> None:
    # Alembic is heavy: only who has something to migrate waits for it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "scheduler_service.persistence.history:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
