"""The calendars of all tenants in memory, and the jobs that use one (SPEC section 3, Calendars)."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from typing import Any

from scheduler_service import how_to_install
from scheduler_service.domain.errors import DefinitionError, ExpressionError, Problem
from scheduler_service.domain.moments import as_datetime
from scheduler_service.pacing.slices import Slices, rest_until_tick
from scheduler_service.pacing.table_follower import Follower
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry, JobQuery
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.shared_tables import REMOVED, CalendarTable, Mark, StoredCalendar
from scheduler_service.timing.calendar_days import (
    FREE,
    WORK,
    Calendar,
    day_of,
    make_calendar,
    read_span,
    read_spans,
    write_spans,
)
from scheduler_service.timing.timer import RECURRING
from scheduler_service.timing.zones import load_zone

MOST_CALENDARS = 1_000
"""So many calendars one tenant may have."""
YEARS_AHEAD = 5
"""The public holidays of a country are taken from the year before to so many years ahead."""
Document = Mapping[str, Any]


class Calendars(Follower):
    """What is stored here counts at once, what other processes store within a second.

    While the table cannot be read, the calendars that were read last are valid: `on_trouble` is told why, and
    with None when it can be read again. Between two looks it `rests` for so many seconds.
    """

    def __init__(
        self,
        *,
        table: CalendarTable,
        clock: Clock,
        on_trouble: Callable[[str | None], None] = lambda _: None,
        rest: Callable[[float], Awaitable[None]] = rest_until_tick,
    ) -> None:
        super().__init__(mark=table.mark, on_trouble=on_trouble, rest=rest)
        self._table, self._clock = table, clock
        self._known: dict[tuple[str, str], tuple[StoredCalendar, Calendar | None]] = {}

    async def _read_table(self) -> Mark:
        mark, stored = await self._table.calendars()
        self._known = {(one.tenant, one.name): (one, self._read(one)) for one in stored}
        return mark

    def find(self, tenant: str, name: str) -> Calendar | None:
        """The days of a calendar as they are now (`Surroundings.find_calendar`)."""
        known = self._known.get((tenant, name))
        return None if known is None else known[1]

    def get(self, tenant: str, name: str) -> StoredCalendar | None:
        """What is stored under a name; None: nothing is."""
        known = self._known.get((tenant, name))
        return None if known is None or known[0].is_removed else known[0]

    def list(self, tenant: str) -> Sequence[StoredCalendar]:
        """The calendars of a tenant by name."""
        return [one for (owner, _), (one, _) in self._known.items() if owner == tenant and not one.is_removed]

    def names(self) -> Collection[tuple[str, str]]:
        """Tenant and name of each."""
        return {name for name, (one, _) in self._known.items() if not one.is_removed}

    def untold(self) -> Sequence[StoredCalendar]:
        """Those whose jobs have not all followed their latest change, removed ones too."""
        return [one for one, _ in self._known.values() if one.told < one.version]

    async def put(
        self, tenant: str, name: str, document: Document, *, expected: frozenset[int] | None = None
    ) -> StoredCalendar | None:
        """Stores a calendar that `complete` has made; None: it is not at one of the `expected` versions.

        Raises StoreUnavailable.
        """
        is_stored = await self._put(tenant, name, json.dumps(document).encode(), expected)
        return self._known[tenant, name][0] if is_stored else None

    async def remove(self, calendar: StoredCalendar) -> StoredCalendar | None:
        """A calendar that was removed; None: it was changed meanwhile. Raises StoreUnavailable."""
        document, expected = REMOVED + calendar.document, frozenset({calendar.version})
        is_removed = await self._put(calendar.tenant, calendar.name, document, expected)
        return self._known[calendar.tenant, calendar.name][0] if is_removed else None

    async def restore(self, calendar: StoredCalendar) -> bool:
        """A removed calendar, as `untold` has it, is there again; False: it was changed meanwhile.

        Raises StoreUnavailable.
        """
        is_restored = await self._table.restore(calendar)
        await self.load()
        return is_restored

    async def note_told(self, calendar: StoredCalendar) -> None:
        """All jobs have followed this version. Raises StoreUnavailable."""
        await self._table.note_told(calendar.tenant, calendar.name, calendar.version)

    def complete(self, posted: Document) -> Document:
        """A posted calendar with the public holidays of its country. Raises DefinitionError."""
        problems: list[Problem] = []
        read_calendar("", posted, problems)
        holidays: dict[str, object] = {}
        if posted.get("country"):
            year = as_datetime(self._clock.now().wall).year
            try:
                holidays = find_holidays(posted["country"], range(year - 1, year + YEARS_AHEAD + 1))
            except ExpressionError as error:
                problems.append(error.as_problem("/country"))
        if problems:
            raise DefinitionError(problems)
        return {**posted, "holidays": holidays} if holidays else posted

    async def _put(self, tenant: str, name: str, document: bytes, expected: frozenset[int] | None) -> bool:
        is_stored = await self._table.put(tenant, name, document, self._clock.now().wall, expected=expected)
        await self.load()
        return is_stored

    def _read(self, stored: StoredCalendar) -> Calendar | None:
        known = self._known.get((stored.tenant, stored.name))
        if known is not None and known[0].version == stored.version:
            return known[1]  # the same value, so that what is compiled with it stays
        if stored.is_removed:
            return None
        found = json.loads(stored.document)
        return read_calendar(stored.name, found, [], revision=stored.version, changed_at=stored.changed_at)


def read_calendar(
    name: str, document: Document, problems: list[Problem], *, revision: int = 0, changed_at: int = 0
) -> Calendar:
    """The days of a calendar; what cannot be read is left out, and joins `problems`."""
    zone = None
    if document.get("timezone"):
        try:
            zone = load_zone(document["timezone"])
        except ExpressionError as error:
            problems.append(error.as_problem("/timezone"))
    holidays = document.get("holidays") or {}
    listed = [(kind, f"/{kind}", document.get(kind) or []) for kind in (FREE, WORK)]
    public = [(kind, f"/holidays/{kind}", holidays.get(kind) or []) for kind in (FREE, WORK)]
    layers = [(kind, read_spans(texts, pointer, problems)) for kind, pointer, texts in (*public, *listed)]
    week = sum(1 << (day - 1) for day in set(document.get("week", (1, 2, 3, 4, 5))))
    return make_calendar(name, version=revision, changed_at=changed_at, week=week, layers=layers, zone=zone)


def lists_none_of(document: Document, year: int) -> bool:
    """Whether a stored calendar lists days, and none of this year."""
    holidays = document.get("holidays") or {}
    listed = [text for one in (document, holidays) for kind in (FREE, WORK) for text in one.get(kind) or ()]
    first, last = day_of(date(year, 1, 1)), day_of(date(year, 12, 31))
    spans = map(read_span, listed)
    return bool(listed) and not any(one.first <= last and one.last >= first for one in spans)


def lacks_year(year: int) -> str:
    """What is said of such a calendar."""
    return f"it has no day of {year}: working days follow from its week alone"


def find_holidays(country: str, years: range) -> dict[str, object]:
    """The free days and the make-up working days of a country, from the package `holidays`.

    Raises ExpressionError: it is not installed, or does not know the country.
    """
    try:
        import holidays
    except ImportError:
        needed = how_to_install("service", "holidays")
        raise ExpressionError(f"country needs the package holidays; {needed}", code="not_installed") from None
    code, _, part = country.partition("-")
    try:
        found = holidays.country_holidays(code, subdiv=part or None, years=years)
    except NotImplementedError as error:
        raise ExpressionError(f"the package holidays does not have {country!r}: {error}") from None
    worked = [day for day in getattr(found, "weekend_workdays", ()) if day.year in years]
    return {
        FREE: list(write_spans(map(day_of, found))),
        WORK: list(write_spans(map(day_of, worked))),
        "until": years.stop - 1,
        "package": version("holidays"),
    }


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
