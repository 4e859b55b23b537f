"""The place in a list of jobs where a page ended: how it is found, written and read."""

from collections.abc import Sequence

import msgspec

from scheduler_service.persistence.common.cursor import CursorError, Number, read_cursor, write_cursor
from scheduler_service.ports.catalogue import CatalogueEntry, JobPage, JobQuery, JobSort

MEMBERS = {
    JobSort.JOB_ID: "job_id",
    JobSort.JOB_NAME: "job_name",
    JobSort.CREATED_AT: "created_at",
    JobSort.UPDATED_AT: "updated_at",
    JobSort.NEXT_FIRE_TIME: "next_fire",
}
"""By what a list is ordered: the member of an entry, and the column of that name."""


class PagePosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last job of a page: its value in the list's order and its id."""

    sort: JobSort
    descending: bool
    value: str | Number | None
    job_id: str


def cut_page(query: JobQuery, entries: Sequence[CatalogueEntry]) -> JobPage:
    """The page at the head of `entries`, in their order; one more than asked tells that the list goes on."""
    items = tuple(entries[: query.limit])
    if len(entries) <= query.limit:
        return JobPage(items=items)
    last = items[-1]
    place = PagePosition(query.sort, query.descending, value_of(last, query.sort), last.job_id)
    return JobPage(items=items, next_cursor=write_cursor(place))


def value_of(entry: CatalogueEntry, sort: JobSort) -> str | int | None:
    """By what the list has this job in its place."""
    value: str | int | None = getattr(entry, MEMBERS[sort])
    return value


def read_position(cursor: str, *, sort: JobSort, descending: bool) -> PagePosition:
    """The place that `cursor` names in a list of this order. Raises CursorError."""
    place = read_cursor(cursor, PagePosition)
    if place.sort is not sort or place.descending is not descending or not _fits(place):
        raise CursorError(
            f"the cursor {cursor[:80]!r} belongs to a list in another order; "
            "keep sort and direction while you page, or begin again without a cursor"
        )
    return place


def _fits(place: PagePosition) -> bool:
    match place.sort:
        case JobSort.JOB_ID | JobSort.JOB_NAME:
            return isinstance(place.value, str)
        case JobSort.NEXT_FIRE_TIME:
            return place.value is None or isinstance(place.value, int)
        case _:
            return isinstance(place.value, int)
