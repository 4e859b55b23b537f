"""`client.secrets`: what requests are filled in with, for callers that are admins (SPEC section 14)."""

from collections.abc import Sequence

from client_sdk.client.connection import CallGroup
from client_sdk.models import answers
from client_sdk.names import quote_name


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
