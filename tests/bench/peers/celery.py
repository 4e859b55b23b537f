"""Celery: one worker with 100 greenlets, urllib3, Redis; no results, gossip, mingle or heartbeat.

The worker takes tasks with an ETA into its memory and waits there; reading them counts as work.
"""

import os
import sys
import time
from typing import Any

from celery import Celery
from celery.signals import worker_ready

from tests.bench.peers.task import read_task, tell

GREENLETS = 100


def make_app() -> Celery:
    """The application, by which the creator and the worker know the task `post`."""
    task = read_task()
    app = Celery("bench", broker=task.store)
    app.conf.update(
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        worker_send_task_events=False,
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=4,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 3600, "max_connections": 2 * GREENLETS},
        enable_utc=True,
    )
    return app


def create() -> float:
    """Publishes all jobs; how many seconds it took."""
    task, app = read_task(), make_app()
    began = time.perf_counter()
    with app.producer_or_acquire() as producer:
        for n in range(task.count):
            app.send_task("post", args=(n,), eta=task.due(n), producer=producer)
    return time.perf_counter() - began


def work(seconds: float) -> None:
    """Works until it is ended."""
    from tests.bench.peers.waiting import Caller  # after gevent has patched the sockets

    task, app = read_task(), make_app()
    caller = Caller(task)

    @app.task(name="post")
    def post(n: int) -> None:
        caller.run(n)

    @worker_ready.connect(weak=False)
    def ready(**_: Any) -> None:
        tell("ready", created=task.count, seconds=seconds)

    off = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    app.worker_main(
        ["worker", "--pool", "gevent", "--concurrency", str(GREENLETS), "--loglevel", "ERROR", *off]
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        work(float(sys.argv[2]))
    else:  # the worker's process starts anew, since gevent has to patch before anything else is imported
        taken = create()
        patched = "from gevent import monkey; monkey.patch_all(); import runpy; "
        again = "runpy.run_module('tests.bench.peers.celery', run_name='__main__')"
        os.execv(sys.executable, [sys.executable, "-c", patched + again, sys.argv[1], str(taken)])
