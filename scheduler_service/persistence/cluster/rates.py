"""Rate limits of services in the shared database: one row each, written over the row that was read."""

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.schema import shared_rates
from scheduler_service.persistence.sql.expressions import Upsert, overwrite
from scheduler_service.ports.shared_rates import RatePage

_row = shared_rates.c
_FIRST = Upsert(
    table=shared_rates, columns=("tenant", "service", "number", "content"), key=("tenant", "service")
)
_NEXT = msgspec.structs.replace(
    _FIRST,
    changes=overwrite("number", "content"),
    guard="shared_rates.number = excluded.number - 1",
)


class SqlRates:
    """ports.SharedRates. Writings have transactions of their own, so that no turn waits for them."""

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database

    async def read(self, tenant: str, service: str) -> RatePage:
        statement = sa.select(_row.content, _row.number).where(_row.tenant == tenant, _row.service == service)
        found = await self._database.first(statement)
        return RatePage() if found is None else RatePage(bytes(found.content), found.number)

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        row = (tenant, service, page.number + 1, page.content)
        insert_many = self._database.dialect.insert_many
        return await self._database.write_apart(
            lambda connection: insert_many(connection, _NEXT if page.number else _FIRST, [row]) == 1
        )
