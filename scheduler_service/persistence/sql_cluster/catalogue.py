"""The catalogue of jobs in the shared database."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from scheduler_service.persistence.sql.job_catalogue import BY_IDS, JobCatalogue, write_ids
from scheduler_service.persistence.sql.job_selections import FORMS_KEPT, Read, Statement
from scheduler_service.persistence.sql.job_tables import ENTRY, read_entry
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.ports.catalogue import CatalogueEntry


class SharedCatalogue(JobCatalogue):
    """catalogue.Catalogue over the shared database."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """Reads that wait at one moment are one statement: each creation and update is answered by one."""
        found: CatalogueEntry | None = await self._database.read_together(_entries_all, job_id)
        return found

    async def read_entries(
        self, reads: Sequence[Read], most: int, room: int | None = None, *, with_labels: bool = True
    ) -> list[CatalogueEntry]:

        def work(connection: sa.Connection) -> list[Sequence[Any]]:
            rows: list[Sequence[Any]] = []
            left = room
            for statement, values in reads:
                if len(rows) < most and (left is None or left > 0):
                    wanted = _of_labels(statement, is_bounded=left is not None, with_labels=with_labels)
                    given = {**values, "limit": most - len(rows)} | ({} if left is None else {"room": left})
                    found = connection.execute(wanted, given).all()
                    rows += found
                    if left is not None:
                        left -= sum(len(row.labels) for row in found)
            return rows

        return [read_entry(row) for row in await self._database.read(work)]

    async def read_rows(self, reads: Sequence[Read]) -> list[Sequence[Any]]:
        return await self._database.read(
            lambda connection: [connection.execute(statement, values).all() for statement, values in reads]
        )


@lru_cache(FORMS_KEPT)
def _of_labels(statement: Statement, *, is_bounded: bool, with_labels: bool) -> Statement:
    """The statement without labels, or until those of the rows before have `room` characters."""
    if not with_labels:
        none: sa.ColumnElement[Any] = sa.literal_column("'{}'").label("labels")
        return statement.with_only_columns(*(none if one.name == "labels" else one for one in ENTRY))
    if not is_bounded:
        return statement
    page = statement.subquery("page")
    size = sa.func.length(page.c.labels)
    before = (sa.func.sum(size).over(rows=(None, 0)) - size).label("before")
    weighed = sa.select(*page.c, before).subquery("weighed")
    columns = [weighed.c[one.name] for one in ENTRY]
    return sa.select(*columns).where(weighed.c.before < sa.bindparam("room", type_=sa.BigInteger))


def _entries_all(connection: sa.Connection, job_ids: Sequence[str]) -> list[CatalogueEntry | None]:
    """The entry of each job, None where there is none."""
    rows = connection.execute(BY_IDS, {"job_ids": write_ids(job_ids)})
    found = {entry.job_id: entry for entry in map(read_entry, rows)}
    return [found.get(job_id) for job_id in job_ids]
