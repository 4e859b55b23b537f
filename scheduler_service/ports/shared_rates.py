"""What the nodes of a cluster keep in common of a rate limit. Everything here raises StoreError."""

from typing import Protocol

import msgspec


class RatePage(msgspec.Struct, frozen=True):
    """What was written last of one limit; `number` is that of the writing, 0: nothing was written yet."""

    content: bytes = b""
    number: int = 0


class SharedRates(Protocol):
    """One page for each service (tenant, name) whose limit was asked for."""

    async def read(self, tenant: str, service: str) -> RatePage:
        """The latest page. Raises StoreUnavailable."""

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        """Writes `page.content` over the page with `page.number`; False: another one was written meanwhile.

        Raises StoreUnavailable, and StoreUncertain where it may have been written.
        """
