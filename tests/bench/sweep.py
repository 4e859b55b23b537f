"""What the sweep's questions for dead nodes cost: `python -m tests.bench.sweep [jobs] [starts] [claims]`."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import sqlalchemy as sa

from scheduler_service.domain.moments import Due
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.sql import job_tables as tables
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.store import SharedStore
from tests.bench.stage import show
from tests.unit.persistence.damaged_deliveries import raise_damaged
from tests.unit.persistence.samples import claim, delivery
from tests.unit.persistence.servers import PostgresServer

ALIVE = (Holder("one", "1"), Holder("two", "1"))
NOW = 1_000_000
ROUNDS = 20


def main(jobs: int = 100_000, starts: int = 10, claims: int = 100_000) -> None:
    """Prints ms of each question in PostgreSQL.

    Of `jobs` with 1.1 KB of state and as many deliveries that are done, all of two living nodes; where some
    rest since `starts` earlier ones; right after `claims` of firings and ends, before any vacuum; and where a
    dead node left 500.
    """
    server = PostgresServer()
    try:
        server.start()
        asyncio.run(_measure(f"{server.url}/postgres", jobs, starts, claims))
    finally:
        server.remove()


async def _measure(url: str, jobs: int, starts: int, claims: int) -> None:
    database = await SharedDatabase.open(url=url)
    store, engine = SharedStore(database=database), database.dialect.engine
    try:
        state = b"s" * 1_100
        await store.claim(claim("seed", due=Due(wall=1), holder=ALIVE[0], at=NOW, state=state))
        await store.keep([delivery(1)], [], ALIVE[0])
        _run(engine, "ALTER TABLE jobs SET (autovacuum_enabled = off)", *_fill(jobs), "VACUUM ANALYZE")
        await _ask(store, f"{jobs} jobs of living nodes")
        old = f"UPDATE jobs SET boot = 'b' || (execute_number / 10 % {starts}), claimed_at = 1"
        _run(engine, f"{old} WHERE execute_number % 10 = 1", "VACUUM ANALYZE")
        await _ask(store, f"a tenth since {starts} earlier starts")
        for number in range(0, claims // 2, 500):
            some = f"WHERE execute_number BETWEEN {number % jobs} AND {number % jobs + 499} AND boot = '1'"
            _run(engine, f"UPDATE jobs SET live = 1, claimed_at = {NOW + number} {some}")
            _run(engine, f"UPDATE jobs SET live = 0, claimed_at = {NOW + number + 1} {some}")
        await _ask(store, f"after {claims} claims")
        _run(engine, f"UPDATE jobs SET boot = '0', claimed_at = {NOW} WHERE execute_number < 500")
        await _ask(store, "a dead node left 500")
    finally:
        await database.close()


def _run(engine: sa.Engine, *texts: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for text in texts:
            connection.exec_driver_sql(text.replace("%", "%%"))


def _fill(jobs: int) -> list[str]:
    """Half of them were claimed in the last 70 s, one of a hundred runs."""
    own = {
        "job_id": "'job-' || n", "uid": "'u' || n", "next_fire": "n", "due_wall": "n", "execute_number": "n",
        "node": "CASE n % 2 WHEN 0 THEN 'one' ELSE 'two' END",
        "live": "CASE n % 100 WHEN 0 THEN 1 ELSE 0 END",
        "claimed_at": f"{NOW} - 70000 + n % 140000",
    }  # fmt: skip
    values = ",".join(own.get(column.name, column.name) for column in tables.jobs.columns)
    columns = ",".join(column.name for column in tables.jobs.columns)
    series = f"jobs, generate_series(1, {jobs}) n WHERE job_id = 'seed'"
    done = f"SELECT 'd' || n, content, 1, node, boot FROM outbox, generate_series(2, {jobs}) n"
    return [
        f"INSERT INTO jobs ({columns}) SELECT {values} FROM {series}",
        f"INSERT INTO outbox (delivery_id, content, done_at, node, boot) {done}",
    ]


async def _ask(store: SharedStore, title: str) -> None:
    """The first time and the median of later ones: the first one marks what claims have left behind."""
    since = NOW - 70_000
    await _show(f"jobs, {title}", lambda: store.abandoned(ALIVE, since, 200))
    await _show(f"deliveries, {title}", lambda: store.adopt(ALIVE, ALIVE[0], 200, raise_damaged))


async def _show(title: str, ask: Callable[[], Awaitable[object]]) -> None:
    spent: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask()
        spent.append((time.perf_counter() - began) * 1_000)
    show(title, {"first_ms": round(spent[0], 2), "median_ms": round(statistics.median(spent[1:]), 2)})


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
