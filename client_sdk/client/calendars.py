"""`client.calendars`: the working days by which jobs fire (SPEC section 3)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from client_sdk.client.connection import PAGE, CallGroup, iterate
from client_sdk.client.services import write_wire
from client_sdk.id_patterns import quote_name
from client_sdk.models import NewCalendar, answers

GivenCalendar = NewCalendar | Mapping[str, Any]


class PutCalendar(answers.Calendar):
    """A calendar after it was stored, and the warnings about it."""

    warnings: list[answers.ProblemError]


class Calendars(CallGroup):
    """The calendars of the caller's tenant. Every method raises SdkError; `Absent` if it does not exist."""

    async def put(self, name: str, calendar: GivenCalendar, *, version: int | None = None) -> PutCalendar:
        """Stores a calendar, or replaces it; its jobs follow within a second.

        With `version`, only if that is still current, 0 if there is none yet: raises Outdated.
        """
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        path, body = _calendar(name), write_wire(calendar)
        return await self._connection.call(PutCalendar, "PUT", path, body=body, headers=headers)

    def list(self, *, page: int = PAGE) -> AsyncIterator[answers.Calendar]:
        """All of them by name."""
        return iterate(self._connection, answers.Calendar, "/calendars", page=page)

    async def get(self, name: str, *, year: int | None = None) -> answers.CalendarDetail:
        """A calendar with its days of `year` (default: the current one), and the first jobs that use it."""
        return await self._connection.read(answers.CalendarDetail, _calendar(name), year=year)

    async def delete(self, name: str) -> None:
        """Removes a calendar. Raises Conflict where a job uses it."""
        await self._connection.send("DELETE", _calendar(name))

    async def preview(
        self, name: str, calendar: GivenCalendar, *, year: int | None = None, cursor: str | None = None
    ) -> answers.CalendarPreview:
        """Its days, and a page of the jobs that would fire at other moments; nothing is stored."""
        path, body = f"{_calendar(name)}/preview", write_wire(calendar)
        query = {"year": year, "cursor": cursor}
        return await self._connection.call(answers.CalendarPreview, "POST", path, query=query, body=body)

    async def changes(self, name: str, calendar: GivenCalendar) -> AsyncIterator[answers.ChangedJob]:
        """All jobs that would fire at other moments, from the first change on; nothing is stored."""
        cursor: str | None = None
        while True:
            page = await self.preview(name, calendar, cursor=cursor)
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def read_dates(
        self, text: str, *, kind: Literal["free", "work"] = "free", calendar: GivenCalendar | None = None
    ) -> answers.ReadDates:
        """The days of an iCalendar file, or of a list of dates, added to `calendar`; nothing is stored.

        `kind`: what they are, where the text does not say so. Raises Invalid, with the lines that are wrong.
        """
        body = {"text": text, "as": kind, "calendar": write_wire(calendar or {})}
        return await self._connection.call(answers.ReadDates, "POST", "/dates/read", body=body)


def _calendar(name: str) -> str:
    return f"/calendars/{quote_name('calendar', name)}"
