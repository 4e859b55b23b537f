"""Punctual: `punctual serve` as shipped (SQLite, durability `full`, all history), jobs posted in arrays.

The service is a child of this program and stays on its cores; the program itself, a client, goes to those of
the target before it posts anything, where the store servers of others stand too. Its store is `FOLDER?qos=N`,
with `&workers=N` for several processes.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from tests.bench.peers.task import Task, name, read_task, tell
from tests.bench.stage import Stage, listening

AT_ONCE = 16  # clients that create jobs one by one
SERVE = ("-m", "scheduler_service", "serve", "--port", "0", "--data")


def main() -> None:
    """Creates the jobs, lets the service run them, and tells at the end what its history has."""
    task = read_task()
    folder, qos, workers = _store(task)
    service = subprocess.Popen(
        [sys.executable, *SERVE, folder, "--workers", workers],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with contextlib.suppress(AttributeError, OSError):  # not on every system
        os.sched_setaffinity(0, task.client_cores)
    stage = Stage(service, listening(service), task.target)
    assert service.stderr is not None
    threading.Thread(target=service.stderr.read, daemon=True).start()  # a full pipe would hold it up
    jobs = [definition(task, n, qos) for n in range(task.count)]
    if task.work == "single":
        rate = asyncio.run(_create_one_by_one(str(stage.client.base_url), jobs))
    else:
        rate = stage.create(jobs)
    tell("ready", created=task.count, seconds=task.count / rate)
    sys.stdin.read()
    tell("end", recorded=_recorded(stage, task))


def definition(task: Task, n: int, qos: int) -> dict[str, Any]:
    """Job n: due at its moment, with the task's steps, each but the first using the last answer."""
    bodies = [{"n": 1}, *[{"n": "${$.n}|json"}] * (task.steps - 1)]
    return {
        "jobId": name(n),
        "jobName": "bench",
        "creator": "bench",
        "creatorName": "bench",
        "qos": qos,
        "timer": {"dueTime": task.due(n).isoformat(timespec="milliseconds"), "period": "0s"},
        "request": [{"url": f"{task.target}/run", "body": body} for body in bodies],
    }


async def _create_one_by_one(url: str, jobs: list[dict[str, Any]]) -> float:
    waiting = iter(jobs)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def create() -> None:
            for job in waiting:
                async with session.post(f"{url}/jobs/{job['jobId']}", json=job) as answer:
                    assert answer.status == 201, await answer.text()

        began = time.perf_counter()
        await asyncio.gather(*[create() for _ in range(AT_ONCE)])
        return len(jobs) / (time.perf_counter() - began)


def _store(task: Task) -> tuple[str, int, str]:
    """The folder, the qos of the jobs, and the number of processes."""
    parts = urlsplit(task.store)
    asked = parse_qs(parts.query)
    return parts.path, int(asked["qos"][0]), asked.get("workers", ["1"])[0]


def _recorded(stage: Stage, task: Task) -> int:
    deadline, found = time.monotonic() + 5, 0
    while task.work != "single" and found < task.count and time.monotonic() < deadline:
        found = int(stage.client.get("/stats").json()["data"]["byState"].get("succeeded", 0))
        time.sleep(0.1)
    return found


if __name__ == "__main__":
    main()
