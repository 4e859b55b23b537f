"""Finds the values of secrets, where a request is sent, and stores those that the API is given."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

Mark = tuple[int, int]
"""Another one after every change of a stored secret, by whichever process."""


class Secrets(Protocol):
    """The secrets of all tenants. Asked on the event loop, just before a request leaves: it never waits."""

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values of the secret `name` of a tenant: one, or two while it is rotated, the first one first.

        Empty: there is none. Never raises.
        """


class StoredSecret(msgspec.Struct, frozen=True, gc=False):
    """A secret as it lies in the database, `sealed` with a key that is not there; empty: it was removed.

    Moments are wall ms.
    """

    tenant: str
    name: str
    sealed: bytes
    created_at: int
    updated_at: int


class SecretTable(Protocol):
    """Stored secrets of all tenants. All methods raise StoreUnavailable."""

    async def mark(self) -> Mark:
        """Where the table is now; cheap, for who asks several times a second."""

    async def secrets(self) -> tuple[Mark, Sequence[StoredSecret]]:
        """All secrets that are not removed, by tenant and name, and the mark of that moment."""

    async def put(self, secret: StoredSecret) -> None:
        """Stores a secret in the place of the one of its name; `created_at` stays where there is one."""
