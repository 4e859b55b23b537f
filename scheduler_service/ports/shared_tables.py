"""Small tables that all processes of a service share: keys of callers, stored secrets and calendars."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.keys_and_roles import AccessKey

Mark = tuple[int, int]
"""Another one after every creation and change in the table, by whichever process."""


class SharedTable(Protocol):
    """A table of all tenants. All methods of it and of the following raise StoreUnavailable."""

    async def mark(self) -> Mark:
        """Where the table is now; cheap, for who asks several times a second."""


class KeyTable(SharedTable, Protocol):
    """Keys of all tenants."""

    async def keys(self) -> tuple[Mark, Sequence[AccessKey]]:
        """All keys, revoked and expired ones too, in order of creation, and the mark of that moment."""

    async def add(self, key: AccessKey) -> None:
        """Stores a new key."""

    async def replace(self, key: AccessKey) -> bool:
        """Stores a changed key under the next version; False: somebody else has changed it before."""

    async def revoke(self, key: AccessKey, beside: AccessKey) -> bool:
        """Stores the end of a key where neither it nor `beside`, for which that one stays, has been changed.

        Both have the next version then, so that of two that are there for each other one stays. False: one
        of them has been changed before.
        """

    async def note_uses(self, uses: Mapping[str, int]) -> None:
        """Notes by id when (wall ms) keys were last used; an earlier moment than the noted one is nothing."""


class StoredSecret(msgspec.Struct, frozen=True, gc=False):
    """A secret as it lies in the database, `sealed` with a key that is not there; empty: it was removed.

    Moments are wall ms.
    """

    tenant: str
    name: str
    sealed: bytes
    created_at: int
    updated_at: int


class SecretTable(SharedTable, Protocol):
    """Stored secrets of all tenants."""

    async def secrets(self) -> tuple[Mark, Sequence[StoredSecret]]:
        """All secrets that are not removed, by tenant and name, and the mark of that moment."""

    async def put(self, secret: StoredSecret) -> None:
        """Stores a secret in the place of the one of its name; `created_at` stays where there is one."""


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


class CalendarTable(SharedTable, Protocol):
    """Calendars of all tenants."""

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
