"""Calendars in SQL: `ports.calendars.CalendarTable` in the history's database."""

from collections.abc import Sequence

import sqlalchemy as sa

from scheduler_service.persistence.sql.database import MarkedTable, read_unopened
from scheduler_service.persistence.sql.expressions import text
from scheduler_service.ports.calendars import REMOVED, Mark, StoredCalendar

metadata = sa.MetaData()

# Members of `ports.calendars.StoredCalendar`. No row is removed: each change adds one to the sum of
# `version`, by which processes see that there is something new.
_TABLE = calendars = sa.Table(
    "calendars",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("document", sa.LargeBinary(1 << 20), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("told", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("changed_at", sa.BigInteger, nullable=False),
)
_MARK = sa.select(
    sa.func.coalesce(sa.func.sum(_TABLE.c.version), 0), sa.func.coalesce(sa.func.sum(_TABLE.c.told), 0)
)


class SqlCalendarTable(MarkedTable):
    """`ports.calendars.CalendarTable` over the history's database, in a thread of its own."""

    name, marking = "calendars", _MARK

    async def calendars(self) -> tuple[Mark, Sequence[StoredCalendar]]:
        return await self._read_marked(_read_all)

    async def put(
        self, tenant: str, name: str, document: bytes, at: int, *, expected: frozenset[int] | None = None
    ) -> bool:
        def write(connection: sa.Connection) -> bool:
            is_own = (_TABLE.c.tenant == tenant, _TABLE.c.name == name)
            reading = sa.select(_TABLE.c.document, _TABLE.c.version).where(*is_own).with_for_update()
            known = connection.execute(reading).first()
            is_there = known is not None and known.document[:1] != REMOVED
            if expected is not None and (known.version if known and is_there else 0) not in expected:
                return False
            values = {"document": document, "changed_at": at} | ({} if is_there else {"created_at": at})
            if known is None:
                fresh = {"tenant": tenant, "name": name, "version": 1, "told": 0}
                connection.execute(sa.insert(_TABLE).values(**fresh, **values))
            else:
                changing = sa.update(_TABLE).where(*is_own).values(**values, version=_TABLE.c.version + 1)
                connection.execute(changing)
            return True

        return await self._write(write)

    async def restore(self, calendar: StoredCalendar) -> bool:
        is_own = (_TABLE.c.tenant == calendar.tenant, _TABLE.c.name == calendar.name)
        changing = (
            sa.update(_TABLE)
            .where(*is_own, _TABLE.c.version == calendar.version)
            .values(document=calendar.document.removeprefix(REMOVED), version=_TABLE.c.version + 1)
        )
        return await self._write(lambda connection: connection.execute(changing).rowcount == 1)

    async def note_told(self, tenant: str, name: str, version: int) -> None:
        is_own = (_TABLE.c.tenant == tenant, _TABLE.c.name == name, _TABLE.c.told < version)
        noting = sa.update(_TABLE).where(*is_own).values(told=version)
        await self._write(lambda connection: connection.execute(noting))


def read_calendars(*, url: str) -> Sequence[StoredCalendar]:
    """All calendars of a database whose service may not run, removed ones too; no table, none.

    Nothing is changed there. Raises StoreUnavailable.
    """
    return read_unopened(url, calendars, _read_all, missing=())


def _read_all(connection: sa.Connection) -> Sequence[StoredCalendar]:
    rows = connection.execute(sa.select(calendars).order_by(_TABLE.c.tenant, _TABLE.c.name))
    return [StoredCalendar(one[0], one[1], bytes(one[2]), *one[3:]) for one in rows]
