"""huey: one consumer with 8 threads, urllib3, Redis with blocking pops; results are not kept.

Its scheduler looks once a second, which is the shortest that it takes.
"""

import time

from huey import RedisHuey
from redis import ConnectionPool

from tests.bench.peers.task import read_task, tell
from tests.bench.peers.waiting import Caller

THREADS = 8  # more of them, or greenlets, cost more time than they win


def main() -> None:
    """Schedules the jobs, then consumes until it is ended."""
    task = read_task()
    caller = Caller(task)
    pool = ConnectionPool.from_url(task.store, max_connections=2 * THREADS)  # each waits on one of its own
    huey = RedisHuey("bench", connection_pool=pool, results=False, utc=True)

    @huey.task()
    def post(n: int) -> None:
        caller.run(n)

    began = time.perf_counter()
    for n in range(task.count):
        post.schedule(args=(n,), eta=task.due(n))
    tell("ready", created=task.count, seconds=time.perf_counter() - began)
    huey.create_consumer(
        workers=THREADS,
        worker_type="thread",
        periodic=False,
        scheduler_interval=1,
        check_worker_health=False,
    ).run()


if __name__ == "__main__":
    main()
