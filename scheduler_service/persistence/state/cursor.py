"""The place in a list where a page ended, as an opaque text."""

import base64
import binascii

import msgspec

from scheduler_service.persistence.state.catalogue import JobSort
from scheduler_service.persistence.state.errors import CursorError


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last job of a page: its value in the list's order and its id."""

    sort: JobSort
    descending: bool
    value: str | int | None
    job_id: str


_decode = msgspec.msgpack.Decoder(Place).decode


def write_cursor(place: Place) -> str:
    """`place` as text that is safe in a URL."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(place)).decode("ascii").rstrip("=")


def read_cursor(cursor: str, *, sort: JobSort, descending: bool) -> Place:
    """The place that `cursor` names in a list of this order. Raises CursorError."""
    try:
        place = _decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise CursorError(
            f"The cursor {cursor[:80]!r} was not given out by this list. Begin again without a cursor."
        ) from error
    if place.sort is not sort or place.descending is not descending or not _fits(place):
        raise CursorError(
            f"The cursor {cursor[:80]!r} belongs to a list in another order. "
            "Keep sort and direction while you page, or begin again without a cursor."
        )
    return place


def _fits(place: Place) -> bool:
    match place.sort:
        case JobSort.JOB_ID | JobSort.JOB_NAME:
            return isinstance(place.value, str)
        case JobSort.NEXT_FIRE_TIME:
            return place.value is None or _is_moment(place.value)
        case _:
            return _is_moment(place.value)


def _is_moment(value: str | int | None) -> bool:
    # SQLite takes 64 bits; a larger number never stood in a list of ours.
    return isinstance(value, int) and -(2**63) <= value < 2**63
