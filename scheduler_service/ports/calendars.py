"""The table of calendars, which all nodes and processes of a service share."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

Mark = tuple[int, int]
"""Another one after every change of a calendar, by whichever process."""


REMOVED = b"-"
"""Stands before the document of a removed calendar, which is kept: a job may be found that uses it."""


class StoredCalendar(msgspec.Struct, frozen=True, gc=False):
    """A calendar as it lies in the database: `document` is JSON, behind `REMOVED` where it was removed.

    `version` counts its changes. `told`: the version that all jobs that use it have followed. Moments are
    wall ms.
    """

    tenant: str
    name: str
    document: bytes
    version: int
    told: int
    created_at: int
    changed_at: int

    @property
    def is_removed(self) -> bool:
        """Whether there is no such calendar any more."""
        return self.document[:1] == REMOVED


class CalendarTable(Protocol):
    """Calendars of all tenants. All methods raise StoreUnavailable."""

    async def mark(self) -> Mark:
        """Where the table is now; cheap, for who asks several times a second."""

    async def calendars(self) -> tuple[Mark, Sequence[StoredCalendar]]:
        """All calendars, removed ones too, by tenant and name, and the mark of that moment."""

    async def put(
        self, tenant: str, name: str, document: bytes, at: int, *, expected: frozenset[int] | None = None
    ) -> bool:
        """Stores a calendar as its next version, at this moment (wall ms); False: it is at another version.

        `expected`: only where it is at one of these, 0 where there is none or it was removed; None: at any.
        """

    async def restore(self, calendar: StoredCalendar) -> bool:
        """A removed calendar is there again, as its next version; False: it was changed meanwhile.

        Its moment of change stays: its jobs go on as if it had not been removed.
        """

    async def note_told(self, tenant: str, name: str, version: int) -> None:
        """All jobs have followed this version."""
