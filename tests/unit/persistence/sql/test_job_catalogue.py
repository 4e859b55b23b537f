"""Lists of jobs read rows in the order of an index: the plans are those that 0.1.0 had for its own texts."""

import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.sql.job_catalogue import JobCatalogue
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.ports.catalogue import Catalogue, JobQuery, JobSort, LastOutcome
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.samples import claim

pytestmark = pytest.mark.anyio
Found = TypeVar("Found")
Ask = Callable[[Catalogue], Awaitable[object]]
JOB_ID = "jobs USING INDEX sqlite_autoindex_jobs_1"
SORTED = "USE TEMP B-TREE FOR ORDER BY"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """The tables of `state.db` with 20 jobs."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection, place=":memory:")
    for number in range(20):
        row = {
            "job_id": f"j{number:02}", "uid": f"u{number}", "tenant": "default", "job_name": f"n{number}",
            "creator": "api", "kind": "cron", "state": "active", "revision": 1, "labels": "{}",
            "created_at": 1, "updated_at": 1, "system": 0, "claimed_at": 0, "sequence": 1,
            "next_fire": number, "execute_number": 0, "request_counts": 0, "missed": 0,
            "live": 1, "waiting": 1, "latest": b"",
        }  # fmt: skip
        names, marks = ",".join(row), ",".join("?" * len(row))
        connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", list(row.values()))
    yield connection
    connection.close()


@pytest.fixture
def catalogue(connection: sqlite3.Connection) -> Iterator[JobCatalogue]:
    """Its reads are run at once, on the one connection."""
    dialect = SqliteDialect.over(connection, subject="a test")
    with dialect.engine.connect() as statements:

        async def read(work: Callable[[sa.Connection], Found]) -> Found:
            return work(statements)

        yield JobCatalogue(dialect=dialect, read=read)


def listed(**query: Any) -> Ask:
    return lambda catalogue: catalogue.list(JobQuery(**query))


def tallied(**query: Any) -> Ask:
    return lambda catalogue: catalogue.tally(JobQuery(**query))


def continued(**query: Any) -> Ask:
    """The second page."""

    async def ask(catalogue: Catalogue) -> None:
        first = await catalogue.list(JobQuery(limit=5, **query))
        await catalogue.list(JobQuery(limit=5, cursor=first.next_cursor, **query))

    return ask


@pytest.mark.parametrize(
    ("ask", "plan"),
    [
        (listed(), [f"SCAN {JOB_ID}"]),
        (listed(tenant=None), [f"SCAN {JOB_ID}"]),
        (listed(states=()), [f"SCAN {JOB_ID}"]),
        (listed(descending=True), [f"SCAN {JOB_ID}"]),
        (listed(kind="cron", creator="x", object_id="y"), [f"SCAN {JOB_ID}"]),
        (listed(text="n1"), [f"SCAN {JOB_ID}"]),
        (listed(states=(JobState.ACTIVE,)), ["SEARCH jobs USING INDEX jobs_state (tenant=? AND state=?)"]),
        (listed(states=(JobState.PAUSED,)), ["SEARCH jobs USING INDEX jobs_state (tenant=? AND state=?)"]),
        (
            listed(states=(JobState.PAUSED,), sort=JobSort.JOB_NAME),
            ["SEARCH jobs USING INDEX jobs_state (tenant=? AND state=?)", SORTED],
        ),
        (listed(parent_job="p"), ["SEARCH jobs USING INDEX jobs_parent (parent_job=?)", SORTED]),
        (
            listed(parent_job="p", parent_execution=1),
            ["SEARCH jobs USING INDEX jobs_parent (parent_job=? AND parent_execution=?)"],
        ),
        (listed(sort=JobSort.JOB_NAME), ["SCAN jobs USING INDEX jobs_name"]),
        (listed(sort=JobSort.CREATED_AT, descending=True), ["SCAN jobs USING INDEX jobs_created"]),
        (listed(sort=JobSort.UPDATED_AT), ["SCAN jobs USING INDEX jobs_updated"]),
        (
            listed(sort=JobSort.NEXT_FIRE_TIME, limit=10),
            ["SEARCH jobs USING INDEX jobs_next_fire (next_fire>?)"],
        ),
        (continued(), [f"SEARCH {JOB_ID} (job_id>?)"]),
        (continued(descending=True), [f"SEARCH {JOB_ID} (job_id<?)"]),
        (
            continued(sort=JobSort.JOB_NAME),
            ["SEARCH jobs USING INDEX jobs_name ((job_name,job_id)>(?,?))"],
        ),
        (
            continued(sort=JobSort.CREATED_AT),
            ["SEARCH jobs USING INDEX jobs_created ((created_at,job_id)>(?,?))"],
        ),
        (
            continued(sort=JobSort.UPDATED_AT, descending=True),
            ["SEARCH jobs USING INDEX jobs_updated ((updated_at,job_id)<(?,?))"],
        ),
        (
            continued(sort=JobSort.NEXT_FIRE_TIME),
            ["SEARCH jobs USING INDEX jobs_next_fire ((next_fire,job_id)>(?,?))"],
        ),
        (listed(last_outcome=LastOutcome.NONE), [f"SCAN {JOB_ID}"]),
        (tallied(), ["SEARCH jobs USING INDEX jobs_state (tenant=? AND state=?)"]),
        (tallied(states=(JobState.PAUSED,)), ["SEARCH jobs USING INDEX jobs_state (tenant=? AND state=?)"]),
        (tallied(parent_job="p"), ["SEARCH jobs USING INDEX jobs_parent (parent_job=?)"]),
        (lambda catalogue: catalogue.get("j1"), [f"SEARCH {JOB_ID} (job_id=?)"]),
        (lambda catalogue: catalogue.some(["j1", "j2"]), [f"SEARCH {JOB_ID} (job_id=?)"]),
        (lambda catalogue: catalogue.find("u1"), ["SEARCH jobs USING INDEX jobs_uid (uid=?)"]),
        (
            lambda catalogue: catalogue.revisions("u1", after=0, limit=5),
            ["SEARCH definitions USING INDEX sqlite_autoindex_definitions_1 (uid=? AND revision>?)"],
        ),
        (
            lambda catalogue: catalogue.children("p", 1, after="", limit=5),
            ["SEARCH jobs USING INDEX jobs_parent (parent_job=? AND parent_execution=? AND job_id>?)"],
        ),
        (
            lambda catalogue: catalogue.upcoming(0, 9, 5, tenant="default"),
            ["SEARCH jobs USING INDEX jobs_next_fire (next_fire>? AND next_fire<?)"],
        ),
    ],
)
async def test_a_read_of_a_file_uses_its_index(
    connection: sqlite3.Connection, catalogue: JobCatalogue, ask: Ask, plan: list[str]
) -> None:
    """`EXPLAIN QUERY PLAN` of the last statement that the driver gets."""
    assert explain(connection, await trace(connection, catalogue, ask))[-1] == plan


async def test_the_figures_are_read_from_indexes(
    connection: sqlite3.Connection, catalogue: JobCatalogue
) -> None:
    """None of them looks at all jobs."""
    texts = await trace(connection, catalogue, lambda one: one.counts(Now(5, 5), tenant="default"))
    assert explain(connection, texts) == [
        ["SEARCH jobs USING COVERING INDEX jobs_state (tenant=?)"],
        [f"SEARCH {JOB_ID} (job_id=?)", f"SEARCH {JOB_ID} (job_id>? AND job_id<?)"],
        ["SEARCH jobs USING INDEX jobs_next_fire (next_fire<?)"],
        ["SCAN jobs USING INDEX jobs_waiting"],
        ["SCAN jobs USING INDEX jobs_live"],
    ]


async def trace(connection: sqlite3.Connection, catalogue: Catalogue, ask: Ask) -> list[str]:
    """The statements, with their values."""
    texts: list[str] = []
    connection.set_trace_callback(texts.append)
    await ask(catalogue)
    connection.set_trace_callback(None)
    return texts


def explain(connection: sqlite3.Connection, texts: list[str]) -> list[list[str]]:
    """How each statement reads the tables."""
    plans = [connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall() for text in texts]
    return [
        [step for _, _, _, step in plan if " jobs " in step or "definitions" in step or step == SORTED]
        for plan in plans
    ]


@pytest.fixture
async def shared(bare_postgres_url: str) -> AsyncIterator[JobDatabase]:
    """A shared database in PostgreSQL with 5,000 jobs: fewer are read as a whole."""
    database = await JobDatabase.open(url=bare_postgres_url)
    await TurnStore(database=database).claim(claim(at=1))
    with database.dialect.engine.begin() as connection:
        names = connection.exec_driver_sql("SELECT * FROM jobs").keys()
        own = {
            "job_id": "'j' || n",
            "uid": "'u' || n",
            "next_fire": "n",
            "parent_job": "CASE mod(n, 2) WHEN 0 THEN 'p' || mod(n, 500) END",
            "due_wall": "CASE mod(n, 3) WHEN 0 THEN n END",
            "due_steady": "CASE mod(n, 50) WHEN 0 THEN n END",
            "execute_number": "0",
        }
        values = ",".join(own.get(name, name) for name in names)
        series = "jobs, generate_series(1, 5000) n"
        connection.exec_driver_sql(f"INSERT INTO jobs SELECT {values} FROM {series}")
        connection.exec_driver_sql("ANALYZE jobs")
    yield database
    await database.close()


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (listed(), "jobs_pkey|jobs_state"),
        (listed(states=(JobState.PAUSED,)), "jobs_state"),
        (listed(sort=JobSort.NEXT_FIRE_TIME), "jobs_next_fire"),
        (tallied(parent_job="p8"), "jobs_parent"),
        (listed(parent_job="p8"), "jobs_parent"),
        (lambda catalogue: catalogue.get("job"), "jobs_pkey"),
        (lambda catalogue: catalogue.some(["job", "other"]), "jobs_pkey"),
        (lambda catalogue: catalogue.find("uid-job"), "jobs_uid"),
        (lambda catalogue: catalogue.children("p8", 1, after="", limit=5), "jobs_parent"),
        (lambda catalogue: catalogue.upcoming(0, 9, 5, tenant="default"), "jobs_next_fire"),
    ],
)
async def test_a_read_of_a_server_uses_its_index(shared: JobDatabase, ask: Ask, index: str) -> None:
    """`EXPLAIN` of the first statement that PostgreSQL gets."""
    plan = await plan_of(shared, lambda: ask(TurnStore(database=shared).catalogue))
    names = {name for name in index.split("|") if f'"{name}"' in plan}
    assert names, plan


async def plan_of(shared: JobDatabase, ask: Callable[[], Awaitable[object]]) -> str:
    """How PostgreSQL reads for the first statement of `ask`, as JSON."""
    engine = shared.dialect.engine
    with heard(engine) as statements:
        await ask()
    text, values = statements[0]
    with engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {text}", values).scalar_one()
    return json.dumps(plan)


@pytest.mark.parametrize(
    ("ask", "indexes"),
    [
        (lambda store: store.overdue(Now(20, 100), 200), {"jobs_due_wall", "jobs_due_steady"}),
        (lambda store: store.unbegun((10, ""), 40, 200), {"jobs_first"}),
        (lambda store: store.abandoned([Holder("one", "1")], 100, 200), {"jobs_held"}),
        (lambda store: store.load("j1"), {"jobs_pkey"}),
        (lambda store: store.sequence("j1"), {"jobs_pkey"}),
    ],
)
async def test_what_turns_and_sweeps_read_uses_its_index(
    shared: JobDatabase, ask: Callable[[TurnStore], Awaitable[object]], indexes: set[str]
) -> None:
    """Each second at one node, or for each job that is loaded: it finds few rows among all of them."""
    plan = await plan_of(shared, lambda: ask(TurnStore(database=shared)))
    assert {name for name in indexes if f'"{name}"' in plan} == indexes, plan


async def test_each_index_of_the_jobs_is_read(shared: JobDatabase) -> None:
    """By a statement above: each claim writes an entry into all of them."""
    with shared.dialect.engine.connect() as connection:
        found = set(
            connection.exec_driver_sql("SELECT indexname FROM pg_indexes WHERE tablename = 'jobs'").scalars()
        )
    assert found == {
        "jobs_pkey", "jobs_state", "jobs_next_fire", "jobs_parent", "jobs_uid", "jobs_due_wall",
        "jobs_due_steady", "jobs_first", "jobs_held",
    }  # fmt: skip
