"""Pages of a list of jobs, and the position where a page ended."""

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
"""The member of an entry, and the column, by which a list is ordered."""


class PagePosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last job of a page: its value in the list's order and its id."""

    sort: JobSort
    descending: bool
    value: str | Number | None
    job_id: str


def cut_page(query: JobQuery, entries: Sequence[CatalogueEntry]) -> JobPage:
    """The first page of `entries`; one entry more than the limit means that the list goes on."""
    items = tuple(entries[: query.limit])
    if len(entries) <= query.limit:
        return JobPage(items=items)
    last = items[-1]
    position = PagePosition(query.sort, query.descending, value_of(last, query.sort), last.job_id)
    return JobPage(items=items, next_cursor=write_cursor(position))


def value_of(entry: CatalogueEntry, sort: JobSort) -> str | int | None:
    """The value by which the list is ordered."""
    value: str | int | None = getattr(entry, MEMBERS[sort])
    return value


def read_position(cursor: str, *, sort: JobSort, descending: bool) -> PagePosition:
    """The position that `cursor` names in a list of this order. Raises CursorError."""
    position = read_cursor(cursor, PagePosition)
    if position.sort is not sort or position.descending is not descending or not _fits(position):
        raise CursorError(
            f"the cursor {cursor[:80]!r} belongs to a list in another order; "
            "keep sort and direction while you page, or begin again without a cursor"
        )
    return position


def _fits(position: PagePosition) -> bool:
    match position.sort:
        case JobSort.JOB_ID | JobSort.JOB_NAME:
            return isinstance(position.value, str)
        case JobSort.NEXT_FIRE_TIME:
            return position.value is None or isinstance(position.value, int)
        case _:
            return isinstance(position.value, int)
