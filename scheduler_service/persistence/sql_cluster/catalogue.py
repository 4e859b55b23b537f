"""The catalogue's reads over the shared table."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.pagination import PagePosition, cut_page, read_position
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.rows import ENTRY, read_entry
from scheduler_service.persistence.sql_cluster.schema import definitions, jobs
from scheduler_service.ports.catalogue import CatalogueEntry, JobCounts, JobPage, JobQuery, JobSort, Revision

_COLUMNS: dict[JobSort, sa.Column[Any]] = {
    JobSort.JOB_ID: jobs.c.job_id,
    JobSort.JOB_NAME: jobs.c.job_name,
    JobSort.CREATED_AT: jobs.c.created_at,
    JobSort.UPDATED_AT: jobs.c.updated_at,
    JobSort.NEXT_FIRE_TIME: jobs.c.next_fire,
}
AT_ONCE = 500
Condition = sa.ColumnElement[bool]
Selection = sa.Select[Any]


class SharedCatalogue:
    """state.catalogue.Catalogue over the shared database."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """The entry, of a destroyed job too, or None. Raises StoreUnavailable."""
        return await self._first(sa.select(*ENTRY).where(jobs.c.job_id == job_id))

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """The entries of those of `job_ids` that there are, destroyed ones too. Raises StoreUnavailable."""
        found: dict[str, CatalogueEntry] = {}
        for start in range(0, len(job_ids), AT_ONCE):
            wanted = sa.select(*ENTRY).where(jobs.c.job_id.in_(job_ids[start : start + AT_ONCE]))
            found.update({entry.job_id: entry for entry in await self._entries(wanted)})
        return found

    async def find(self, uid: str) -> CatalogueEntry | None:
        """The entry of the job whose present life is `uid`, or None. Raises StoreUnavailable."""
        return await self._first(sa.select(*ENTRY).where(jobs.c.uid == uid).limit(1))

    async def list(self, query: JobQuery) -> JobPage:
        """A page of jobs. Raises CursorError for a cursor of another list, StoreUnavailable."""
        selection = sa.select(*ENTRY).where(*self._filters(query)).limit(query.limit + 1)
        return cut_page(query, await self._entries(_ordered(selection, query)))

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        """Definitions of one life with a revision above `after`, in order. Raises StoreUnavailable."""
        table = definitions.c
        selection = (
            sa.select(table.uid, table.job_id, table.revision, table.created_at, table.text)
            .where(table.uid == uid, table.revision > after)
            .order_by(table.revision)
            .limit(limit)
        )
        rows = await self._database.read(lambda connection: connection.execute(selection).all())
        return [Revision(row[0], row[1], row[2], row[3], bytes(row[4])) for row in rows]

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        """Jobs made by an execution (None: by any) of `parent_job`, destroyed ones too, by id."""
        selection = sa.select(*ENTRY).where(jobs.c.parent_job == parent_job, jobs.c.job_id > after)
        if parent_execution is not None:
            selection = selection.where(jobs.c.parent_execution == parent_execution)
        return await self._entries(selection.order_by(jobs.c.job_id).limit(limit))

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None = "default"
    ) -> Sequence[CatalogueEntry]:
        """Ordinary jobs that fire next in `start` to `end` (wall, both included), earliest first."""
        selection = sa.select(*ENTRY).where(
            jobs.c.next_fire.between(start, end), jobs.c.system == 0, *_of_tenant(tenant)
        )
        return await self._entries(selection.order_by(jobs.c.next_fire, jobs.c.job_id).limit(limit))

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        """How many jobs and executions stand where. Raises StoreUnavailable."""
        own = _of_tenant(tenant)
        states = sa.select(jobs.c.state, sa.func.count()).where(*own).group_by(jobs.c.state)
        due = sa.select(sa.func.count()).where(jobs.c.next_fire <= now.wall, *own)
        sums = sa.select(sa.func.sum(jobs.c.waiting), sa.func.sum(jobs.c.live)).where(*own)

        def read(connection: sa.Connection) -> JobCounts:
            waiting, running = connection.execute(sums).one()
            return JobCounts(
                due=connection.execute(due).scalar_one(),
                waiting=int(waiting or 0),
                running=int(running or 0),
                by_state={JobState(state): count for state, count in connection.execute(states)},
            )

        return await self._database.read(read)

    async def _first(self, selection: Selection) -> CatalogueEntry | None:
        return next(iter(await self._entries(selection)), None)

    async def _entries(self, selection: Selection) -> Sequence[CatalogueEntry]:
        rows = await self._database.read(lambda connection: connection.execute(selection).all())
        return [read_entry(row) for row in rows]

    def _filters(self, query: JobQuery) -> Sequence[Condition]:
        wanted = _of_tenant(query.tenant)
        if query.states:
            wanted.append(jobs.c.state.in_([state.value for state in query.states]))
        for column in ("kind", "creator", "object_id", "parent_job", "parent_execution"):
            value = getattr(query, column)
            if value is not None:
                wanted.append(jobs.c[column] == value)
        if query.system is not None:
            wanted.append(jobs.c.system == int(query.system))
        wanted.extend(self._label(key, value) for key, value in query.labels)
        if query.text:
            wanted.append(_containing(query.text))
        return wanted

    def _label(self, key: str, value: str) -> Condition:
        if self._database.dialect == "postgresql":
            wanted = msgspec.json.encode({key: value}).decode()
            return sa.text("CAST(jobs.labels AS jsonb) @> CAST(:wanted AS jsonb)").bindparams(
                sa.bindparam("wanted", wanted, unique=True)
            )  # type: ignore[return-value]
        found = sa.func.json_each(jobs.c.labels).table_valued("key", "value").alias()
        return sa.exists(sa.select(1).select_from(found).where(found.c.key == key, found.c.value == value))


def _ordered(selection: Selection, query: JobQuery) -> Selection:
    """In the query's order and behind its cursor; jobs without the value come last."""
    column, last = _COLUMNS[query.sort], jobs.c.job_id
    way = sa.desc if query.descending else sa.asc
    place = None
    if query.cursor is not None:
        place = read_position(query.cursor, sort=query.sort, descending=query.descending)
    if place is not None:
        selection = selection.where(_beyond(column, place, query.descending))
    if query.sort is JobSort.JOB_ID:
        return selection.order_by(way(last))
    return selection.order_by(column.is_(None), way(column), way(last))


def _beyond(column: sa.Column[Any], place: PagePosition, descending: bool) -> Condition:
    last = jobs.c.job_id
    behind = last < place.job_id if descending else last > place.job_id
    if place.sort is JobSort.JOB_ID:
        return behind
    if place.value is None:
        return column.is_(None) & behind
    pair = sa.tuple_(column, last)
    mark = sa.tuple_(sa.literal(place.value), sa.literal(place.job_id))
    return column.is_(None) | (pair < mark if descending else pair > mark)


def _containing(text: str) -> Condition:
    pattern = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    columns = (jobs.c.job_id, jobs.c.job_name, jobs.c.object_id)
    return sa.or_(*(column.ilike(pattern, escape="\\") for column in columns))


def _of_tenant(tenant: str | None) -> list[Condition]:
    return [] if tenant is None else [jobs.c.tenant == tenant]
