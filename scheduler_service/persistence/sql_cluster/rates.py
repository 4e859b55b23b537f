"""Rate limits of services in the shared database: one row each, written over the row that was read."""

import sqlalchemy as sa

from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.schema import shared_rates
from scheduler_service.ports.shared_rates import RatePage

_row = shared_rates.c


class SqlRates:
    """ports.SharedRates. Writings have transactions of their own, so that no turn waits for them."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database

    async def read(self, tenant: str, service: str) -> RatePage:
        statement = sa.select(_row.content, _row.number).where(_row.tenant == tenant, _row.service == service)
        found = await self._database.first(statement)
        return RatePage() if found is None else RatePage(bytes(found.content), found.number)

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        values = {"content": page.content, "number": page.number + 1}
        statement: sa.Insert | sa.Update
        if page.number == 0:
            insert = self._database.dialect.insert(shared_rates)
            statement = insert.values(tenant=tenant, service=service, **values).on_conflict_do_nothing()
        else:
            is_read = (_row.tenant == tenant, _row.service == service, _row.number == page.number)
            statement = sa.update(shared_rates).where(*is_read).values(values)
        written = statement.returning(_row.number)
        return await self._database.write_apart(
            lambda connection: connection.execute(written).first() is not None
        )
