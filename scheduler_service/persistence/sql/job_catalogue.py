"""The catalogue of jobs over SQL: one set of statements for `state.db` and the database of a cluster.

A statement is made once for each form of a question and takes the values as parameters, so that back ends
and SQLAlchemy can keep its text.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.pagination import MEMBERS, cut_page, read_position
from scheduler_service.persistence.sql.expressions import IsIn, Like, Member, Unindexed
from scheduler_service.persistence.sql.job_tables import ENTRY, definitions, jobs
from scheduler_service.ports.catalogue import CatalogueEntry, JobCounts, JobPage, JobQuery, JobSort, Revision

# So many ids are looked up by one statement.
BATCH_SIZE = 500
# Forms of a question whose statements are kept.
FORMS_KEPT = 512

Statement = sa.Select[Any]
Values = Mapping[str, Any]
# A statement with its values.
Read = tuple[Statement, Values]
Condition = sa.ColumnElement[bool]

_bind = sa.bindparam
_entries = sa.select(*ENTRY)
_LIMIT: sa.BindParameter[int] = _bind("limit", type_=sa.Integer)
_BY_ID = _entries.where(jobs.c.job_id == _bind("job_id"))
_BY_IDS = _entries.where(IsIn(jobs.c.job_id, _bind("job_ids", type_=sa.Text)))
_BY_UID = _entries.where(jobs.c.uid == _bind("uid")).limit(1)
_REVISIONS = (
    sa.select(*(definitions.c[name] for name in Revision.__struct_fields__))
    .where(definitions.c.uid == _bind("uid"), definitions.c.revision > _bind("after"))
    .order_by(definitions.c.revision)
    .limit(_LIMIT)
)


class JobCatalogue(ABC):
    """ports.Catalogue; a back end adds how statements run."""

    @abstractmethod
    async def read_entries(self, reads: Sequence[Read], most: int) -> list[CatalogueEntry]:
        """What `reads` find one after the other, until there are `most` entries; sets their `limit`."""

    @abstractmethod
    async def read_rows(self, reads: Sequence[Read]) -> list[Sequence[Any]]:
        """The rows of each of `reads`, all of one moment."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Returns when the tables have what was durable at the call."""

    async def get(self, job_id: str) -> CatalogueEntry | None:
        return next(iter(await self.read_entries([(_BY_ID, {"job_id": job_id})], 1)), None)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        found: dict[str, CatalogueEntry] = {}
        for start in range(0, len(job_ids), BATCH_SIZE):
            wanted = {"job_ids": msgspec.json.encode(job_ids[start : start + BATCH_SIZE]).decode()}
            entries = await self.read_entries([(_BY_IDS, wanted)], BATCH_SIZE)
            found.update({entry.job_id: entry for entry in entries})
        return found

    async def find(self, uid: str) -> CatalogueEntry | None:
        await self.catch_up()
        return next(iter(await self.read_entries([(_BY_UID, {"uid": uid})], 1)), None)

    async def list(self, query: JobQuery) -> JobPage:
        reads = page_reads(query)
        await self.catch_up()
        return cut_page(query, await self.read_entries(reads, query.limit + 1))

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        (rows,) = await self.read_rows([(_REVISIONS, {"uid": uid, "after": after, "limit": limit})])
        return [Revision(*row) for row in rows]

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        values = {"parent_job": parent_job, "parent_execution": parent_execution, "after": after}
        statement = _select_children(parent_execution is not None)
        await self.catch_up()
        return await self.read_entries([(statement, values)], limit)

    async def upcoming(
        self, start: int, end: int, limit: int, *, tenant: str | None = "default"
    ) -> Sequence[CatalogueEntry]:
        values = {"start": start, "end": end, "tenant": tenant}
        await self.catch_up()
        return await self.read_entries([(_select_upcoming(tenant is not None), values)], limit)

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        values = {"now": now.wall, "tenant": tenant}
        await self.catch_up()
        states, *sums = await self.read_rows([(one, values) for one in _select_counts(tenant is not None)])
        by_state: dict[JobState, int] = {}
        for state, count in states:
            by_state[JobState(state)] = by_state.get(JobState(state), 0) + count
        due, waiting, running = (int(rows[0][0]) for rows in sums)
        return JobCounts(due=due, waiting=waiting, running=running, by_state=by_state)


def page_reads(query: JobQuery) -> list[Read]:
    """What finds a page, and one job more where the list goes on. Raises CursorError.

    Jobs that have no value in the order of the list come last, by a statement of their own: so each of the
    two reads its rows in the order of an index.
    """
    position = None
    if query.cursor is not None:
        position = read_position(query.cursor, sort=query.sort, descending=query.descending)
    filters = dict(_column_filters(query))
    values: dict[str, Any] = dict(filters)
    values |= {f"state{number}": state.value for number, state in enumerate(query.states)}
    for number, (key, value) in enumerate(query.labels):
        values |= {f"key{number}": key, f"label{number}": value}
    if query.text:
        values["text"] = _containing(query.text)
    if position is not None:
        values |= {"last_value": position.value, "last_id": position.job_id}
    form = _Form(
        filters=tuple(filters),
        states=len(query.states),
        labels=len(query.labels),
        has_text=bool(query.text),
        is_narrow=_is_narrow(query),
        sort=query.sort,
        descending=query.descending,
        is_behind=position is not None,
        has_value=position is not None and position.value is not None,
    )
    return [(statement, values) for statement in _select_page(form)]


