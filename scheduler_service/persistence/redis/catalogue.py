"""`ports.catalogue.Catalogue` over Redis: indexes are read page by page, other conditions are checked here.

A partition is the jobs of one tenant in one state; a list merges the partitions that it asks for.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import product

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.last_outcomes import read_last_outcome
from scheduler_service.persistence.common.pagination import PagePosition, cut_page, read_position, value_of
from scheduler_service.persistence.redis.encoding import (
    ORDER_NAMES,
    UIDS,
    UNPLANNED,
    children,
    number,
    order,
    read_definition,
    read_entries,
    read_entry,
    read_revision,
    text,
)
from scheduler_service.persistence.redis.reader import Range, Reader
from scheduler_service.ports.catalogue import (
    LONGEST_READ,
    MOST_COUNTED,
    CatalogueEntry,
    JobCounts,
    JobPage,
    JobQuery,
    JobSort,
    JobTally,
    LastOutcome,
    Revision,
    tally_of,
)

BATCH_SIZE = 500
ABREAST = 50
"""So many definitions are asked for at a time."""
STATES = tuple(JobState)
Test = Callable[[CatalogueEntry], bool]


_EQUALS = ("kind", "creator", "object_id", "parent_job", "parent_execution", "system")
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class Walk(msgspec.Struct, frozen=True):
    """An order of each partition. `value`: the bytes of a member before the job's id, or "text"."""

    name: str
    value: str


_BY_ID = Walk(ORDER_NAMES[JobSort.JOB_ID], "0")
_UNPLANNED = Walk(UNPLANNED, "0")


