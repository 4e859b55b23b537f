"""A table of keys in memory, which several rings may share as processes do."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from scheduler_service.domain.keys_and_roles import AccessKey
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import KeyTable, Mark


class MemoryKeys(KeyTable):
    """`ports.shared_tables.KeyTable`; `is_down` makes every call fail. `reads` counts those of all keys."""

    def __init__(self) -> None:
        self.rows: dict[str, AccessKey] = {}
        self.is_down = False
        self.reads = 0
        self.looks = 0
        self.noted: list[Mapping[str, int]] = []

    async def mark(self) -> Mark:
        self._check()
        self.looks += 1
        return len(self.rows), sum(key.version for key in self.rows.values())

    async def keys(self) -> tuple[Mark, Sequence[AccessKey]]:
        self._check()
        self.reads += 1
        return (len(self.rows), sum(key.version for key in self.rows.values())), list(self.rows.values())

    async def add(self, key: AccessKey) -> None:
        self._check()
        if key.key_id in self.rows:
            raise StoreUnavailable("there is such a row")
        self.rows[key.key_id] = key

    async def replace(self, key: AccessKey) -> bool:
        await asyncio.sleep(0)  # others go on meanwhile, as with a database
        self._check()
        if self.rows[key.key_id].version != key.version:
            return False
        self.rows[key.key_id] = replace(key, version=key.version + 1)
        return True

    async def revoke(self, key: AccessKey, beside: AccessKey) -> bool:
        await asyncio.sleep(0)
        self._check()
        if any(self.rows[one.key_id].version != one.version for one in (key, beside)):
            return False
        for one in (key, self.rows[beside.key_id]):
            self.rows[one.key_id] = replace(one, version=one.version + 1)
        return True

    async def note_uses(self, uses: Mapping[str, int]) -> None:
        self._check()
        self.noted.append(dict(uses))
        for key_id, at in uses.items():
            self.rows[key_id] = replace(self.rows[key_id], last_used_at=at)

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("the keys cannot be read")
