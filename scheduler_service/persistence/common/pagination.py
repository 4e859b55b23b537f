"""Pages of lists, and the position where a page ended: a cursor, which is a text that is safe in a URL."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec

from scheduler_service.domain.errors import PunctualError
from scheduler_service.ports.catalogue import CatalogueEntry, JobPage, JobQuery, JobSort

LABELS_BYTES = 4 << 20
"""A page of jobs ends early where their labels have so much as JSON: stores read no more of them."""

PAGE_BYTES = 4 << 20
"""A page of rows that may be large ends early where they have so many bytes; one row it has in any case."""

# Databases take 64 bits; no list has a larger number.
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Kind = TypeVar("Kind")

MEMBERS = {
    JobSort.JOB_ID: "job_id",
    JobSort.JOB_NAME: "job_name",
    JobSort.CREATED_AT: "created_at",
    JobSort.UPDATED_AT: "updated_at",
    JobSort.NEXT_FIRE_TIME: "next_fire",
}
"""The member of an entry, and the column, by which a list is ordered."""


class CursorError(PunctualError):
    """A cursor that this list has not returned."""


def count_fitting(sizes: Iterable[int]) -> int:
    """How many rows of these sizes, from the first on, make a page of PAGE_BYTES."""
    count = size = 0
    for length in sizes:
        size += length
        if count and size > PAGE_BYTES:
            break
        count += 1
    return count


def mark_list(name: str, *filters: object) -> str:
    """What the cursors of a list have in common: its name, and a digest of its filters and its owner.

    Bounds of time are no part of it: a list from an hour ago on may be asked for a minute later.
    """
    return name + hashlib.blake2b(msgspec.msgpack.encode(filters), digest_size=3).hexdigest()


def write_cursor(mark: str, position: object) -> str:
    """`position` (a struct or tuple of texts and numbers) in the list with this mark, as a cursor."""
    text = msgspec.msgpack.encode((mark, position))
    return base64.urlsafe_b64encode(text).decode("ascii").rstrip("=")


def read_cursor(mark: str, cursor: str, kind: type[Kind]) -> Kind:
    """The position that `cursor` names, of the type that the list writes.

    Raises CursorError, also for a cursor of another list or of other filters.
    """
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found, raw = msgspec.msgpack.decode(text, type=tuple[str, msgspec.Raw])
        if found == mark:
            return msgspec.msgpack.decode(raw, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CursorError(
            f"{cursor[:80]!r} is not a cursor of this list; begin again without a cursor"
        ) from error
    raise CursorError(
        f"{cursor[:80]!r} is not a cursor of this list, or not with these filters; "
        "keep the filters while you page, or begin again without a cursor"
    )


class PagePosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last job of a page: its value in the list's order and its id."""

    sort: JobSort
    descending: bool
    value: str | Number | None
    job_id: str


def cut_page(query: JobQuery, entries: Sequence[CatalogueEntry]) -> JobPage:
    """The first page of `entries`: up to the limit, and as many as have LABELS_BYTES of labels.

    The list goes on where there are more entries, or LABELS_BYTES, at which stores end a read.
    """
    size = 0
    for number, entry in enumerate(entries):
        size += weigh_labels(entry.labels)
        if number == query.limit or (number and size > LABELS_BYTES):
            return JobPage(tuple(entries[:number]), write_place(query, entries[number - 1]))
    goes_on = size >= LABELS_BYTES
    return JobPage(tuple(entries), write_place(query, entries[-1]) if goes_on else None)


def weigh_labels(labels: Mapping[str, str]) -> int:
    """The bytes of labels as JSON, as a row has them."""
    return len(msgspec.json.encode(labels))


def write_place(query: JobQuery, last: CatalogueEntry) -> str:
    """The cursor of a page of `query` that ends with this job."""
    position = PagePosition(query.sort, query.descending, value_of(last, query.sort), last.job_id)
    return write_cursor(_mark(query), position)


def value_of(entry: CatalogueEntry, sort: JobSort) -> str | int | None:
    """The value by which the list is ordered."""
    value: str | int | None = getattr(entry, MEMBERS[sort])
    return value


def read_position(query: JobQuery) -> PagePosition | None:
    """The position from which the list goes on; None: it begins. Raises CursorError."""
    if query.cursor is None:
        return None
    position = read_cursor(_mark(query), query.cursor, PagePosition)
    is_same = position.sort is query.sort and position.descending is query.descending
    if not is_same or not _fits(position):
        raise CursorError(
            f"the cursor {query.cursor[:80]!r} belongs to a list in another order; "
            "keep sort and direction while you page, or begin again without a cursor"
        )
    return position


def _mark(query: JobQuery) -> str:
    filters = msgspec.structs.replace(query, sort=JobSort.JOB_ID, descending=False, limit=0, cursor=None)
    return mark_list("jobs", filters)


def _fits(position: PagePosition) -> bool:
    match position.sort:
        case JobSort.JOB_ID | JobSort.JOB_NAME:
            return isinstance(position.value, str)
        case JobSort.NEXT_FIRE_TIME:
            return position.value is None or isinstance(position.value, int)
        case _:
            return isinstance(position.value, int)
