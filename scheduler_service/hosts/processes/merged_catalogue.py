"""The catalogues of several shards as one (SPEC section 10)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import itemgetter

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.hosts.processes.fan_out import accept, all_of, one_of, settle
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.persistence.common.pagination import cut_page, value_of
from scheduler_service.ports.catalogue import (
    Catalogue,
    CatalogueEntry,
    JobCounts,
    JobPage,
    JobQuery,
    JobTally,
    Revision,
)
from scheduler_service.ports.errors import StoreUnavailable

COUNT_SECONDS = 2.0
"""So long a process has for its figures."""


class MergedCatalogue:
    """`ports.catalogue.Catalogue` over those of all shards, by number.

    Where a shard does not answer, a list fails: it is never shorter than it should be.
    """

    def __init__(self, *, catalogues: Sequence[Catalogue], shard_of: ShardOf) -> None:
        self._catalogues = catalogues
        self._shard_of = shard_of

    async def get(self, job_id: str) -> CatalogueEntry | None:
        return await self._catalogues[self._shard_of(job_id)].get(job_id)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """The entries of those `job_ids` that exist, destroyed ones too. Raises StoreUnavailable."""
        answers = await all_of([catalogue.some(ids) for catalogue, ids in self._split(job_ids)])
        return {job_id: entry for found in answers for job_id, entry in found.items()}

    async def find(self, uid: str) -> CatalogueEntry | None:
        """The entry of the job whose present life is `uid`, or None. Raises StoreUnavailable."""
        return await one_of([catalogue.find(uid) for catalogue in self._catalogues])

    async def list(self, query: JobQuery) -> JobPage:
        pages = await all_of([catalogue.list(query) for catalogue in self._catalogues])
        filled = [page for page in pages if page.items]
        if len(filled) <= 1:
            return filled[0] if filled else JobPage(items=())
        entries = _arrange(query, (entry for page in filled for entry in page.items))
        # A shard whose page ended early may have more jobs behind it that belong before those of others.
        ends = {page.items[-1].job_id for page in filled if page.next_cursor is not None}
        end = next((number for number, one in enumerate(entries, 1) if one.job_id in ends), len(entries))
        return cut_page(query, entries[:end], has_more=bool(ends))

    async def tally(self, query: JobQuery) -> JobTally:
        """How many jobs fit. Raises StoreUnavailable."""
        return reduce(JobTally.add, await all_of([catalogue.tally(query) for catalogue in self._catalogues]))

    async def definitions(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        """The present definitions. Raises StoreUnavailable."""
        answers = await all_of([catalogue.definitions(ids) for catalogue, ids in self._split(job_ids)])
        return {job_id: text for found in answers for job_id, text in found.items()}

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        calls = [catalogue.revisions(uid, after=after, limit=limit) for catalogue in self._catalogues]
        return await one_of(calls)

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        """Jobs made by an execution (None: by any) of `parent_job`, destroyed ones too, by id."""
        answers = await all_of(
            [
                catalogue.children(parent_job, parent_execution, after=after, limit=limit)
                for catalogue in self._catalogues
            ]
        )
        return sorted((entry for found in answers for entry in found), key=_by_id)[:limit]

    async def upcoming(
        self,
        start: int,
        end: int,
        limit: int,
        *,
        tenant: str | None = "default",
        with_labels: bool = True,
    ) -> Sequence[CatalogueEntry]:
        answers = await all_of(
            [
                catalogue.upcoming(start, end, limit, tenant=tenant, with_labels=with_labels)
                for catalogue in self._catalogues
            ]
        )
        found = (entry for some in answers for entry in some)
        return sorted(found, key=lambda entry: (entry.next_fire or 0, entry.job_id))[:limit]

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        """How many jobs and executions are in which state; a shard that does not answer is `missing`.

        Raises StoreUnavailable where none answers.
        """
        found = await settle([_count(catalogue, now, tenant) for catalogue in self._catalogues])
        answers = [one for one in found if isinstance(one, JobCounts)]
        if not answers:
            accept(found)
        missing = [number for number, one in enumerate(found) if not isinstance(one, JobCounts)]
        states: dict[JobState, int] = {}
        for counts in answers:
            for state, count in counts.by_state.items():
                states[state] = states.get(state, 0) + count
        return JobCounts(
            due=sum(counts.due for counts in answers),
            waiting=sum(counts.waiting for counts in answers),
            running=sum(counts.running for counts in answers),
            by_state=states,
            missing=tuple(f"worker process {number}" for number in missing),
        )

    def _split(self, job_ids: Sequence[str]) -> Sequence[tuple[Catalogue, Sequence[str]]]:
        """Each catalogue with those of `job_ids` that are its own."""
        shards: dict[int, list[str]] = {}
        for job_id in job_ids:
            shards.setdefault(self._shard_of(job_id), []).append(job_id)
        return [(self._catalogues[number], ids) for number, ids in shards.items()]


async def _count(catalogue: Catalogue, now: Now, tenant: str | None) -> JobCounts:
    """Figures are wanted most where a process stands still: it is not waited for as a turn is."""
    try:
        async with asyncio.timeout(COUNT_SECONDS):
            return await catalogue.counts(now, tenant=tenant)
    except TimeoutError as error:
        raise StoreUnavailable("its figures were not there in time") from error


def _arrange(query: JobQuery, entries: Iterable[CatalogueEntry]) -> Sequence[CatalogueEntry]:
    """The order of a list: by the value, then by id; jobs without a value come last.

    Texts are ordered by code points, which is the order of their bytes in UTF-8, and so that of each shard.
    """
    with_value, without = [], []
    for entry in entries:
        value = value_of(entry, query.sort)
        if value is None:
            without.append(entry)
        else:
            with_value.append((value, entry.job_id, entry))
    with_value.sort(key=itemgetter(0, 1), reverse=query.descending)
    return [entry for *_, entry in with_value] + sorted(without, key=_by_id, reverse=query.descending)


def _by_id(entry: CatalogueEntry) -> str:
    return entry.job_id
