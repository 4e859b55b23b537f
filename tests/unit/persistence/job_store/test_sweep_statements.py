"""What the sweep asks each second finds what dead nodes left, and reads no rows of the living for that."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from scheduler_service.domain.moments import Due
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.state import Settlement
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.damaged_deliveries import raise_damaged
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.samples import ONE, TWO, batch, claim, delivery

pytestmark = pytest.mark.anyio
ALIVE = (ONE, TWO)
GONE = Holder("three", "1")
EARLIER = Holder("one", "0")
COPY_JOBS = """
INSERT INTO jobs
WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count})
SELECT {values} FROM jobs, series WHERE job_id = 'seed'
"""
COPY_DELIVERIES = """
INSERT INTO outbox (delivery_id, content, done_at, node, boot)
SELECT job_id, latest, 1, node, '0' FROM jobs
WHERE job_id <> 'seed' AND job_id NOT IN (SELECT delivery_id FROM outbox)
"""
AS_OTHERS = "SET SESSION max_recursive_iterations=100000, sql_mode=CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')"
"""Lets MariaDB take the two."""


async def take(store: TurnStore, job_id: str, holder: Holder, at: int, *, live: int = 0) -> None:
    await store.claim(claim(job_id, live=live, due=Due(wall=1_000), holder=holder, at=at))


async def test_jobs_of_every_node_that_is_not_alive_are_found(store: ClusterStore) -> None:
    """Whether its row is there or not: silent ones, those removed long ago, earlier starts of living ones."""
    shared = store.shared
    for place, holder in enumerate((*ALIVE, GONE, EARLIER, Holder("two", "3"), Holder("", ""))):
        await take(shared, f"runs{place}", holder, 5, live=1)
        await take(shared, f"fresh{place}", holder, 70 + place)
        await take(shared, f"rests{place}", holder, 69)
    found = await shared.abandoned(ALIVE, 70, 100)
    assert sorted(found) == [f"{name}{place}" for name in ("fresh", "runs") for place in range(2, 6)]
    assert sorted(await shared.abandoned(ALIVE, 76, 100)) == [f"runs{place}" for place in range(2, 6)]
    assert len(await shared.abandoned(ALIVE, 69, 100)) == 12
    assert sorted(await shared.abandoned((*ALIVE, GONE), 76, 100)) == ["runs3", "runs4", "runs5"]


async def test_what_runs_is_found_first(store: ClusterStore) -> None:
    """Then what was claimed last; a limit holds over all nodes."""
    for number in range(6):
        await take(store.shared, f"job{number}", GONE, 100 + number, live=number == 2)
        await take(store.shared, f"earlier{number}", EARLIER, 100 + number)
    assert list(await store.shared.abandoned((*ALIVE, EARLIER), 0, 3)) == ["job2", "job5", "job4"]
    assert len(await store.shared.abandoned(ALIVE, 0, 8)) == 8
    assert len(set(await store.shared.abandoned(ALIVE, 0, 20))) == 12


async def test_a_job_is_no_dead_nodes_any_more_once_another_has_claimed_it(store: ClusterStore) -> None:
    """Nor when it has come to rest, and its latest claim is old."""
    await take(store.shared, "moves", GONE, 100, live=1)
    await take(store.shared, "ends", GONE, 100, live=1)
    await store.shared.claim(claim("moves", live=1, expected=1, at=200))
    await store.shared.claim(claim("ends", expected=1, holder=GONE, at=200))
    assert list(await store.shared.abandoned(ALIVE, 200, 10)) == ["ends"]
    assert list(await store.shared.abandoned(ALIVE, 201, 10)) == []


async def test_deliveries_and_records_of_several_dead_nodes_are_taken_over(store: ClusterStore) -> None:
    """Each once, a limit holds over all of them, and what is done stays where it is."""
    for place, holder in enumerate((ONE, GONE, EARLIER, GONE, EARLIER)):
        await store.shared.keep([delivery(place)], [], holder)
        told = Settlement(delivery(place + 10), done=True, batch=batch(place))
        await store.shared.settle([told], 1, holder)
    await store.shared.settle([Settlement(delivery(3), done=True)], 1, GONE)
    taken = [
        *await store.shared.adopt(ALIVE, TWO, 2, raise_damaged),
        *await store.shared.adopt(ALIVE, TWO, 2, raise_damaged),
    ]
    assert sorted(one.delivery_id for one in taken) == ["d1", "d2", "d4"]
    told_anew = [
        *await store.shared.adopt_records(ALIVE, TWO, 3),
        *await store.shared.adopt_records(ALIVE, TWO, 3),
    ]
    assert sorted(one.sequence for one in told_anew) == [1, 2, 3, 4]
    assert await store.shared.adopt(ALIVE, TWO, 2, raise_damaged) == []
    assert await store.shared.adopt_records(ALIVE, TWO, 2) == []


@pytest.fixture(params=["sqlite", "bare_postgres_url", "bare_mariadb_url"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[JobDatabase]:
    """Of its own, for what is there counts."""
    url = "sqlite://" if request.param == "sqlite" else request.getfixturevalue(request.param)
    database = await JobDatabase.open(url=url)
    yield database
    await database.close()


async def test_its_cost_does_not_grow_with_the_jobs_of_living_nodes(database: JobDatabase) -> None:
    """Nor with jobs that rest since an earlier start, nor with what has been delivered."""
    store = TurnStore(database=database)
    await take(store, "seed", ONE, 1)
    await store.keep([delivery(1)], [], ONE)
    await store.settle([Settlement(delivery(1), done=False, batch=batch())], 1, ONE)
    fill(database, 2_000)
    few = [await cost_of(database, ask) for ask in asks_of(store)]
    fill(database, 8_000)
    many = [await cost_of(database, ask) for ask in asks_of(store)]
    assert all(cost > 0 for cost in few), few
    assert many == few


async def test_what_a_dead_node_left_is_read_by_its_index(database: JobDatabase) -> None:
    """Of 300 jobs that it left among thousands a few are asked for, and a few are read."""
    store = TurnStore(database=database)
    await take(store, "seed", ONE, 1)
    fill(database, 2_000)
    fill(database, 300, holder=GONE)
    ask = asks_of(store)[0]
    few = await cost_of(database, ask)
    assert len(await store.abandoned(ALIVE, 100_000, 20)) == 20
    fill(database, 8_000)
    assert await cost_of(database, ask) == few


def asks_of(store: TurnStore) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: store.abandoned(ALIVE, 100_000, 20),
        lambda: store.adopt(ALIVE, ONE, 20, raise_damaged),
        lambda: store.adopt_records(ALIVE, ONE, 20),
    ]


def fill(database: JobDatabase, count: int, holder: Holder | None = None) -> None:
    """Adds jobs: some run, some were claimed just now, the rest rest since an earlier start.

    And as many deliveries of that start that are done. With a `holder` all are its, and claimed just now.
    """
    is_mariadb = database.dialect.engine.dialect.name == "mysql"
    with database.dialect.engine.begin() as connection:
        if is_mariadb:
            connection.exec_driver_sql(AS_OTHERS)
        names = list(connection.exec_driver_sql("SELECT * FROM jobs").keys())
        first = int(connection.exec_driver_sql("SELECT count(*) FROM jobs").scalar_one())
        own = {
            "job_id": f"'j' || ({first} + n)",
            "uid": f"'u' || ({first} + n)",
            "node": "CASE n & 1 WHEN 0 THEN 'one' ELSE 'two' END",
            "boot": "CASE n & 3 WHEN 3 THEN '0' WHEN 2 THEN '1' WHEN 1 THEN '2' ELSE '1' END",
            "live": "CASE n & 7 WHEN 0 THEN 1 ELSE 0 END",
            "claimed_at": "CASE n & 3 WHEN 3 THEN 1 ELSE 100000 + n END",
        }
        if holder is not None:
            own |= {
                "node": f"'{holder.node}'",
                "boot": f"'{holder.boot}'",
                "live": "0",
                "claimed_at": "100000 + n",
            }
        values = ",".join(own.get(name, f'"{name}"') for name in names)
        connection.exec_driver_sql(COPY_JOBS.format(count=count, values=values))
        connection.exec_driver_sql(COPY_DELIVERIES)
        connection.exec_driver_sql("ANALYZE TABLE jobs, outbox, untold" if is_mariadb else "ANALYZE")


async def cost_of(database: JobDatabase, ask: Callable[[], Awaitable[object]]) -> int:
    """What the database does for the statements of `ask`: what it reads, or steps of its machine."""
    engine = database.dialect.engine
    with heard(engine) as statements:
        await ask()
    with engine.connect() as connection:
        count = _COSTS[engine.dialect.name]
        return sum(
            count(connection, text, values)
            for text, values in statements
            if "WITH" in text or "SELECT" in text
        )


def _rows_of_a_server(connection: sa.Connection, text: str, values: Any) -> int:
    plan = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).scalar_one()
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in _nodes(plan[0]["Plan"])
        if "Relation Name" in node
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _steps_of_a_file(connection: sa.Connection, text: str, values: Any) -> int:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(count, 1)
    driver.execute(text, values).fetchall()
    driver.set_progress_handler(None, 0)
    return steps


def _reads_of_a_server(connection: sa.Connection, text: str, values: Any) -> int:
    connection.exec_driver_sql("FLUSH STATUS")
    connection.exec_driver_sql(text, values).all()
    return sum(int(count) for _, count in connection.exec_driver_sql(READS))


READS = "SHOW SESSION STATUS LIKE 'Handler_read%%'"
_COSTS = {"postgresql": _rows_of_a_server, "mysql": _reads_of_a_server, "sqlite": _steps_of_a_file}
