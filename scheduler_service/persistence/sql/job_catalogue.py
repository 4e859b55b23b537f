"""The catalogue of jobs over SQL, the same for `state.db` and the database of a cluster."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.job_key import ALERTS, SYSTEM_IDS
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.pagination import LABELS_BYTES, cut_page
from scheduler_service.persistence.sql.database import unopened
from scheduler_service.persistence.sql.dialect import Dialect, Run
from scheduler_service.persistence.sql.expressions import IsIn, Unindexed
from scheduler_service.persistence.sql.job_selections import (
    FORMS_KEPT,
    Condition,
    Read,
    Statement,
    have_labels,
    label_values,
    page_reads,
    tally_read,
)
from scheduler_service.persistence.sql.job_tables import ENTRY, definitions, jobs, read_entry
from scheduler_service.ports.catalogue import (
    LAST_OUTCOMES,
    LONGEST_READ,
    MOST_COUNTED,
    CatalogueEntry,
    JobCounts,
    JobPage,
    JobQuery,
    JobTally,
    LastOutcome,
    Revision,
    tally_of,
)

# So many ids are looked up by one statement.
BATCH_SIZE = 500
_bind = sa.bindparam
_entries = sa.select(*ENTRY)
_LIMIT: sa.BindParameter[int] = _bind("limit", type_=sa.Integer)
_BY_ID = _entries.where(jobs.c.job_id == _bind("job_id"))
BY_IDS = _entries.where(IsIn(jobs.c.job_id, _bind("job_ids", type_=sa.Text)))
_BY_UID = _entries.where(jobs.c.uid == _bind("uid")).limit(1)
_DEFINITIONS = (
    sa.select(jobs.c.job_id, definitions.c.text)
    .join_from(
        jobs, definitions, sa.and_(definitions.c.uid == jobs.c.uid, definitions.c.revision == jobs.c.revision)
    )
    .where(IsIn(jobs.c.job_id, _bind("job_ids", type_=sa.Text)))
    .where(sa.func.length(definitions.c.text) <= _bind("longest", type_=sa.Integer))
)
_REVISIONS = (
    sa.select(*(definitions.c[name] for name in Revision.__struct_fields__))
    .where(definitions.c.uid == _bind("uid"), definitions.c.revision > _bind("after"))
    .order_by(definitions.c.revision)
    .limit(_LIMIT)
)


# The first text behind all that begin with ALERTS; no id has a "/".
BEHIND_ALERTS = f"{ALERTS[:-1]}{chr(ord(ALERTS[-1]) + 1)}"
_LABELS = CatalogueEntry.__struct_fields__.index("labels")


class JobCatalogue:
    """ports.Catalogue over the tables of jobs and definitions."""

    def __init__(self, *, dialect: Dialect, read: Run) -> None:
        self._fetch = dialect.fetch
        self._read = read

    async def read_entries(self, reads: Sequence[Read], most: int) -> list[CatalogueEntry]:
        """What `reads` find one after the other, until there are `most` entries; sets their `limit`.

        Those that bound their labels end behind an entry where these have LABELS_BYTES characters as JSON.
        """

        def work(connection: sa.Connection) -> list[Sequence[Any]]:
            rows: list[Sequence[Any]] = []
            left = LABELS_BYTES
            for statement, values in reads:
                if len(rows) < most and left > 0:
                    bounds = {"limit": most - len(rows), "room": left}
                    found = self._fetch(connection, statement, {**values, **bounds})
                    left -= sum(len(row[_LABELS]) for row in found)
                    rows += found
            return rows

        return [read_entry(row) for row in await self._read(work)]

    async def read_rows(self, reads: Sequence[Read]) -> list[Sequence[Any]]:
        """The rows of each of `reads`, all of one moment."""
        return await self._read(
            lambda connection: [self._fetch(connection, statement, values) for statement, values in reads]
        )

    async def get(self, job_id: str) -> CatalogueEntry | None:
        return next(iter(await self.read_entries([(_BY_ID, {"job_id": job_id})], 1)), None)

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        found: dict[str, CatalogueEntry] = {}
        for start in range(0, len(job_ids), BATCH_SIZE):
            wanted = {"job_ids": write_ids(job_ids[start : start + BATCH_SIZE])}
            entries = await self.read_entries([(BY_IDS, wanted)], BATCH_SIZE)
            found.update({entry.job_id: entry for entry in entries})
        return found

    async def find(self, uid: str) -> CatalogueEntry | None:
        return next(iter(await self.read_entries([(_BY_UID, {"uid": uid})], 1)), None)

    async def list(self, query: JobQuery) -> JobPage:
        reads = page_reads(query)
        return cut_page(query, await self.read_entries(reads, query.limit + 1))

    async def tally(self, query: JobQuery) -> JobTally:
        (rows,) = await self.read_rows([tally_read(query)])
        found = [(JobState(state), kind, _outcome_of(latest), count) for state, kind, latest, count in rows]
        return tally_of(found, is_capped=sum(row[-1] for row in found) > MOST_COUNTED)

    async def definitions(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        batches = [job_ids[start : start + BATCH_SIZE] for start in range(0, len(job_ids), BATCH_SIZE)]
        values = [{"job_ids": write_ids(batch), "longest": LONGEST_READ} for batch in batches]
        found = await self.read_rows([(_DEFINITIONS, wanted) for wanted in values])
        return {job_id: text for rows in found for job_id, text in rows}

    async def revisions(self, uid: str, *, after: int = 0, limit: int = 50) -> Sequence[Revision]:
        (rows,) = await self.read_rows([(_REVISIONS, {"uid": uid, "after": after, "limit": limit})])
        return [Revision(*row) for row in rows]

    async def children(
        self, parent_job: str, parent_execution: int | None = None, *, after: str = "", limit: int = 500
    ) -> Sequence[CatalogueEntry]:
        values = {"parent_job": parent_job, "parent_execution": parent_execution, "after": after}
        statement = _select_children(parent_execution is not None)
        return await self.read_entries([(_without_labels(statement), values)], limit)

    async def upcoming(
        self,
        start: int,
        end: int,
        limit: int,
        *,
        tenant: str | None = "default",
        creator: str | None = None,
        labels: Sequence[tuple[str, str]] = (),
        with_labels: bool = True,
    ) -> Sequence[CatalogueEntry]:
        values = {"start": start, "end": end, "tenant": tenant, "creator": creator, **label_values(labels)}
        statement = _select_upcoming(tenant is not None, creator is not None, len(labels))
        wanted = statement if with_labels else _without_labels(statement)
        return await self.read_entries([(wanted, values)], limit)

    async def counts(self, now: Now, *, tenant: str | None = "default") -> JobCounts:
        values = {"now": now.wall, "tenant": tenant}
        statements = _select_counts(tenant is not None)
        every, own, *sums = await self.read_rows([(one, values) for one in statements])
        by_state: Counter[JobState] = Counter()
        for state, count in every:
            by_state[JobState(state)] += count
        by_state.subtract({JobState(state): count for state, count in own})
        due, waiting, running = (int(rows[0][0]) for rows in sums)
        return JobCounts(due=due, waiting=waiting, running=running, by_state=dict(+by_state))


def has_jobs(*, url: str) -> bool:
    """Whether the state of jobs at `url` has any that is not the system's, also a destroyed one.

    Raises StoreUnavailable.
    """
    first = sa.select(jobs.c.job_id).where(jobs.c.system == 0).limit(1)
    with unopened(url, subject="the jobs' state") as dialect, dialect.engine.connect() as connection:
        return sa.inspect(connection).has_table(jobs.name) and connection.execute(first).first() is not None


@lru_cache(FORMS_KEPT)
def _without_labels(statement: Statement) -> Statement:
    none: sa.ColumnElement[Any] = sa.literal_column("'{}'").label("labels")
    return statement.with_only_columns(*(none if one.name == "labels" else one for one in ENTRY))


def write_ids(job_ids: Sequence[str]) -> str:
    """Ids as `expressions.IsIn` takes them."""
    return msgspec.json.encode(job_ids).decode()


@lru_cache(FORMS_KEPT)
def _select_children(of_one: bool) -> Statement:
    statement = _entries.where(jobs.c.parent_job == _bind("parent_job"), jobs.c.job_id > _bind("after"))
    if of_one:
        statement = statement.where(jobs.c.parent_execution == _bind("parent_execution"))
    return statement.order_by(jobs.c.job_id).limit(_LIMIT)


@lru_cache(FORMS_KEPT)
def _select_upcoming(of_tenant: bool, of_creator: bool, labels: int) -> Statement:
    soon = jobs.c.next_fire.between(_bind("start"), _bind("end"))
    wanted = _entries.where(soon, Unindexed(jobs.c.system) == 0, *_of_tenant(of_tenant), *have_labels(labels))
    if of_creator:
        wanted = wanted.where(Unindexed(jobs.c.creator) == _bind("creator"))
    return wanted.order_by(jobs.c.next_fire, jobs.c.job_id).limit(_LIMIT)


@lru_cache(FORMS_KEPT)
def _select_counts(of_tenant: bool) -> tuple[Statement, ...]:
    """All jobs by state, and the system's; without these due jobs, waiting executions, and running ones."""
    # The index of states begins with the tenant: grouped by both, it is read in its order.
    states = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.tenant, jobs.c.state)
    if of_tenant:
        states = states.where(jobs.c.tenant == _bind("tenant"))
    own = list(_of_tenant(of_tenant))
    # That index does not tell the system's apart, but these few are found by their ids.
    is_known = jobs.c.job_id.in_(sorted(SYSTEM_IDS)) | jobs.c.job_id.between(ALERTS, BEHIND_ALERTS)
    system = sa.select(jobs.c.state, sa.func.count()).where(is_known, Unindexed(jobs.c.system) == 1, *own)
    own.append(Unindexed(jobs.c.system) == 0)
    due = sa.select(sa.func.count()).where(jobs.c.next_fire <= _bind("now"), *own)
    waiting, running = (
        sa.select(sa.func.coalesce(sa.func.sum(column), 0)).where(column > 0, *own)
        for column in (jobs.c.waiting, jobs.c.live)
    )
    return states, system.group_by(jobs.c.state), due, waiting, running


def _of_tenant(of_tenant: bool) -> Iterable[Condition]:
    return [Unindexed(jobs.c.tenant) == _bind("tenant")] if of_tenant else []


def _outcome_of(state: str | None) -> LastOutcome:
    return LastOutcome.NONE if state is None else LAST_OUTCOMES[ExecutionState(state)]
