"""What a list of jobs asks of an index, and what it asks of each job."""

from collections.abc import Callable, Sequence

import msgspec

from scheduler_service.persistence.common.pagination import PagePosition, value_of
from scheduler_service.persistence.redis.keys import ORDER_NAMES, UNPLANNED, number, text
from scheduler_service.ports.catalogue import CatalogueEntry, JobQuery, JobSort

_EQUALS = ("kind", "creator", "object_id", "parent_job", "parent_execution", "system")
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class Walk(msgspec.Struct, frozen=True):
    """An order of each shelf. `value`: how many bytes of its members come before the job's id, or "text"."""

    name: str
    value: str


_BY_ID = Walk(ORDER_NAMES[JobSort.JOB_ID], "0")
_UNPLANNED = Walk(UNPLANNED, "0")


def walks(query: JobQuery, place: PagePosition | None) -> Sequence[Walk]:
    """The orders in which a list is read: jobs that have the value, then those that have none."""
    if query.sort is JobSort.JOB_ID:
        return [_BY_ID]
    name = ORDER_NAMES[query.sort]
    having = Walk(name, "text" if query.sort is JobSort.JOB_NAME else "8")
    if query.sort is not JobSort.NEXT_FIRE_TIME:
        return [having]
    return [_UNPLANNED] if place is not None and place.value is None else [having, _UNPLANNED]


def beyond(walk: Walk, place: PagePosition | None, is_back: bool) -> tuple[bytes, bytes]:
    """The ends of a walk that goes on behind `place`."""
    if place is None or (walk is _UNPLANNED and place.value is not None):
        return b"-", b"+"
    mark = b"(" + _front(walk, place) + place.job_id.encode()
    return (b"-", mark) if is_back else (mark, b"+")


def is_wanted(entry: CatalogueEntry, query: JobQuery) -> bool:
    """Whether the list has this job; its tenant and state are its shelf's."""
    for name in _EQUALS:
        value = getattr(query, name)
        if value is not None and getattr(entry, name) != value:
            return False
    if any(entry.labels.get(key) != value for key, value in query.labels):
        return False
    return not query.text or _contains(entry, query.text.translate(_ASCII_LOWER))


def sort_key(sort: JobSort) -> Callable[[CatalogueEntry], tuple[bytes, bytes]]:
    """The order of a walk over several shelves: that of their indexes."""
    if sort is JobSort.JOB_ID:
        return lambda entry: (b"", entry.job_id.encode())

    def key(entry: CatalogueEntry) -> tuple[bytes, bytes]:
        value = value_of(entry, sort)
        return b"" if value is None else _pack(value), entry.job_id.encode()

    return key


def _front(walk: Walk, place: PagePosition) -> bytes:
    if walk.value == "0" or place.value is None:
        return b""
    return _pack(place.value)


def _pack(value: str | int) -> bytes:
    return text(value) if isinstance(value, str) else number(value)


def _contains(entry: CatalogueEntry, wanted: str) -> bool:
    places = (entry.job_id, entry.job_name, entry.object_id or "")
    return any(wanted in place.translate(_ASCII_LOWER) for place in places)
