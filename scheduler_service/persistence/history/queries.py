"""What may be asked of the history, and the cursors by which a list goes on."""

import base64
import binascii

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.execution import ExecutionState, TriggeredBy

Wire = dict[str, object]


class ExecutionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions, newest first. `planned_from` and `planned_to` (wall ms) are both included.

    `job_ids` narrows the answer to these jobs: a filter by label asks the catalogue for them first.
    """

    tenant: str
    job_id: str | None = None
    job_ids: frozenset[str] | None = None
    state: ExecutionState | None = None
    error: str | None = None
    triggered_by: TriggeredBy | None = None
    planned_from: int | None = None
    planned_to: int | None = None
    limit: int = 50
    cursor: str | None = None


class FiringQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the ledger of one life of a job, newest first; both bounds are included."""

    uid: str
    planned_from: int | None = None
    planned_to: int | None = None
    limit: int = 50
    cursor: str | None = None


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries, newest first."""

    tenant: str
    job_id: str | None = None
    job_ids: frozenset[str] | None = None
    state: str | None = None
    event: str | None = None
    limit: int = 50
    cursor: str | None = None


class Page(msgspec.Struct, frozen=True):
    """A part of a list in its wire form, and the cursor of what follows (None: nothing does)."""

    items: list[Wire]
    next_cursor: str | None = None

    def wire(self) -> Wire:
        """The list as the API answers it."""
        return {"items": self.items, "nextCursor": self.next_cursor}


Place = tuple[int, int, str]
_PLACES = msgspec.json.Decoder(Place)


def encode_cursor(place: Place) -> str:
    """A cursor that goes on behind `place`; opaque, safe in a URL."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(cursor: str) -> Place:
    """The place of a cursor. Raises ExpressionError (code `cursor`) for any other text."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place: Place = _PLACES.decode(text)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise _refusal(cursor) from None
    if max(abs(place[0]), abs(place[1])) >= 1 << 63:
        raise _refusal(cursor)
    return place


def _refusal(cursor: str) -> ExpressionError:
    return ExpressionError(f"{cursor[:80]!r} is no cursor of this list; start without one", code="cursor")
