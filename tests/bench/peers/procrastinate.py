"""procrastinate: four workers in one process on uvloop, aiohttp, PostgreSQL through psycopg's binary build.

Jobs are deferred in arrays of at most 1,000, and the table is analysed then. Each worker polls every 50 ms
(a job that becomes due sends no notification), runs 25 jobs at once, and deletes a job that has run. It takes
one job at a time from the store, so four of them are faster than one.
"""

import asyncio
import itertools
import time

import uvloop
from procrastinate import App, PsycopgConnector

from tests.bench.peers.asking import Caller
from tests.bench.peers.task import Task, read_task, tell

WORKERS, AT_ONCE = 4, 25
CONNECTIONS = 10


async def main() -> None:
    """Defers the jobs, then works until it is ended."""
    task = read_task()
    caller = Caller(task)
    connector = PsycopgConnector(conninfo=task.store, min_size=CONNECTIONS, max_size=CONNECTIONS)
    app = App(connector=connector)

    @app.task(name="post")
    async def post(n: int) -> None:
        await caller.run(n)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        seconds = await _create(app, task)
        await connector.execute_query_async("ANALYZE")
        tell("ready", created=task.count, seconds=seconds)
        await asyncio.gather(*[_work(app, n) for n in range(WORKERS)])


async def _work(app: App, number: int) -> None:
    await app.run_worker_async(
        name=f"worker-{number}",
        concurrency=AT_ONCE,
        fetch_job_polling_interval=0.05,
        listen_notify=False,
        delete_jobs="always",
        install_signal_handlers=False,
    )


async def _create(app: App, task: Task) -> float:
    began = time.perf_counter()
    for group in task.groups():
        deferrer = app.configure_task("post", schedule_at=task.due(group[0]))
        numbers = iter(group)
        while some := list(itertools.islice(numbers, 1000)):
            await deferrer.batch_defer_async(*[{"n": n} for n in some])
    return time.perf_counter() - began


if __name__ == "__main__":
    uvloop.run(main())
