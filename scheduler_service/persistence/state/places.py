"""The place in a list of jobs where a page ended."""

import msgspec

from scheduler_service.persistence.cursor import CursorError, Number, read_cursor
from scheduler_service.persistence.state.catalogue import JobSort


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last job of a page: its value in the list's order and its id."""

    sort: JobSort
    descending: bool
    value: str | Number | None
    job_id: str


def read_place(cursor: str, *, sort: JobSort, descending: bool) -> Place:
    """The place that `cursor` names in a list of this order. Raises CursorError."""
    place = read_cursor(cursor, Place)
    if place.sort is not sort or place.descending is not descending or not _fits(place):
        raise CursorError(
            f"the cursor {cursor[:80]!r} belongs to a list in another order; "
            "keep sort and direction while you page, or begin again without a cursor"
        )
    return place


def _fits(place: Place) -> bool:
    match place.sort:
        case JobSort.JOB_ID | JobSort.JOB_NAME:
            return isinstance(place.value, str)
        case JobSort.NEXT_FIRE_TIME:
            return place.value is None or isinstance(place.value, int)
        case _:
            return isinstance(place.value, int)
