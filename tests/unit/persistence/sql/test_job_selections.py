"""Lists and figures of jobs are the same in every database that has their tables."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.sql.database import Database
from scheduler_service.persistence.sql.expressions import replacing
from scheduler_service.persistence.sql.job_catalogue import JobCatalogue
from scheduler_service.persistence.sql.job_tables import definitions, entry_values, jobs
from scheduler_service.persistence.sql.migrations import Migrations
from scheduler_service.ports.catalogue import JobQuery, JobSort, LastOutcome
from tests.unit.persistence.samples import entry

pytestmark = pytest.mark.anyio
Found = TypeVar("Found")
metadata = sa.MetaData()
for table in (jobs, definitions):  # without what a cluster keeps beside them
    table.to_metadata(metadata)
TABLES = Migrations(
    subject="a test",
    scripts="scheduler_service.persistence.history:migrations",
    head="1",
    version_table="test_version",
    metadata=(metadata,),
    lock=8,
)
FAILED, ENDED = b'{"state":"terminated"}', b'{"state":"succeeded"}'
ENTRIES = (
    entry("a", kind="timing", labels={"team": "x", 'q"': "1", "Ä b": "100%"}, creator="svc", latest=FAILED),
    entry("A", next_fire=None, latest=ENDED, created_at=3_000),
    entry("a ", state=JobState.PAUSED, labels={"team": "y"}, object_id="Order_9", updated_at=9_000),
    entry("b", parent_job="a", parent_execution=1, next_fire=4_000, job_name="Nächtlich 😀"),
    entry("c", parent_job="a", parent_execution=2, next_fire=None, job_name="50% _done\\"),
    entry("d", tenant="other", waiting=2, live=1),
    entry("s", system=True),
    entry("x", state=JobState.DESTROYED, next_fire=None),
)
QUERIES: tuple[dict[str, Any], ...] = (
    {},
    {"tenant": None, "system": None, "states": ()},
    {"states": (JobState.PAUSED,)},
    {"kind": "timing", "creator": "svc"},
    {"object_id": "Order_9"},
    {"parent_job": "a"},
    {"parent_job": "a", "parent_execution": 2},
    {"labels": (("team", "x"), ('q"', "1"))},
    {"labels": (("Ä b", "100%"),)},
    {"labels": (("team", "X"),)},
    *({"text": text} for text in ("A", "order_", "0%", "_done", "\\", "😀", "ORDER", "nothing", "x")),
    *({"last_outcome": outcome} for outcome in LastOutcome),
)


def opened(url: str) -> Iterator[JobCatalogue]:
    database = Database(url=url, migrations=TABLES)
    upsert, texts = replacing(jobs), replacing(definitions)

    def fill(connection: sa.Connection) -> None:
        other = {column.name: _nothing(column) for column in jobs.c}
        rows = [other | entry_values(one) for one in ENTRIES]
        database.dialect.insert_many(
            connection, upsert, [tuple(row[name] for name in upsert.columns) for row in rows]
        )
        known = [("uid-a", number, "a", number, f"text {number}".encode()) for number in (1, 2)]
        database.dialect.insert_many(connection, texts, known)

    async def read(work: Callable[[sa.Connection], Found]) -> Found:
        with database.reading() as connection:
            return work(connection)

    database.write(fill)
    yield JobCatalogue(dialect=database.dialect, read=read)
    database.close()


def _nothing(column: sa.Column[Any]) -> object:
    if column.nullable:
        return None
    return 0 if isinstance(column.type, sa.Integer) else "" if isinstance(column.type, sa.String) else b""


@pytest.fixture
def catalogue(bare_url: str) -> Iterator[JobCatalogue]:
    yield from opened(bare_url)


@pytest.fixture
def known() -> Iterator[JobCatalogue]:
    """What the others are compared with: SQLite, which `test_catalogue_suite` judges."""
    yield from opened("sqlite://")


async def test_each_list_is_the_same_over_its_pages(catalogue: JobCatalogue, known: JobCatalogue) -> None:
    """Each filter in each order, up and down; and what is counted of it."""
    for given in QUERIES:
        for sort, descending in itertools.product(JobSort, (False, True)):
            pages = [
                await listed(one, sort=sort, descending=descending, **given) for one in (catalogue, known)
            ]
            assert pages[0] == pages[1], (given, sort, descending)
        counted = [await one.tally(JobQuery(**given)) for one in (catalogue, known)]
        assert counted[0] == counted[1], given
    assert await listed(catalogue) == ["A", "a", "a ", "b", "c"]


async def listed(catalogue: JobCatalogue, **query: Any) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await catalogue.list(JobQuery(limit=2, cursor=cursor, **query))
        found += [item.job_id for item in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def test_single_reads_are_the_same(catalogue: JobCatalogue, known: JobCatalogue) -> None:
    """Of one job, of some, of children, of what fires soon, and of revisions."""
    for one in (catalogue, known):
        assert await one.get("a ") == ENTRIES[2]
        assert await one.get("a  ") is None
        assert await one.find("uid-b") == ENTRIES[3]
        assert (await one.some(["a", "A", "nobody"])).keys() == {"a", "A"}
        assert [child.job_id for child in await one.children("a")] == ["b", "c"]
        assert [child.job_id for child in await one.children("a", 2)] == ["c"]
        assert [soon.job_id for soon in await one.upcoming(0, 9_000, 9)] == ["b", "a", "a "]
        assert await one.definitions(["a", "b"]) == {"a": b"text 1"}
        assert [revision.text for revision in await one.revisions("uid-a", after=1)] == [b"text 2"]
        counts = await one.counts(Now(wall=4_500, steady=0), tenant=None)
        assert (counts.due, counts.waiting, counts.running) == (1, 2, 1)