class _Form(msgspec.Struct, frozen=True):
    """A query without its values. `has_value`: the page before it ended at a job with a value."""

    filters: tuple[str, ...]
    states: int
    labels: int
    has_text: bool
    is_narrow: bool
    sort: JobSort
    descending: bool
    is_behind: bool
    has_value: bool


_FILTERED = ("tenant", "kind", "creator", "object_id", "parent_job", "parent_execution", "system")
"""Columns that a query can ask to have one value, members of `JobQuery` of the same name."""


def _column_filters(query: JobQuery) -> Iterable[tuple[str, Any]]:
    for name in _FILTERED:
        value = getattr(query, name)
        if value is not None:
            yield name, int(value) if isinstance(value, bool) else value


def _is_narrow(query: JobQuery) -> bool:
    """Whether the index of states leads to few jobs, or to jobs in the order of the list."""
    if len(query.states) != 1:
        return False
    return query.sort is JobSort.JOB_ID or query.states[0] is not JobState.ACTIVE


def _containing(text: str) -> str:
    for sign in "\\%_":
        text = text.replace(sign, f"\\{sign}")
    return f"%{text}%"


@lru_cache(FORMS_KEPT)
def _select_page(form: _Form) -> tuple[Statement, ...]:
    conditions = _conditions(form)
    column, last = jobs.c[MEMBERS[form.sort]], jobs.c.job_id
    way = sa.desc if form.descending else sa.asc
    last_id, last_value = _bind("last_id", type_=last.type), _bind("last_value", type_=column.type)
    behind = [last < last_id if form.descending else last > last_id] if form.is_behind else []
    base = _entries.where(*conditions).limit(_LIMIT)
    if form.sort is JobSort.JOB_ID:
        return (base.where(*behind).order_by(way(last)),)
    without = base.where(column.is_(None), *(behind if not form.has_value else [])).order_by(way(last))
    if form.is_behind and not form.has_value:
        return (without,)
    having = base.where(column.is_not(None)).order_by(way(column), way(last))
    if form.is_behind:
        pair, place = sa.tuple_(column, last), sa.tuple_(last_value, last_id)
        having = having.where(pair < place if form.descending else pair > place)
    return (having, without) if column.nullable else (having,)


def _conditions(form: _Form) -> Iterable[Condition]:
    def indexed(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return column if form.is_narrow else Unindexed(column)

    if form.states:
        yield indexed(jobs.c.state).in_([_bind(f"state{number}") for number in range(form.states)])
    for name in form.filters:
        column = jobs.c[name]
        yield (indexed(column) if name == "tenant" else column) == _bind(name)
    for number in range(form.labels):
        yield Member(jobs.c.labels, _bind(f"key{number}", type_=sa.Text)) == _bind(f"label{number}")
    if form.has_text:
        text = _bind("text", type_=sa.Text)
        yield sa.or_(*(Like(column, text) for column in _SEARCHED))


_SEARCHED = (jobs.c.job_id, jobs.c.job_name, jobs.c.object_id)


@lru_cache(FORMS_KEPT)
def _select_children(of_one: bool) -> Statement:
    statement = _entries.where(jobs.c.parent_job == _bind("parent_job"), jobs.c.job_id > _bind("after"))
    if of_one:
        statement = statement.where(jobs.c.parent_execution == _bind("parent_execution"))
    return statement.order_by(jobs.c.job_id).limit(_LIMIT)


@lru_cache(FORMS_KEPT)
def _select_upcoming(of_tenant: bool) -> Statement:
    soon = jobs.c.next_fire.between(_bind("start"), _bind("end"))
    wanted = _entries.where(soon, Unindexed(jobs.c.system) == 0, *_of_tenant(of_tenant))
    return wanted.order_by(jobs.c.next_fire, jobs.c.job_id).limit(_LIMIT)


@lru_cache(FORMS_KEPT)
def _select_counts(of_tenant: bool) -> tuple[Statement, ...]:
    """By state; due jobs; waiting executions; running ones."""
    # The index of states begins with the tenant: grouped by both, it is read in its order.
    states = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.tenant, jobs.c.state)
    if of_tenant:
        states = states.where(jobs.c.tenant == _bind("tenant"))
    own = list(_of_tenant(of_tenant))
    due = sa.select(sa.func.count()).where(jobs.c.next_fire <= _bind("now"), *own)
    waiting, running = (
        sa.select(sa.func.coalesce(sa.func.sum(column), 0)).where(column > 0, *own)
        for column in (jobs.c.waiting, jobs.c.live)
    )
    return states, due, waiting, running


def _of_tenant(of_tenant: bool) -> Iterable[Condition]:
    return [Unindexed(jobs.c.tenant) == _bind("tenant")] if of_tenant else []
