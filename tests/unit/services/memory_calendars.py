"""The table of calendars in memory."""

from collections.abc import Sequence

from msgspec.structs import replace

from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import REMOVED, Mark, StoredCalendar


class MemoryCalendars:
    """`ports.shared_tables.CalendarTable` in memory, for several processes."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], StoredCalendar] = {}
        self.is_away = False

    async def mark(self) -> Mark:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        known = self.rows.values()
        return sum(one.version for one in known), sum(one.told for one in known)

    async def calendars(self) -> tuple[Mark, Sequence[StoredCalendar]]:
        return await self.mark(), [self.rows[key] for key in sorted(self.rows)]

    async def put(
        self, tenant: str, name: str, document: bytes, at: int, *, expected: frozenset[int] | None = None
    ) -> bool:
        known = self.rows.get((tenant, name))
        if (
            expected is not None
            and (0 if known is None or known.is_removed else known.version) not in expected
        ):
            return False
        fresh = StoredCalendar(tenant, name, document, 1, 0, at, at)
        if known is not None:
            began = at if known.is_removed else known.created_at
            fresh = replace(fresh, version=known.version + 1, told=known.told, created_at=began)
        self.rows[tenant, name] = fresh
        return True

    async def restore(self, calendar: StoredCalendar) -> bool:
        known = self.rows[calendar.tenant, calendar.name]
        if known.version != calendar.version:
            return False
        document = known.document.removeprefix(REMOVED)
        self.rows[known.tenant, known.name] = replace(known, document=document, version=known.version + 1)
        return True

    async def note_told(self, tenant: str, name: str, version: int) -> None:
        known = self.rows[tenant, name]
        self.rows[tenant, name] = replace(known, told=max(known.told, version))
