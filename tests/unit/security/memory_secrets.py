"""Stored secrets in memory."""

from collections.abc import Sequence

from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import Mark, StoredSecret


class MemorySecrets:
    """`ports.shared_tables.SecretTable` in memory, for several vaults."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], StoredSecret] = {}
        self.changes = 0
        self.is_away = False
        self.looks = 0

    async def mark(self) -> Mark:
        self.looks += 1
        return self._mark()

    async def secrets(self) -> tuple[Mark, Sequence[StoredSecret]]:
        return self._mark(), [one for one in self.rows.values() if one.sealed]

    async def put(self, secret: StoredSecret) -> None:
        self.rows[secret.tenant, secret.name] = secret
        self.changes += 1

    def _mark(self) -> Mark:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        return len(self.rows), self.changes
