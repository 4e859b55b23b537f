"""The catalogue of jobs in the shared database."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from scheduler_service.persistence.sql.job_catalogue import BY_IDS, JobCatalogue, write_ids
from scheduler_service.persistence.sql.job_selections import Read
from scheduler_service.persistence.sql.job_tables import read_entry
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.ports.catalogue import CatalogueEntry


class SharedCatalogue(JobCatalogue):
    """catalogue.Catalogue over the shared database."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database

    async def catch_up(self) -> None:
        """Returns at once: turns are written to the tables directly."""

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """Reads that wait at one moment are one statement: each creation and update is answered by one."""
        found: CatalogueEntry | None = await self._database.read_together(_entries_all, job_id)
        return found

    async def read_entries(
        self, reads: Sequence[Read], most: int, room: int | None = None
    ) -> list[CatalogueEntry]:

        def work(connection: sa.Connection) -> list[Sequence[Any]]:
            rows: list[Sequence[Any]] = []
            for statement, values in reads:
                if len(rows) < most:
                    rows += connection.execute(statement, {**values, "limit": most - len(rows)}).all()
            return rows

        return [read_entry(row) for row in await self._database.read(work)]

    async def read_rows(self, reads: Sequence[Read]) -> list[Sequence[Any]]:
        return await self._database.read(
            lambda connection: [connection.execute(statement, values).all() for statement, values in reads]
        )


def _entries_all(connection: sa.Connection, job_ids: Sequence[str]) -> list[CatalogueEntry | None]:
    """The entry of each job, None where there is none."""
    rows = connection.execute(BY_IDS, {"job_ids": write_ids(job_ids)})
    found = {entry.job_id: entry for entry in map(read_entry, rows)}
    return [found.get(job_id) for job_id in job_ids]
