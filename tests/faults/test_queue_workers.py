"""Twenty workers, leases of one second, workers and the scheduler killed at random (SPEC section 13)."""

import asyncio
import random
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import Run, start_run
from tests.faults.workers import Book, Crowd

pytestmark = pytest.mark.timeout(600)
WORKERS = 20
WORKER_DEATHS = 20
PATIENCE = 400
AT_ONCE = 8
SETTINGS = {"store.durability": "process", "history.retain_count": 100_000}
STEP = {
    "url": "queue://work",
    "leaseSeconds": 1,
    "renewSeconds": 0.4,
    "maxUnexpectedRetries": 1_000,
    "unexpectedRetryDelaySeconds": 0,
}
JOB: dict[str, Any] = {
    "jobId": "job", "jobName": "queued", "creator": "1", "creatorName": "one",
    "timer": {"period": "external"}, "request": [STEP], "overlapPolicy": "allow", "timeoutSeconds": 900,
    "qos": 1,
}  # fmt: skip
JOBS = 10


class Service:
    """The scheduler, which may be killed and started anew over its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.run: Run = start_run(folder, settings=SETTINGS)

    @property
    def url(self) -> str:
        """Where it is, or was."""
        return self.run.url or "http://127.0.0.1:9"

    async def kill(self) -> None:
        """kill -9, and another start."""
        await self.run.kill()
        self.run = start_run(self._folder, settings=SETTINGS)
        assert await self.run.is_up(), self.run.message


async def publish(service: Service, count: int) -> list[str]:
    """So many executions, over a few jobs, each with one part; their ids."""
    for number in range(JOBS):
        answer = await service.run.ask("POST", f"/jobs/job-{number}", json=JOB | {"jobId": f"job-{number}"})
        assert answer.status_code == 201, answer.text
    places = asyncio.Semaphore(AT_ONCE)

    async def trigger(number: int) -> str:
        async with places:
            answer = await service.run.ask("POST", f"/jobs/job-{number % JOBS}/trigger")
            assert answer.status_code == 200, answer.text
            return str(answer.json()["data"]["executionId"])

    return list(await asyncio.gather(*map(trigger, range(count))))


async def are_over(service: Service) -> bool:
    """Whether no job has anything live any more, and the history has heard of the last end."""
    stats = await service.run.read("/stats")
    if stats["running"] or stats["waiting"]:
        return False
    counts = await service.run.read("/counts/executions")
    return bool(counts["byState"]["processing"] == 0)


async def check(service: Service, book: Book, executions: list[str]) -> None:
    """Every part completed, once, by who held its lease then; the history says the same."""
    assert book.late == []
    assert all(len(leases) <= 1 for leases in book.accepted.values()), "completed twice by two holders"
    for execution in executions:
        found = await service.run.read(f"/executions/{execution}")
        assert (found["state"], found["attemptCount"]) == ("succeeded", 1), found
        (step,) = found["attempts"][0]["steps"]
        accepted = {
            book.holders[lease]
            for part, leases in book.accepted.items()
            if part[0] == execution
            for lease in leases
        }
        assert accepted <= {step["instance"]}, (execution, accepted, step["instance"])
    assert {part[0] for part in book.claims} == set(executions)


async def disturb(service: Service, crowd: Crowd, book: Book, count: int, kills: int) -> None:
    """Workers die, and the scheduler `kills` times, evenly over the work. Ends when all is over.

    The count of accepted parts says when: neither a slow answer nor a fast machine leaves a death out.
    """
    last = count * 2 // 3  # beyond it: parts whose answer was lost with a worker or the scheduler
    deaths = [(last * (number + 1) // WORKER_DEATHS, False) for number in range(WORKER_DEATHS)]
    deaths += [(last * (number + 1) // (kills + 1), True) for number in range(kills)]
    for accepted, is_scheduler in sorted(deaths):
        await book.reach(accepted)
        if is_scheduler:
            book.starts += 1  # what is claimed while it goes down belongs to neither life
            await service.kill()
            book.starts += 1
        else:
            await crowd.kill_one()
    await service.run.until(lambda: are_over(service), "no job has anything live any more")


@pytest.mark.long
@pytest.mark.parametrize("count", [300, 5_000])
@pytest.mark.parametrize("kills", [0, 3])
async def test_every_part_is_completed_once(tmp_path: Path, count: int, kills: int) -> None:
    """Whoever dies: no part is lost, none is completed by two holders, no reply counts after its lease."""
    service = Service(tmp_path / "data")
    assert await service.run.is_up(), service.run.message
    book = Book()
    executions = await publish(service, count)
    async with AsyncExitStack() as stack:
        crowd = Crowd(book=book, base=lambda: service.url, chance=random.Random(count + kills))
        stack.push_async_callback(crowd.stop)
        began = time.perf_counter()
        await crowd.start(WORKERS)
        async with asyncio.timeout(PATIENCE):
            await disturb(service, crowd, book, count, kills)
        seconds = time.perf_counter() - began
    await check(service, book, executions)
    print(book.figures() | {"seconds": round(seconds, 1)})
    assert await service.run.terminate() == 0
