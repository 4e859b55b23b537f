"""A service of two processes: jobs of both shards, and what a death of one costs."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_service.app.store_opening import shard_of
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from tests.faults.processes import is_running, until
from tests.wire.event_stream import Stream
from tests.wire.processes.process import Process, serve
from tests.wire.target import HELD, Target

pytestmark = pytest.mark.timeout(180)
SHARDS = 2
JOBS = [f"job-{number}" for number in range(12)]
ENDED = {"succeeded", "terminated", "cancelled", "skipped"}


class Service:
    """`punctual serve --workers N` over one folder, started again and again."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.data = folder / "data"
        self.target = target
        self.process: Process | None = None
        self.killed: list[Process] = []
        # An answer takes two seconds where a process stands still, and what a busy machine takes.
        self.client = httpx.AsyncClient(trust_env=False, timeout=30)

    async def start(self, workers: int = SHARDS) -> None:
        """Returns when it answers and fires."""
        self.process = serve(self.data, "--workers", str(workers))
        self.client.base_url = httpx.URL(await asyncio.to_thread(self.process.wait_for_url))

    async def kill(self) -> None:
        """kill -9 of the service itself."""
        assert self.process is not None
        self.process.send(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait_for_exit)
        self.killed.append(self.process)

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.stop)

    @property
    def workers(self) -> list[int]:
        """The ids of its worker processes."""
        assert self.process is not None
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def back(self, many: int) -> None:
        """Returns when worker processes have come back so many times."""
        assert self.process is not None
        await asyncio.to_thread(self.process.wait_for_line, '"worker_restarted"', many=many)
        assert (await self.client.get("/health/ready")).status_code == 200

    async def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """`data` of an answer."""
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json()["data"] if answer.content else None

    async def create(self, *jobs: dict[str, Any]) -> None:
        """All of them in one array."""
        items = (await self.ask("POST", "/jobs", json=list(jobs)))["items"]
        assert [item["status"] for item in items] == ["created"] * len(jobs), items

    async def listed(self, path: str, **query: Any) -> list[Any]:
        """All items of a list, a small page at a time."""
        found: list[Any] = []
        cursor: str | None = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            page = await self.ask("GET", path, params={"limit": 5, **query, **more})
            found += page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                return found


