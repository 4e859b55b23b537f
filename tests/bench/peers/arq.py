"""arq: one worker on uvloop, aiohttp, Redis through hiredis; results are not kept.

The delay between polls is 50 ms instead of 500; 100 jobs run at once.
"""

import asyncio
import time
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import Worker, func

from tests.bench.peers.asking import Caller
from tests.bench.peers.task import Task, name, read_task, tell

AT_ONCE = 100


async def main() -> None:
    """Enqueues the jobs, then works until it is ended."""
    task = read_task()
    caller = Caller(task)

    async def post(_: dict[Any, Any], n: int) -> None:
        await caller.run(n)

    async def ready(_: dict[Any, Any]) -> None:
        tell("ready", created=task.count, seconds=seconds)

    pool = await create_pool(RedisSettings.from_dsn(task.store))
    seconds = await _create(pool, task)
    worker = Worker(
        functions=[func(post, name="post", keep_result=0)],
        redis_pool=pool,
        max_jobs=AT_ONCE,
        poll_delay=0.05,
        keep_result=0,
        log_results=False,
        on_startup=ready,
        handle_signals=False,
    )
    await worker.async_run()


async def _create(pool: ArqRedis, task: Task) -> float:
    numbers = iter(range(task.count))

    async def enqueue() -> None:
        for n in numbers:
            await pool.enqueue_job("post", n, _job_id=name(n), _defer_until=task.due(n))

    began = time.perf_counter()
    await asyncio.gather(*[enqueue() for _ in range(20)])
    return time.perf_counter() - began


if __name__ == "__main__":
    uvloop.run(main())
