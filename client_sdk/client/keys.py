"""`client.keys` and `client.secrets`: for callers that are admins (SPEC section 14)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from client_sdk.client.call_retries import Repeat
from client_sdk.client.connection import PAGE, CallGroup, iterate
from client_sdk.client.jobs import write_moment
from client_sdk.id_patterns import quote_name
from client_sdk.models import answers


class Keys(CallGroup):
    """The keys of one scheduler. Every method raises SdkError."""

    async def create(
        self,
        name: str,
        *,
        role: str = "viewer",
        tenant: str | None = None,
        service: str | None = None,
        labels: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
    ) -> answers.MadeKey:
        """A new key; its `key` is shown this once. For one service, or jobs with all of `labels`, alone.

        Where the answer is lost, look into the list before you ask again: each call makes a key.
        """
        given = {
            "name": name,
            "role": role,
            "tenant": tenant,
            "service": service,
            "labels": [f"{label}:{value}" for label, value in (labels or {}).items()] or None,
            "expiresAt": write_moment(expires_at),
        }
        body = {member: value for member, value in given.items() if value is not None}
        return await self._connection.call(answers.MadeKey, "POST", "/keys", body=body, repeat=Repeat.DOUBLE)

    def list(self, *, tenant: str | None = None, page: int = PAGE) -> AsyncIterator[answers.ApiKey]:
        """The keys of a tenant, by default the caller's own, in order of creation; ended ones too."""
        return iterate(self._connection, answers.ApiKey, "/keys", page=page, tenant=tenant)

    async def get(self, key_id: str) -> answers.ApiKey:
        """One key. Raises Absent."""
        return await self._connection.read(answers.ApiKey, _key(key_id))

    async def revoke(self, key_id: str) -> answers.ApiKey:
        """Ends a key for good, within a second at every node. Raises Absent."""
        return await self._connection.call(answers.ApiKey, "DELETE", _key(key_id))

    async def rotate(self, key_id: str, *, overlap_seconds: float = 0) -> answers.MadeKey:
        """Gives a key a new text, `key`; the old one is valid for so long more. Raises Absent, Conflict."""
        body, path = {"overlapSeconds": overlap_seconds}, f"{_key(key_id)}/rotate"
        return await self._connection.call(answers.MadeKey, "POST", path, body=body, repeat=Repeat.DOUBLE)

    async def who_am_i(self) -> answers.Session:
        """What the service knows of this caller: its name, tenant, role, and the part that it sees."""
        return await self._connection.read(answers.Session, "/session")


def _key(key_id: str) -> str:
    return f"/keys/{quote_name('key', key_id)}"


class Secrets(CallGroup):
    """The secrets of the caller's tenant; no value is ever read. Every method raises SdkError."""

    async def set(
        self, name: str, value: str | Sequence[str], *, keep_earlier: bool = False
    ) -> answers.Secret:
        """Stores a secret, or replaces it; it counts at all nodes within a second.

        `value`: a text, or two, the first of which is sent. `keep_earlier`: the value before stays the
        second. Raises Conflict where the service has no `secrets_key`.
        """
        given = value if isinstance(value, str) else list(value)
        body = {"value": given, "keepEarlier": keep_earlier}
        return await self._connection.call(answers.Secret, "PUT", _secret(name), body=body)

    async def list(self) -> list[answers.Secret]:
        """The secrets by name, those of files and settings as well."""
        return (await self._connection.read(answers.SecretList, "/secrets")).items

    async def delete(self, name: str) -> None:
        """Removes a stored secret. Raises Absent."""
        await self._connection.send("DELETE", _secret(name))


def _secret(name: str) -> str:
    return f"/secrets/{quote_name('secret', name)}"