def define(job_id: str, target: Target, **members: Any) -> dict[str, Any]:
    """A job with one step."""
    common = {"jobName": job_id, "creator": "test", "creatorName": "Test", "qos": 1}
    step = {"url": f"{target.url}/run/{job_id}", "method": "POST", "body": {"job": job_id}}
    return {"jobId": job_id, **common, "timer": {"period": "external"}, "request": [step], **members}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service that is not started yet, and its target."""
    async with Target(lambda: int(time.time() * 1_000)) as target:
        service = Service(tmp_path, target)
        try:
            yield service
        finally:
            await service.client.aclose()
            if service.process is not None:
                service.process.__exit__()
            for process in service.killed:  # what they said ends with their worker processes
                process.wait()


async def has_ended(service: Service, execution: str) -> Any:
    """The execution, once it has ended."""

    async def look() -> Any:
        found = await service.ask("GET", f"/executions/{execution}")
        return found if found["state"] in ENDED else None

    return await until(look, f"{execution} has ended")


def test_the_jobs_lie_in_all_shards() -> None:
    """Otherwise the tests here would show little."""
    assert set(map(shard_of(SHARDS), JOBS)) == set(range(SHARDS))


@pytest.mark.long
async def test_several_processes_answer_as_one(service: Service) -> None:
    """Created, listed, triggered, changed, read and removed, whichever shard a job is in
    (SPEC section 10)."""
    await service.start()
    assert len(service.workers) == SHARDS - 1
    hook = {"url": f"{service.target.url}/hook", "stateEquals": ["finalSucceed"], "guarantee": "outbox"}
    await service.create(*(define(job, service.target, notification=[hook]) for job in JOBS))
    assert [one["jobId"] for one in await service.listed("/jobs")] == sorted(JOBS)
    newest = await service.listed("/jobs", sort="-createdAt")
    assert [one["createdAt"] for one in newest] == sorted((one["createdAt"] for one in newest), reverse=True)
    runs = [(await service.ask("POST", f"/jobs/{job}/trigger"))["executionId"] for job in JOBS]
    ends = [await has_ended(service, run) for run in runs]
    assert [one["state"] for one in ends] == ["succeeded"] * len(JOBS)
    assert Counter(one.path for one in service.target.at("/run")) == Counter(f"/run/{job}" for job in JOBS)
    assert {one["executionId"] for one in await service.listed("/executions")} >= set(runs)

    async def delivered() -> bool:
        told = await service.listed("/deliveries")
        return [one["state"] for one in told] == ["delivered"] * len(JOBS)

    await until(delivered, "everybody was told")
    for job in JOBS:
        headers = {"Idempotency-Key": job}
        once = (await service.ask("POST", f"/jobs/{job}/trigger", headers=headers))["executionId"]
        again = (await service.ask("POST", f"/jobs/{job}/trigger", headers=headers))["executionId"]
        assert once == again
        await has_ended(service, once)
        renamed = define(job, service.target, jobName="renamed")
        options = {"params": {"onExisting": "update"}, "json": [renamed]}
        assert (await service.ask("POST", "/jobs", **options))["items"][0]["status"] == "updated"
        await service.ask("PUT", f"/jobs/{job}?active=0")
        shown = await service.ask("GET", f"/jobs/{job}")
        assert (shown["definition"]["jobName"], shown["state"]) == ("renamed", "paused")
    assert (await service.ask("GET", "/stats"))["jobs"]["paused"] == len(JOBS)
    for job in JOBS:
        await service.ask("DELETE", f"/jobs/{job}")
    assert await service.listed("/jobs") == []
    assert await service.stop() == 0


async def test_a_worker_process_that_dies_comes_back(service: Service) -> None:
    """kill -9: its firings go on, nothing recorded is sent again, the API never answers 500."""
    await service.start()
    timer = {"dueTime": "0s", "period": "500ms"}
    members = {"timer": timer, "overlapPolicy": "queue"}
    await service.create(*(define(job, service.target, **members) for job in JOBS))
    await until(lambda: _has_called_all(service), "each job has fired")
    (victim,) = service.workers
    os.kill(victim, signal.SIGKILL)
    for job in JOBS:
        answer = await service.client.get(f"/jobs/{job}")
        assert answer.status_code in (200, 503), answer.text
    await service.back(1)
    for job in JOBS:
        await until(lambda job=job: _pause(service, job), "it pauses")
    await until(lambda: _is_idle(service), "all has ended")
    keys = Counter(one.headers["idempotency-key"] for one in service.target.at("/run"))
    # What waited in line over the pause did not run; what ended just now may not be in the history yet.
    ran = await until(lambda: _ran(service, len(keys)), "the history has all that was sent, and no more")
    assert {run["state"] for run in ran} == {"succeeded"}
    planned = Counter((run["jobId"], run["plannedAt"]) for run in ran)
    assert max(planned.values()) == 1
    assert sum(keys.values()) - len(keys) <= len(JOBS)  # in flight over a death
    assert await service.stop() == 0


async def test_the_service_dies_and_its_worker_processes_with_it(service: Service) -> None:
    """kill -9, then another number of processes, at once: all jobs are there and fire."""
    await service.start()
    await service.create(*(define(job, service.target) for job in JOBS))
    for workers in (1, 2):
        orphans = service.workers
        await service.kill()
        await service.start(workers)
        assert not any(map(is_running, orphans))
        assert [one["jobId"] for one in await service.listed("/jobs")] == sorted(JOBS)
        runs = [(await service.ask("POST", f"/jobs/{job}/trigger"))["executionId"] for job in JOBS]
        assert {(await has_ended(service, run))["state"] for run in runs} == {"succeeded"}
    assert [file.name for file in service.data.glob("state*.db")] == ["state.db"]
    assert await service.stop() == 0


@pytest.mark.long
async def test_a_stop_lets_run_what_runs(service: Service) -> None:
    """In every process, for as long as the drain may take (SPEC section 14)."""
    await service.start()
    service.target.answers("/run", *[HELD] * len(JOBS))
    await service.create(*(define(job, service.target) for job in JOBS))
    for job in JOBS:
        await service.ask("POST", f"/jobs/{job}/trigger")

    await until(lambda: _has_called_all(service), "all are called")
    assert service.process is not None
    service.process.send(signal.SIGTERM)
    await asyncio.to_thread(service.process.wait_for_line, '"draining"')
    service.target.release()
    assert await asyncio.to_thread(service.process.wait) == 0
    await service.start(1)
    runs = await service.listed("/executions")
    assert [run["state"] for run in runs] == ["succeeded"] * len(JOBS)
    assert len(service.target.at("/run")) == len(JOBS)
    assert await service.stop() == 0


async def test_a_process_that_stands_still_holds_up_its_own_shard(service: Service) -> None:
    """Others run, all jobs are listed, and `/health/ready` names it after a few seconds, until it goes on."""
    await service.start()
    await service.create(*(define(job, service.target) for job in JOBS))
    (frozen,) = service.workers
    os.kill(frozen, signal.SIGSTOP)
    try:
        for job in JOBS:
            if shard_of(SHARDS)(job) != 1:
                await until(lambda job=job: _starts(service, job), f"{job} starts")
        await service.ask("GET", "/nodes")
        assert [one["jobId"] for one in await service.listed("/jobs")] == sorted(JOBS)
        theirs = next(job for job in JOBS if shard_of(SHARDS)(job) == 1)
        triggered = await service.client.post(f"/jobs/{theirs}/trigger")
        assert triggered.status_code == 503
        assert "worker process 1 does not answer" in triggered.text

        async def is_named() -> bool:
            return "worker process 1" in (await service.client.get("/health/ready")).text

        await until(is_named, "it is named")
    finally:
        os.kill(frozen, signal.SIGCONT)

    async def is_ready() -> bool:
        return (await service.client.get("/health/ready")).status_code == 200

    await until(is_ready, "it is ready again")
    assert service.process is not None
    assert not any("worker_lost" in line for line in service.process.err)
    assert await service.stop() == 0


@pytest.mark.long
async def test_what_any_process_answered_is_in_every_list(service: Service) -> None:
    """The process of the service reads what another one has yet to write (SPEC section 10)."""
    await service.start()
    await service.create(*(define(job, service.target, overlapPolicy="allow") for job in JOBS))
    service.target.always("/run", HELD)
    for number, job in enumerate(JOBS, 1):
        run = (await service.ask("POST", f"/jobs/{job}/trigger"))["executionId"]
        assert (await service.ask("GET", "/executions"))["items"][0]["executionId"] == run, job
        run = (await service.ask("POST", f"/jobs/{job}/trigger"))["executionId"]
        items = (await service.ask("GET", f"/jobs/{job}/executions"))["items"]
        assert items[0]["executionId"] == run
        await service.ask("POST", f"/executions/{run}/cancel")
        assert sum((await service.ask("GET", "/stats"))["byState"].values()) == 2 * number
        cancelled = (await service.ask("GET", "/executions", params={"state": "cancelled"}))["items"]
        assert cancelled[0]["executionId"] == run
    assert await service.stop() == 0


@pytest.mark.long
async def test_a_stream_of_events_goes_on_over_a_death(service: Service) -> None:
    """What happens in the successor of a worker process comes on the same stream, without a gap."""
    await service.start()
    await service.create(*(define(job, service.target) for job in JOBS))
    async with service.client.stream("GET", "/events") as answer:
        stream, seen = Stream(answer), set[str]()
        os.kill(service.workers[0], signal.SIGKILL)
        await service.back(1)
        for job in JOBS:
            await service.ask("POST", f"/jobs/{job}/trigger")
        while seen != set(JOBS):
            frames = await stream.until("finalSucceed")
            assert "gap" not in [frame.event for frame in frames]
            seen.add(frames[-1]["jobId"])
    assert await service.stop() == 0


@pytest.mark.long
async def test_work_of_all_shards_is_claimed_as_from_one_queue(service: Service) -> None:
    """By priority and within a capacity; what a lease holds outlives the death of its shard's process."""
    await service.start()
    for number, job in enumerate(JOBS):
        step = {"url": "queue://work", "priority": number % 4, "body": {"job": job}}
        await service.create(define(job, service.target, request=[step]))
    runs = [(await service.ask("POST", f"/jobs/{job}/trigger"))["executionId"] for job in JOBS]
    claim = {"instanceId": "one", "max": len(JOBS), "waitSeconds": 10}
    items = (await service.ask("POST", "/queues/work/claim", json=claim))["items"]
    assert [JOBS.index(item["request"]["body"]["job"]) % 4 for item in items] == [
        priority for priority in (3, 2, 1, 0) for _ in range(len(JOBS) // 4)
    ]
    for victim in service.workers:
        os.kill(victim, signal.SIGKILL)
    await service.back(SHARDS - 1)
    for item in items:
        said = {"status": "succeed", "data": {"done": True}}
        await service.ask("POST", f"/leases/{item['lease']}/complete", json=said)
    assert {(await has_ended(service, run))["state"] for run in runs} == {"succeeded"}
    assert await service.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, SHARDS])
