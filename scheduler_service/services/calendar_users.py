"""The jobs that use a calendar, found in their definitions (SPEC section 3, Calendars)."""

import json
from collections.abc import AsyncIterator

from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry, JobQuery
from scheduler_service.timing.timer import RECURRING

PAGE, MOST_PAGES = 50, 20
"""Jobs are read so many at a time, and in search of the next users so many times."""


class CalendarUsers:
    """The jobs that use a calendar, found in their definitions, a page at a time."""

    def __init__(self, *, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def pages(self, tenant: str, name: str) -> AsyncIterator[list[CatalogueEntry]]:
        """Each page of them. Raises StoreUnavailable."""
        cursor: str | None = ""
        while cursor is not None:
            found, cursor = await self.page(tenant, name, cursor)
            if found:
                yield found

    async def page(
        self, tenant: str, name: str, cursor: str = "", *, enough: int = 1
    ) -> tuple[list[CatalogueEntry], str | None]:
        """The next ones from `cursor` on, and the cursor of the page behind them; None: it is the last one.

        At least `enough` of them, and less than PAGE more; fewer, or none, where PAGE x MOST_PAGES jobs have
        no more. Raises StoreUnavailable.
        """
        slices, found = Slices(), list[CatalogueEntry]()
        kind, _, place = cursor.partition(".") if cursor else (RECURRING[0], "", "")
        for _ in range(MOST_PAGES):
            page = await self._catalogue.list(
                JobQuery(tenant=tenant, kind=kind, system=None, limit=PAGE, cursor=place or None)
            )
            texts = await self._catalogue.definitions([entry.job_id for entry in page.items])
            for entry in page.items:
                text = texts.get(entry.job_id) or await self._read_large(entry)
                await slices.pause(len(text))
                if find_name(text) == name:
                    found.append(entry)
            if page.next_cursor is None and kind == RECURRING[-1]:
                return found, None
            kind, place = (kind, page.next_cursor) if page.next_cursor else (RECURRING[-1], "")
            if len(found) >= enough:
                break
        return found, f"{kind}.{place}"

    async def find(self, tenant: str, name: str, most: int) -> list[CatalogueEntry]:
        """The first `most` of them. Raises StoreUnavailable."""
        found: list[CatalogueEntry] = []
        async for page in self.pages(tenant, name):
            found += page
            if len(found) >= most:
                break
        return found[:most]

    async def _read_large(self, entry: CatalogueEntry) -> bytes:
        revisions = await self._catalogue.revisions(entry.uid, after=entry.revision - 1, limit=1)
        return revisions[0].text if revisions else b""


def find_name(text: bytes) -> str | None:
    """The calendar that the timer of a definition names; one that cannot be read names none."""
    if b"calendar" not in text and b"\\u" not in text:  # its letters may be escaped
        return None
    try:
        timer = json.loads(text).get("timer")
        if isinstance(timer, str):
            timer = json.loads(timer)
    except ValueError:
        return None
    used = timer.get("calendar") if isinstance(timer, dict) else None
    name = used.get("name") if isinstance(used, dict) else used
    return name if isinstance(name, str) else None
