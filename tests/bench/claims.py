"""What the claim of a turn costs in SQL: `python -m tests.bench.claims [jobs] [rounds]`."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.store import SharedStore
from scheduler_service.ports.cluster import TurnClaim
from tests.bench.stage import show
from tests.unit.persistence.samples import claim
from tests.unit.persistence.servers import PostgresServer


def main(jobs: int = 2_000, rounds: int = 5) -> None:
    """Prints CPU of this process and claims a second: first turns of jobs, then `rounds` further ones."""
    for name, url in _databases():
        asyncio.run(_measure(name, url, jobs, rounds))


def _databases() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        yield "SQLite", f"sqlite:///{folder}/cluster.db"
    server = PostgresServer()
    try:
        server.start()
        yield "PostgreSQL", f"{server.url}/postgres"
    finally:
        server.remove()


async def _measure(name: str, url: str, jobs: int, rounds: int) -> None:
    database = await SharedDatabase.open(url=url)
    store, ids = SharedStore(database=database), [f"job-{number}" for number in range(jobs)]
    try:
        for title, first, count in (("first turns", 0, 1), ("further turns", 1, rounds)):
            began, spent = time.perf_counter(), time.process_time()
            for sequence in range(first, first + count):
                await asyncio.gather(*(store.claim(_claim(one, sequence)) for one in ids))
            spent, took = time.process_time() - spent, time.perf_counter() - began
            show(
                f"{name}, {title}",
                {"cpu_us": round(spent / jobs / count * 1e6), "per_s": round(jobs * count / took)},
            )
    finally:
        await database.close()


def _claim(job_id: str, expected: int) -> TurnClaim:
    text = b"{}" if expected == 0 else None
    return claim(job_id, due=Due(wall=10_000 + expected), expected=expected, at=expected, definition=text)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
