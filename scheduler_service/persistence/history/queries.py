"""Queries of the history, and the positions where its pages end."""

import msgspec

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.persistence.common.pagination import Number, mark_list

Wire = dict[str, object]


class ExecutionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions, newest first. `planned_from` and `planned_to` (wall ms) are both included.

    `job_ids` restricts the result to these jobs: for a filter by `labels` they come from the catalogue.
    """

    tenant: str
    job_id: str | None = None
    job_ids: frozenset[str] | None = None
    state: ExecutionState | None = None
    error: str | None = None
    triggered_by: TriggeredBy | None = None
    planned_from: int | None = None
    planned_to: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    limit: int = 50
    cursor: str | None = None

    @property
    def mark(self) -> str:
        """That of its cursors. Jobs that get a label between two pages do not change it."""
        asked = (self.job_id, self.labels, self.state, self.error, self.triggered_by)
        return mark_list("executions", self.tenant, *asked)


class SeriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Buckets of `width` ms, a multiple of SLOT, from `first` (wall ms, a multiple of `width`) to `last`.

    `executions` says of which executions; its own span of time is not looked at.
    """

    executions: ExecutionQuery
    first: int
    last: int
    width: int


class FiringQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the ledger of one life of a job, newest first; both bounds are included."""

    uid: str
    planned_from: int | None = None
    planned_to: int | None = None
    limit: int = 50
    cursor: str | None = None

    @property
    def mark(self) -> str:
        """That of its cursors."""
        return mark_list("firings", self.uid)


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries, newest first."""

    tenant: str
    job_id: str | None = None
    job_ids: frozenset[str] | None = None
    state: str | None = None
    event: str | None = None
    limit: int = 50
    cursor: str | None = None

    @property
    def mark(self) -> str:
        """That of its cursors."""
        return mark_list("deliveries", self.tenant, self.job_id, self.state, self.event)


class Page(msgspec.Struct, frozen=True):
    """A part of a list in its wire form, and the cursor of what follows (None: nothing does)."""

    items: list[Wire]
    next_cursor: str | None = None

    def wire(self) -> Wire:
        """The list as the API returns it."""
        return {"items": self.items, "nextCursor": self.next_cursor}


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last row of a page: its moment, its number and its name, as the list is ordered."""

    moment: Number
    number: Number
    name: str
