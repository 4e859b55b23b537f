"""Room for declarations: how many bytes of them are kept, whatever many services declare."""

from scheduler_service.domain.errors import PunctualError
from scheduler_service.ports.log import Log
from scheduler_service.ports.services import ServiceTable

DECLARED_BYTES = 16 << 20
EMPTY_BYTES = len(b"[]")


class DeclarationsFull(PunctualError):
    """A declaration that is refused, as all of them together would be too large; nothing has changed."""

    def __init__(self, *, size: int, others: int, most: int) -> None:
        super().__init__(
            f"these timers take {size:,} bytes and those of the other services {others:,}, together more "
            f"than {most:,}; declare fewer or smaller ones, remove services that nobody needs (DELETE "
            "/services/{name}), or raise services.declared_bytes"
        )


class DeclaredRoom:
    """At most `most` bytes of definitions, as stored, are declared by all services of the table together.

    Nodes that share the table and take declarations at the same moment may exceed it by these.
    """

    def __init__(self, *, table: ServiceTable, most: int = DECLARED_BYTES) -> None:
        self._table = table
        self._most = most

    async def check(self, tenant: str, name: str, size: int) -> None:
        """Returns where the service may declare `size` bytes: also where it declared no less before.

        Raises DeclarationsFull, StoreUnavailable.
        """
        if size <= EMPTY_BYTES:
            return
        own, all_ = await self._table.declared_bytes(tenant, name)
        if size > own and all_ - own + size > self._most:
            raise DeclarationsFull(size=size, others=all_ - own, most=self._most)

    async def report(self, log: Log) -> None:
        """Says in the log where more is declared than there is room for. Raises StoreUnavailable."""
        _, all_ = await self._table.declared_bytes("", "")
        if all_ > self._most:
            log("declarations_exceeded", bytes=all_, limit=self._most)