class RedisCatalogue:
    """Over the indexes of the store; the port documents the methods."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def get(self, job_id: str) -> CatalogueEntry | None:
        (row,) = await self._reader.command("HMGET", "jobs", job_id)
        return None if row is None else read_entry(job_id, row)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        found: dict[str, CatalogueEntry] = {}
        for start in range(0, len(job_ids), BATCH_SIZE):
            rows = await self._reader.command("HMGET", "jobs", *job_ids[start : start + BATCH_SIZE])
            entries = read_entries(row for row in rows if row is not None)
            found.update({entry.job_id: entry for entry in entries})
        return found

    async def find(self, uid: str) -> CatalogueEntry | None:
        known = text(uid)
        page = await self._reader.page(Range(UIDS, b"[" + known, b"(" + known + b"\xff"), 1, value="text")
        return next(read_entries(page.rows), None)

    async def list(self, query: JobQuery) -> JobPage:
        place = read_position(query)
        tenants = [query.tenant] if query.tenant is not None else await self._tenants()
        partitions = tuple(product(tenants, query.states or STATES))
        found: list[CatalogueEntry] = []
        for among in _walks(query, place):
            # One job more than the limit: it shows whether the list goes on.
            most = query.limit + 1 - len(found)
            pages = [await self._walk(among, partition, query, place, most) for partition in partitions]
            entries = sorted((one for page in pages for one in page), key=_sort_key(query.sort))
            found += entries[::-1][:most] if query.descending else entries[:most]
            if len(found) > query.limit:
                break
        return cut_page(query, found)

    async def tally(self, query: JobQuery) -> JobTally:
        tenants = [query.tenant] if query.tenant is not None else await self._tenants()
        found: Counter[tuple[JobState, str, LastOutcome]] = Counter()
        for partition in product(tenants, query.states or STATES):
            async for page in self._pages(Range(order(*partition, _BY_ID.name)), BATCH_SIZE):
                found.update(
                    (entry.state, entry.kind, read_last_outcome(entry.latest))
                    for entry in page
                    if _is_wanted(entry, query)
                )
                if found.total() > MOST_COUNTED:
                    break
        rows = [(*key, count) for key, count in found.items()]
        return tally_of(rows, is_capped=found.total() > MOST_COUNTED)

    async def definitions(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        entries = list((await self.some(job_ids)).values())
        texts: dict[str, bytes] = {}
        for start in range(0, len(entries), ABREAST):
            batch = entries[start : start + ABREAST]
            rows = await asyncio.gather(*(self._definition(entry) for entry in batch))
            pairs = zip(batch, rows, strict=True)
            texts.update({entry.job_id: text for entry, text in pairs if text is not None})
        return texts

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        key = f"definitions:{uid}"
        known = sorted(int(name) for name in await self._reader.command("HKEYS", key))
        wanted = [name for name in known if name > after][:limit]
        if not wanted:
            return []
        rows = await self._reader.command("HMGET", key, *wanted)
        pairs = zip(wanted, rows, strict=True)
        return [read_revision(uid, revision, row) for revision, row in pairs if row is not None]

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        wanted = Range(children(parent_job), b"(" + after.encode() if after else b"-")

        def is_child(entry: CatalogueEntry) -> bool:
            return parent_execution is None or entry.parent_execution == parent_execution

        found = await self._collect(wanted, is_child, limit)
        return [msgspec.structs.replace(entry, labels={}) for entry in found]

    async def upcoming(
        self,
        start: int,
        end: int,
        limit: int,
        *,
        tenant: str | None = "default",
        with_labels: bool = True,
    ) -> Sequence[CatalogueEntry]:
        found: list[CatalogueEntry] = []
        name = ORDER_NAMES[JobSort.NEXT_FIRE_TIME]
        for owner, state in product([tenant] if tenant is not None else await self._tenants(), STATES):
            wanted = Range(order(owner, state, name), b"[" + number(start), b"(" + number(end + 1))
            some = await self._collect(wanted, lambda entry: not entry.system, limit, value="8")
            found += some if with_labels else [msgspec.structs.replace(entry, labels={}) for entry in some]
        return sorted(found, key=_sort_key(JobSort.NEXT_FIRE_TIME))[:limit]

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        names = msgspec.msgpack.encode([state.value for state in STATES])
        tenants = msgspec.msgpack.encode([] if tenant is None else [tenant])
        end = b"(" + number(now.wall + 1)
        due, waiting, running, *jobs = await self._reader.script("counts", end, names, tenants)
        by_state = {state: count for state, count in zip(STATES, jobs, strict=True) if count}
        return JobCounts(due=due, waiting=waiting, running=running, by_state=by_state)

    async def _definition(self, entry: CatalogueEntry) -> bytes | None:
        key = f"definitions:{entry.uid}"
        size = await self._reader.command("HSTRLEN", key, entry.revision)
        if size == 0 or size > LONGEST_READ:
            return None
        row = await self._reader.command("HGET", key, entry.revision)
        return None if row is None else read_definition(row)

    async def _tenants(self) -> Sequence[str]:
        return sorted(name.decode() for name in await self._reader.command("SMEMBERS", "tenants"))

    async def _walk(
        self,
        walk: Walk,
        partition: tuple[str, JobState],
        query: JobQuery,
        place: PagePosition | None,
        limit: int,
    ) -> Sequence[CatalogueEntry]:
        first, last = _ends(walk, place, query.descending)
        wanted = Range(order(*partition, walk.name), first, last, query.descending)
        return await self._collect(wanted, lambda entry: _is_wanted(entry, query), limit, value=walk.value)

    async def _collect(
        self, wanted: Range, test: Test, limit: int, *, value: str = "0"
    ) -> Sequence[CatalogueEntry]:
        """Entries of a range that pass `test`, at most `limit`."""
        found: list[CatalogueEntry] = []
        async for entries in self._pages(wanted, min(limit, BATCH_SIZE), value=value):
            found += filter(test, entries)
            if len(found) >= limit:
                break
        return found[:limit]

    async def _pages(
        self, wanted: Range, first: int, *, value: str = "0"
    ) -> AsyncIterator[Iterable[CatalogueEntry]]:
        """The entries of a range, page by page; the first page has `first` members at most."""
        size = first
        while size > 0:
            page = await self._reader.page(wanted, size, value=value)
            yield read_entries(page.rows)
            mark = b"(" + page.last
            wanted = msgspec.structs.replace(wanted, **{"last" if wanted.is_back else "first": mark})
            size = BATCH_SIZE if page.is_full else 0


def _walks(query: JobQuery, place: PagePosition | None) -> Sequence[Walk]:
    """The orders in which a list is read: jobs that have the value, then those that have none."""
    if query.sort is JobSort.JOB_ID:
        return [_BY_ID]
    name = ORDER_NAMES[query.sort]
    having = Walk(name, "text" if query.sort is JobSort.JOB_NAME else "8")
    if query.sort is not JobSort.NEXT_FIRE_TIME:
        return [having]
    return [_UNPLANNED] if place is not None and place.value is None else [having, _UNPLANNED]


def _ends(walk: Walk, place: PagePosition | None, is_back: bool) -> tuple[bytes, bytes]:
    """The range of a walk that goes on after `place`."""
    if place is None or (walk is _UNPLANNED and place.value is not None):
        return b"-", b"+"
    mark = b"(" + _front(walk, place) + place.job_id.encode()
    return (b"-", mark) if is_back else (mark, b"+")


def _is_wanted(entry: CatalogueEntry, query: JobQuery) -> bool:
    """Whether the list has this job; its partition has checked tenant and state."""
    for name in _EQUALS:
        value = getattr(query, name)
        if value is not None and getattr(entry, name) != value:
            return False
    if any(entry.labels.get(key) != value for key, value in query.labels):
        return False
    if query.last_outcome is not None and read_last_outcome(entry.latest) is not query.last_outcome:
        return False
    return not query.text or _contains(entry, query.text.translate(_ASCII_LOWER))


def _sort_key(sort: JobSort) -> Callable[[CatalogueEntry], tuple[bytes, bytes]]:
    """The order of jobs from several partitions: that of their indexes."""
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
    places = (entry.job_id, entry.job_name, entry.object_id or "", entry.creator, *entry.labels.values())
    return any(wanted in place.translate(_ASCII_LOWER) for place in places)
