"""The audit: lines that belong to no turn are written here, and all lines are read."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.audit_acts import AuditEntry

AuditWire = Mapping[str, object]
"""A line as the API shows it."""


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines, newest first; the bounds of time (wall ms) are both included."""

    tenant: str
    since: int | None = None
    until: int | None = None
    who: str | None = None
    key_id: str | None = None
    operation: str | None = None
    job_id: str | None = None
    service: str | None = None
    limit: int = 50
    cursor: str | None = None


class AuditLog(Protocol):
    """All lines of the service or cluster. Everything raises StoreUnavailable."""

    async def put(self, entry: AuditEntry) -> None:
        """Writes a line; one that is there gets the outcome of `entry`, and what is known since."""

    async def drop(self, entry_id: str) -> None:
        """Removes a line that was asked for, where nothing had to be changed."""

    async def page(self, query: AuditQuery) -> tuple[Sequence[AuditWire], str | None]:
        """A page in wire form, and the cursor of the next one. Raises CursorError."""

    async def of_execution(self, tenant: str, uid: str, execute_number: int) -> Sequence[AuditWire]:
        """Who triggered, replayed, cancelled or released it, in order."""
