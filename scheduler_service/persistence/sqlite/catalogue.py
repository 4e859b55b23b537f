"""The catalogue's reads over SQLite, in the lister's thread."""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.pagination import MEMBERS, cut_page, read_position
from scheduler_service.persistence.sqlite.reader import Reader
from scheduler_service.persistence.sqlite.rows import ENTRY, read_entry, select
from scheduler_service.ports.catalogue import CatalogueEntry, JobCounts, JobPage, JobQuery, JobSort, Revision
from scheduler_service.ports.state import StoredJob

AT_ONCE = 500

# One step of a page: conditions on top of the query's, and an order.
Leg = tuple[list[str], list[Any], str]


class SqliteCatalogue:
    """catalogue.Catalogue over the jobs' table.

    `catch_up` ends when the table has all that was durable before; `find` gives a job of which the table may
    know less.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        catch_up: Callable[[], Awaitable[None]],
        find: Callable[[str], StoredJob | None],
    ) -> None:
        self._reader = reader
        self._catch_up = catch_up
        self._find = find

    async def get(self, job_id: str) -> CatalogueEntry | None:
        """The entry, of a destroyed job too, or None. Raises StoreUnavailable."""
        found = self._find(job_id)
        if found is not None:
            return found.entry
        return next(iter(await self._read_entries("jobs WHERE job_id = ?", job_id)), None)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        """The entries of those of `job_ids` that there are, destroyed ones too. Raises StoreUnavailable."""
        found: dict[str, CatalogueEntry] = {}
        for start in range(0, len(job_ids), AT_ONCE):
            wanted = msgspec.json.encode(job_ids[start : start + AT_ONCE]).decode()
            source = "jobs WHERE job_id IN (SELECT value FROM json_each(?))"
            found.update({entry.job_id: entry for entry in await self._read_entries(source, wanted)})
        newer = {job_id: stored.entry for job_id in found if (stored := self._find(job_id)) is not None}
        found.update(newer)
        return found

    async def find(self, uid: str) -> CatalogueEntry | None:
        """The entry of the job whose present life is `uid`, or None. Raises StoreUnavailable."""
        return next(iter(await self._entries("jobs WHERE uid = ? LIMIT 1", uid)), None)

    async def list(self, query: JobQuery) -> JobPage:
        """A page of jobs. Raises CursorError for a cursor of another list, StoreUnavailable."""
        legs = _legs(query)
        conditions, parameters = _filters(query)

        def read(connection: sqlite3.Connection) -> Sequence[Any]:
            rows: list[Any] = []
            for more, values, order in legs:
                where = " AND ".join([*conditions, *more]) or "TRUE"
                # One job more than asked tells whether the list goes on.
                limit = query.limit + 1 - len(rows)
                source = f"jobs WHERE {where} ORDER BY {order} LIMIT ?"
                rows += select(connection, ENTRY, source, [*parameters, *values, limit])
                if len(rows) > query.limit:
                    break
            return rows

        await self._catch_up()
        return cut_page(query, [read_entry(row) for row in await self._reader.read(read)])

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        """Definitions of one life with a revision above `after`, in order. Raises StoreUnavailable."""
        columns = "uid, job_id, revision, created_at, hex(text)"
        source = "definitions WHERE uid = ? AND revision > ? ORDER BY revision LIMIT ?"
        rows = await self._select(columns, source, uid, after, limit)
        return [_read_revision(row) for row in rows]

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        """Jobs made by an execution (None: by any) of `parent_job`, destroyed ones too, by id."""
        if parent_execution is None:
            source = "jobs WHERE parent_job = ? AND job_id > ? ORDER BY job_id LIMIT ?"
            return await self._entries(source, parent_job, after, limit)
        source = "jobs WHERE parent_job = ? AND parent_execution = ? AND job_id > ? ORDER BY job_id LIMIT ?"
        return await self._entries(source, parent_job, parent_execution, after, limit)

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None = "default"
    ) -> Sequence[CatalogueEntry]:
        """Ordinary jobs that fire next in `start` to `end` (wall, both included), earliest first."""
        condition, parameters = _of_tenant(tenant)
        # The plus, here and below, leaves the choice of the index to the other condition.
        wanted = f"next_fire BETWEEN ? AND ? AND +system = 0 AND +({condition})"
        source = f"jobs WHERE {wanted} ORDER BY next_fire, job_id LIMIT ?"
        return await self._entries(source, start, end, *parameters, limit)

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        """How many jobs and executions stand where. Raises StoreUnavailable."""
        condition, parameters = _of_tenant(tenant)

        def read(connection: sqlite3.Connection) -> JobCounts:
            def ask(columns: str, source: str, *values: Any) -> Sequence[Any]:
                return select(connection, columns, f"{source} AND +({condition})", [*values, *parameters])

            # The index of states begins with the tenant: grouped by both, it is read in its order.
            source = f"jobs WHERE {condition} GROUP BY tenant, state"
            states: dict[JobState, int] = {}
            for state, count in select(connection, "state, count(*)", source, parameters):
                states[JobState(state)] = states.get(JobState(state), 0) + count
            return JobCounts(
                due=ask("count(*)", "jobs WHERE next_fire <= ?", now.wall)[0][0],
                waiting=ask("ifnull(sum(waiting), 0)", "jobs WHERE waiting > 0")[0][0],
                running=ask("ifnull(sum(live), 0)", "jobs WHERE live > 0")[0][0],
                by_state=states,
            )

        await self._catch_up()
        return await self._reader.read(read)

    async def _entries(self, source: str, *parameters: Any) -> Sequence[CatalogueEntry]:
        await self._catch_up()
        return await self._read_entries(source, *parameters)

    async def _read_entries(self, source: str, *parameters: Any) -> Sequence[CatalogueEntry]:
        return [read_entry(row) for row in await self._select(ENTRY, source, *parameters)]

    async def _select(self, columns: str, source: str, *parameters: Any) -> Sequence[Any]:
        return await self._reader.read(lambda connection: select(connection, columns, source, parameters))


def _read_revision(row: list[Any]) -> Revision:
    uid, job_id, revision, created_at, text = row
    return Revision(uid, job_id, revision, created_at, bytes.fromhex(text))


def _legs(query: JobQuery) -> list[Leg]:
    """The steps in which a page is read: jobs that have the value, then those that have none."""
    column, way = MEMBERS[query.sort], "DESC" if query.descending else "ASC"
    beyond = "<" if query.descending else ">"
    place = None
    if query.cursor is not None:
        place = read_position(query.cursor, sort=query.sort, descending=query.descending)
    if query.sort is JobSort.JOB_ID:
        return [([f"job_id {beyond} ?"] if place else [], [place.job_id] if place else [], f"job_id {way}")]
    order = f"{column} {way}, job_id {way}"
    having: Leg = ([f"{column} IS NOT NULL"], [], order)
    if place is not None and place.value is not None:
        having = (
            [f"{column} IS NOT NULL", f"({column}, job_id) {beyond} (?, ?)"],
            [place.value, place.job_id],
            order,
        )
    if query.sort is not JobSort.NEXT_FIRE_TIME:
        return [having]
    if place is not None and place.value is None:
        return [(["next_fire IS NULL", f"job_id {beyond} ?"], [place.job_id], f"job_id {way}")]
    return [having, (["next_fire IS NULL"], [], f"job_id {way}")]


def _filters(query: JobQuery) -> tuple[list[str], list[Any]]:
    # A plus keeps SQLite from an index that would make it sort nearly all jobs for each page.
    sign = "" if _is_narrow(query) else "+"
    wanted: list[tuple[str, list[Any]]] = []
    if query.states:
        marks = ", ".join("?" * len(query.states))
        wanted.append((f"{sign}state IN ({marks})", [state.value for state in query.states]))
    if query.tenant is not None:
        wanted.append((f"{sign}tenant = ?", [query.tenant]))
    for column in ("kind", "creator", "object_id", "parent_job", "parent_execution", "system"):
        value = getattr(query, column)
        if value is not None:
            wanted.append((f"{column} = ?", [value]))
    for key, value in query.labels:
        wanted.append((_LABEL, [key, value]))
    if query.text:
        wanted.append((_TEXT, [_containing(query.text)] * 3))
    return [text for text, _ in wanted], [value for _, values in wanted for value in values]


def _is_narrow(query: JobQuery) -> bool:
    """Whether the index of states leads to few jobs, or to jobs in the order that is asked."""
    if len(query.states) != 1:
        return False
    return query.sort is JobSort.JOB_ID or query.states[0] is not JobState.ACTIVE


_LABEL = "EXISTS (SELECT 1 FROM json_each(labels) AS label WHERE label.key = ? AND label.value = ?)"
_TEXT = "(job_id LIKE ? ESCAPE '\\' OR job_name LIKE ? ESCAPE '\\' OR object_id LIKE ? ESCAPE '\\')"


def _containing(text: str) -> str:
    for sign in "\\%_":
        text = text.replace(sign, f"\\{sign}")
    return f"%{text}%"


def _of_tenant(tenant: str | None) -> tuple[str, list[str]]:
    return ("TRUE", []) if tenant is None else ("tenant = ?", [tenant])
