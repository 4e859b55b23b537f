"""APScheduler 3: AsyncIOScheduler on uvloop, coroutine jobs, aiohttp; jobs in memory or in SQLite.

SQLite is in WAL mode with `synchronous=NORMAL`. The scheduler is paused while jobs are added, as otherwise
each one wakes it. A job that has run is gone: nothing is kept of it.
"""

import asyncio
import logging
import time
from datetime import UTC
from typing import Any

import uvloop
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy import create_engine, event

from tests.bench.peers.asking import Caller
from tests.bench.peers.task import Task, name, read_task, tell

CALLERS: list[Caller] = []  # a stored job names a function of a module: what it needs cannot be bound to it


async def post(n: int) -> None:
    """The job's body."""
    await CALLERS[0].run(n)


async def main() -> None:
    """Adds the jobs, then runs until it is ended."""
    task = read_task()
    CALLERS.append(Caller(task))
    scheduler = AsyncIOScheduler(
        jobstores={"default": _jobstore(task)},
        job_defaults={"misfire_grace_time": None, "max_instances": 1},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    began = time.perf_counter()
    for n in range(task.count):
        scheduler.add_job(post, "date", run_date=task.due(n), args=(n,), id=name(n))
    seconds = time.perf_counter() - began
    scheduler.resume()
    tell("ready", created=task.count, seconds=seconds)
    await asyncio.Event().wait()


def _jobstore(task: Task) -> Any:
    if not task.store:
        return MemoryJobStore()
    engine = create_engine(f"sqlite:///{task.store}/jobs.db")
    event.listen(engine, "connect", _prepare)
    return SQLAlchemyJobStore(engine=engine)


def _prepare(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


if __name__ == "__main__":
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    uvloop.run(main())
