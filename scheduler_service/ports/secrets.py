"""Finds the values of secrets, where a request is sent (SPEC section 14)."""

from typing import Protocol


class Secrets(Protocol):
    """The secrets of all tenants. Asked on the event loop, just before a request leaves: it never waits."""

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values of the secret `name` of a tenant: one, or two while it is rotated, the first one first.

        Empty: there is none. Never raises.
        """