async def test_what_is_paused_stays_so_over_a_death(workers: int, service: Service) -> None:
    """kill -9: nothing is claimed or sent before the end of the pause; then all of it, in order, and once."""
    await service.start(workers)
    await service.ask("PUT", "/services/shop", 201, json={"address": service.target.url})
    limits = {"timeoutSeconds": 2, "retry": [{"errorEquals": "*"}]}
    for job in JOBS:
        queued = {"url": "queue://work", "queueTimeoutSeconds": 2, "body": {"job": job}}
        await service.create(define(f"queued-{job}", service.target, request=[queued], **limits))
        called = {"url": f"service://shop/run/{job}"}
        await service.create(define(job, service.target, request=[called], **limits))
    paused = [await service.ask("POST", f"/{one}/pause") for one in ("queues/work", "services/shop")]
    runs = [
        (await service.ask("POST", f"/jobs/{job}/trigger"))["executionId"]
        for name in JOBS
        for job in (f"queued-{name}", name)
    ]
    claim = {"instanceId": "one", "max": len(JOBS), "waitSeconds": 3}
    for _ in "ab":
        assert (await service.ask("POST", "/queues/work/claim", json=claim))["items"] == []
        await service.kill()
        await service.start(workers)
    assert service.target.at("/run") == []
    again = [await service.ask("POST", f"/{one}/pause") for one in ("queues/work", "services/shop")]
    assert [one["pausedAt"] for one in again] == [one["pausedAt"] for one in paused]
    for one in ("queues/work", "services/shop"):
        await service.ask("POST", f"/{one}/resume")
    items = (await service.ask("POST", "/queues/work/claim", json=claim))["items"]
    assert [item["request"]["body"]["job"] for item in items] == JOBS
    for item in items:
        await service.ask("POST", f"/leases/{item['lease']}/complete", json={"status": "succeed"})
    found = [await has_ended(service, run) for run in runs]
    assert {(one["state"], one["attemptCount"]) for one in found} == {("succeeded", 1)}
    assert Counter(seen.path for seen in service.target.at("/run")) == {f"/run/{job}": 1 for job in JOBS}
    assert await service.stop() == 0


