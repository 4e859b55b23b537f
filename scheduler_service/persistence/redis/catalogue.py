"""The catalogue's reads over Redis: indexes are walked page by page, the rest is filtered here.

A shelf is the jobs of one tenant in one state; a list merges the shelves that it asks for.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.pagination import PagePosition, cut_page, read_position
from scheduler_service.persistence.redis.filtering import Walk, beyond, is_wanted, sort_key, walks
from scheduler_service.persistence.redis.keys import ORDER_NAMES, UIDS, children, number, order, text
from scheduler_service.persistence.redis.reader import Range, Reader
from scheduler_service.persistence.redis.rows import read_entry, read_revision
from scheduler_service.ports.catalogue import CatalogueEntry, JobCounts, JobPage, JobQuery, JobSort, Revision

AT_ONCE = 500
STATES = tuple(JobState)
Test = Callable[[CatalogueEntry], bool]


class RedisCatalogue:
    """state.catalogue.Catalogue over the indexes of the store."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """The entry, of a destroyed job too, or None. Raises StoreUnavailable."""
        return (await self.some([job_id])).get(job_id)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """The entries of those of `job_ids` that there are, destroyed ones too. Raises StoreUnavailable."""
        found: dict[str, CatalogueEntry] = {}
        for start in range(0, len(job_ids), AT_ONCE):
            rows = await self._reader.command("HMGET", "jobs", *job_ids[start : start + AT_ONCE])
            entries = [read_entry(row) for row in rows if row is not None]
            found.update({entry.job_id: entry for entry in entries})
        return found

    async def find(self, uid: str) -> CatalogueEntry | None:
        """The entry of the job whose present life is `uid`, or None. Raises StoreUnavailable."""
        known = text(uid)
        page = await self._reader.page(Range(UIDS, b"[" + known, b"(" + known + b"\xff"), 1, value="text")
        return read_entry(page.rows[0]) if page.rows else None

    async def list(self, query: JobQuery) -> JobPage:
        """A page of jobs. Raises CursorError for a cursor of another list, StoreUnavailable."""
        place = None
        if query.cursor is not None:
            place = read_position(query.cursor, sort=query.sort, descending=query.descending)
        tenants = [query.tenant] if query.tenant is not None else await self._tenants()
        shelves = tuple(product(tenants, query.states or STATES))
        found: list[CatalogueEntry] = []
        for among in walks(query, place):
            # One job more than asked tells whether the list goes on.
            most = query.limit + 1 - len(found)
            pages = [await self._walk(among, shelf, query, place, most) for shelf in shelves]
            entries = sorted((one for page in pages for one in page), key=sort_key(query.sort))
            found += entries[::-1][:most] if query.descending else entries[:most]
            if len(found) > query.limit:
                break
        return cut_page(query, found)

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        """Definitions of one life with a revision above `after`, in order. Raises StoreUnavailable."""
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
        """Jobs made by an execution (None: by any) of `parent_job`, destroyed ones too, by id."""
        wanted = Range(children(parent_job), b"(" + after.encode() if after else b"-")

        def is_child(entry: CatalogueEntry) -> bool:
            return parent_execution is None or entry.parent_execution == parent_execution

        return await self._collect(wanted, is_child, limit)

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None = "default"
    ) -> Sequence[CatalogueEntry]:
        """Ordinary jobs that fire next in `start` to `end` (wall, both included), earliest first."""
        found: list[CatalogueEntry] = []
        name = ORDER_NAMES[JobSort.NEXT_FIRE_TIME]
        for owner, state in product([tenant] if tenant is not None else await self._tenants(), STATES):
            wanted = Range(order(owner, state, name), b"[" + number(start), b"(" + number(end + 1))
            found += await self._collect(wanted, lambda entry: not entry.system, limit, value="8")
        return sorted(found, key=sort_key(JobSort.NEXT_FIRE_TIME))[:limit]

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        """How many jobs and executions stand where. Raises StoreUnavailable."""
        names = msgspec.msgpack.encode([state.value for state in STATES])
        tenants = msgspec.msgpack.encode([] if tenant is None else [tenant])
        end = b"(" + number(now.wall + 1)
        due, waiting, running, *jobs = await self._reader.script("counts", end, names, tenants)
        by_state = {state: count for state, count in zip(STATES, jobs, strict=True) if count}
        return JobCounts(due=due, waiting=waiting, running=running, by_state=by_state)

    async def _tenants(self) -> Sequence[str]:
        return sorted(name.decode() for name in await self._reader.command("SMEMBERS", "tenants"))

    async def _walk(
        self, walk: Walk, shelf: tuple[str, JobState], query: JobQuery, place: PagePosition | None, limit: int
    ) -> Sequence[CatalogueEntry]:
        first, last = beyond(walk, place, query.descending)
        wanted = Range(order(*shelf, walk.name), first, last, query.descending)
        return await self._collect(wanted, lambda entry: is_wanted(entry, query), limit, value=walk.value)

    async def _collect(
        self, wanted: Range, test: Test, limit: int, *, value: str = "0"
    ) -> Sequence[CatalogueEntry]:
        """Entries of a range that pass `test`, at most `limit`."""
        found: list[CatalogueEntry] = []
        while len(found) < limit:
            page = await self._reader.page(wanted, AT_ONCE if found else min(limit, AT_ONCE), value=value)
            found += filter(test, map(read_entry, page.rows))
            if not page.is_full:
                break
            mark = b"(" + page.last
            wanted = msgspec.structs.replace(wanted, **{"last" if wanted.is_back else "first": mark})
        return found[:limit]
