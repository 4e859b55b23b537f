"""Stored secrets in the memory of a process, and the seal under which they lie in a database."""

import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from scheduler_service.pacing.slices import rest_until_tick
from scheduler_service.pacing.table_follower import Follower
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.shared_tables import Mark, SecretTable, StoredSecret
from scheduler_service.security.secrets import KnownSecret

MOST_SECRETS = 1_000
"""So many secrets one tenant may store."""
KEY_BYTES = 32
_NONCE_BYTES = 12
_FORM = b"\x01"
"""AES-256-GCM over the values in msgpack: this byte, the nonce, what it makes."""


def read_seal_key(text: str) -> bytes:
    """The key in a text. Raises ValueError, which does not repeat it."""
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key is {KEY_BYTES} random bytes in base64, as of: openssl rand -base64 32")
    return key


class Unsealable(Exception):
    """A stored secret is under another key, or was changed in the database."""


class Seal:
    """Seals values under the first of some keys, and opens what was sealed under any of them.

    What is sealed for one tenant and name opens for no other. Raises ImportError without `cryptography`.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._ciphers: tuple[AESGCM, ...] = tuple(map(AESGCM, keys))

    def close(self, tenant: str, name: str, values: tuple[str, ...]) -> bytes:
        """The values, sealed."""
        nonce = os.urandom(_NONCE_BYTES)
        return (
            _FORM + nonce + self._ciphers[0].encrypt(nonce, msgspec.msgpack.encode(values), _of(tenant, name))
        )

    def open(self, secret: StoredSecret) -> tuple[str, ...]:
        """The values of a stored secret. Raises Unsealable."""
        from cryptography.exceptions import InvalidTag

        form, rest = secret.sealed[:1], secret.sealed[1:]
        for cipher in self._ciphers if form == _FORM else ():
            try:
                found = cipher.decrypt(
                    rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _of(secret.tenant, secret.name)
                )
                return msgspec.msgpack.decode(found, type=tuple[str, ...])
            except (InvalidTag, ValueError):
                continue
        raise Unsealable


def _of(tenant: str, name: str) -> bytes:
    return msgspec.msgpack.encode((tenant, name))


class SecretVault(Follower):
    """The stored secrets of all tenants, opened (`security.secrets.Source`).

    What is stored here counts at once, what other processes store within a second. While the table cannot be
    read, the secrets that were read last are valid: `on_trouble` is told why, also where secrets cannot be
    opened, and with None when all is well again. Between two looks it `rests` for so many seconds.
    """

    def __init__(
        self,
        *,
        table: SecretTable,
        seal: Seal,
        clock: Clock,
        on_trouble: Callable[[str | None], None] = lambda _: None,
        rest: Callable[[float], Awaitable[None]] = rest_until_tick,
    ) -> None:
        super().__init__(mark=table.mark, on_trouble=self._tell, rest=rest)
        self._table, self._seal, self._clock = table, seal, clock
        self._tell_trouble = on_trouble
        self._known: Mapping[str, Mapping[str, tuple[StoredSecret, tuple[str, ...]]]] = {}

    async def _read_table(self) -> Mark:
        mark, stored = await self._table.secrets()
        known: dict[str, dict[str, tuple[StoredSecret, tuple[str, ...]]]] = {}
        for one in stored:
            known.setdefault(one.tenant, {})[one.name] = one, self._open(one)
        self._known = known
        self._tell()
        return mark

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values of a secret; none where it cannot be opened."""
        known = self._known.get(tenant, {}).get(name)
        return () if known is None else known[1]

    def values(self, tenant: str) -> Iterable[str]:
        """All values of a tenant."""
        return [value for _, values in self._known.get(tenant, {}).values() for value in values]

    def list(self, tenant: str) -> Iterable[KnownSecret]:
        """The secrets of a tenant, without values; those that cannot be opened have none."""
        for name, (stored, values) in self._known.get(tenant, {}).items():
            yield KnownSecret(name, "stored", len(values), stored.created_at, stored.updated_at)

    def is_full(self, tenant: str, name: str) -> bool:
        """Whether a tenant has as many as it may, and none of this name."""
        known = self._known.get(tenant, {})
        return name not in known and len(known) >= MOST_SECRETS

    async def put(self, tenant: str, name: str, values: tuple[str, ...]) -> None:
        """Stores a secret. Raises StoreUnavailable."""
        await self._put(tenant, name, self._seal.close(tenant, name, values))

    async def remove(self, tenant: str, name: str) -> bool:
        """Removes a secret and what the database has of it; False: there is none. Raises StoreUnavailable."""
        await self.look()
        if name not in self._known.get(tenant, {}):
            return False
        await self._put(tenant, name, b"")
        return True

    async def _put(self, tenant: str, name: str, sealed: bytes) -> None:
        now = self._clock.now().wall
        await self._table.put(StoredSecret(tenant, name, sealed, now, now))
        await self.load()

    def _tell(self, trouble: str | None = None) -> None:
        if trouble is not None:
            self._tell_trouble(trouble)
            return
        sealed = [one for known in self._known.values() for one, values in known.values() if not values]
        text = (
            f"{len(sealed)} stored secrets cannot be opened: secrets_key is not the key they are sealed under"
        )
        self._tell_trouble(text if sealed else None)

    def _open(self, secret: StoredSecret) -> tuple[str, ...]:
        try:
            return self._seal.open(secret)
        except Unsealable:
            return ()
