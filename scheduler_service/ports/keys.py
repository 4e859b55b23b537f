"""The table of callers' keys, which all nodes and processes of a service share."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from scheduler_service.domain.access_keys import AccessKey

Mark = tuple[int, int]
"""Another one after every creation and change of a key, by whichever process."""


class KeyTable(Protocol):
    """Keys of all tenants. All methods raise StoreUnavailable."""

    async def mark(self) -> Mark:
        """Where the table is now; cheap, for who asks several times a second."""

    async def keys(self) -> tuple[Mark, Sequence[AccessKey]]:
        """All keys, revoked and expired ones too, in order of creation, and the mark of that moment."""

    async def add(self, key: AccessKey) -> None:
        """Stores a new key."""

    async def replace(self, key: AccessKey) -> bool:
        """Stores a changed key under the next version; False: somebody else has changed it before."""

    async def note_uses(self, uses: Mapping[str, int]) -> None:
        """Notes by id when (wall ms) keys were last used; an earlier moment than the noted one is nothing."""
