"""The database of the history and of services, in SQLite or PostgreSQL."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.schema import MIGRATIONS, executions
from scheduler_service.persistence.sql.database import Database, read_unopened, unopened
from scheduler_service.persistence.sql.dialect import Durability
from scheduler_service.persistence.sql.migrations import Check, Migrations, check
from scheduler_service.persistence.tables import audit_lines


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


def count_traces_of_jobs(*, url: str, but_of: Collection[str] = ()) -> int:
    """How many executions and lines of the audit show that there were jobs of users, without the jobs
    `but_of`; no tables, none. A job that has not run yet has only the line of its creation.

    Raises StoreUnavailable.
    """
    lines = audit_lines.audit.c
    by_users = sa.and_(lines.kind == "job", lines.outcome == "done", lines.via != "system")
    begun = sa.select(sa.func.count()).where(executions.c.job_id.not_in(but_of))
    changed = sa.select(sa.func.count()).where(by_users, lines.job_id.not_in(but_of))

    def count(asked: sa.Select[Any], table: sa.Table) -> int:
        return read_unopened(url, table, lambda found: int(found.execute(asked).scalar_one()), missing=0)

    return count(begun, executions) + count(changed, audit_lines.audit)


def inspect(*, url: str, migrations: Migrations = MIGRATIONS) -> Check:
    """Checks the tables of `url`, changing none of them. Raises StoreUnavailable."""
    with unopened(url, subject=migrations.subject) as dialect:
        return check(dialect.engine, migrations)