@pytest.mark.long
async def test_jobs_that_are_created_while_a_process_stands_still(service: Service) -> None:
    """503 within a moment, alone and in an array; nothing is half done, and all can be asked for again."""
    await service.start()
    (frozen,) = service.workers
    theirs = [job for job in JOBS if shard_of(SHARDS)(job) == 1]
    everything = [define(job, service.target) for job in JOBS]
    os.kill(frozen, signal.SIGSTOP)
    try:
        refused, array = await asyncio.gather(
            service.client.post(f"/jobs/{theirs[0]}", json=define(theirs[0], service.target)),
            service.ask("POST", "/jobs", json=everything),
        )
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (503, "unknown")
        for item in array["items"]:
            expected = ("refused", 503) if item["jobId"] in theirs else ("created", None)
            assert (item["status"], item["problem"] and item["problem"]["status"]) == expected, item
    finally:
        os.kill(frozen, signal.SIGCONT)

    async def are_there() -> bool:
        again = await service.ask("POST", "/jobs", json=everything)
        return {item["status"] for item in again["items"]} <= {"created", "unchanged"}

    await until(are_there, "all are created")
    assert sorted(job["jobId"] for job in await service.listed("/jobs")) == sorted(JOBS)
    for job in JOBS:
        await service.ask("POST", f"/jobs/{job}/trigger")
    assert await service.stop() == 0


@pytest.mark.long
async def test_a_worker_process_of_an_earlier_service_is_named(service: Service) -> None:
    """By its number, as where one of an earlier service is left: some systems let it outlive its service."""
    await service.start(2)
    await service.kill()
    lock = await asyncio.to_thread(FolderLock.claim_worker, service.data, 1, lock_wait=20)
    try:
        service.process = serve(service.data, "--workers", "2")
        line = await asyncio.to_thread(service.process.wait_for_line, "worker process")
        assert str(os.getpid()) in line.string
        assert await asyncio.to_thread(service.process.wait) == 3
    finally:
        lock.release()
    await service.start(2)
    assert await service.stop() == 0


async def _has_called_all(service: Service) -> bool:
    return {one.path for one in service.target.at("/run")} == {f"/run/{job}" for job in JOBS}


async def _starts(service: Service, job: str) -> bool:
    """Asked again, as the answer says: on a busy machine one that does not stand still may be late too."""
    answer = await service.client.post(f"/jobs/{job}/trigger", headers={"Idempotency-Key": "once"})
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200


async def _pause(service: Service, job: str) -> bool:
    return (await service.client.put(f"/jobs/{job}?active=0&drain=true")).status_code == 200


async def _ran(service: Service, count: int) -> list[Any] | None:
    runs = await service.listed("/executions", limit=500)
    ran = [run for run in runs if run["reason"] != "paused"]
    return ran if len(ran) == count and all(run["endedAt"] for run in ran) else None


async def _is_idle(service: Service) -> bool:
    return (await service.ask("GET", "/stats"))["running"] == 0
