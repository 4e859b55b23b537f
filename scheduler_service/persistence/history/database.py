"""The database of the history and of services, in SQLite or PostgreSQL."""

from collections.abc import Collection

import sqlalchemy as sa

from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.schema import MIGRATIONS, executions
from scheduler_service.persistence.sql.database import Database, read_unopened, unopened
from scheduler_service.persistence.sql.dialect import Durability
from scheduler_service.persistence.sql.migrations import Check, Migrations, check


class HistoryDatabase(Database):
    """An open history. Readers do not wait for the writer, except in memory."""

    def __init__(
        self, *, url: str, durability: Durability = "full", faults: FaultPoints | None = None
    ) -> None:
        """Opens `url`, its tables brought up to date; `faults` observes commits. Raises StoreUnavailable."""
        super().__init__(url=url, migrations=MIGRATIONS, durability=durability, faults=faults)


def migrate(*, url: str) -> Check:
    """Brings the tables of `url` up to date; the check of them afterwards. Raises StoreUnavailable."""
    HistoryDatabase(url=url).close()
    return inspect(url=url)


def count_executions(*, url: str, but_of: Collection[str] = ()) -> int:
    """How many executions the history has, without those of the jobs `but_of`; no tables, no executions.

    Raises StoreUnavailable.
    """
    counted = sa.select(sa.func.count()).where(executions.c.job_id.not_in(but_of))
    return read_unopened(
        url, executions, lambda connection: int(connection.execute(counted).scalar_one()), missing=0
    )


def inspect(*, url: str, migrations: Migrations = MIGRATIONS) -> Check:
    """Checks the tables of `url`, changing none of them. Raises StoreUnavailable."""
    with unopened(url, subject=migrations.subject) as dialect:
        return check(dialect.engine, migrations)
