"""Limits of a tenant where many come at one moment, in two processes of a service (SPEC section 14)."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.wire.processes.process import serve
from tests.wire.service import data_of, definition
from tests.wire.target import Reply, Seen, Target

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
KEY = "the-key-of-the-settings"
PER_MINUTE, JOBS = 48, 10
BORROWED = PER_MINUTE // 16
"""What a process may begin before it has heard of the other one."""
ENVIRON = {
    "PUNCTUAL_SERVER__KEY": KEY,
    "PUNCTUAL_SERVER__DRAIN_SECONDS": "0",
    "PUNCTUAL_EGRESS__ALLOW": '["127.0.0.0/8"]',
    "PUNCTUAL_LIMITS__TENANT_EXECUTIONS_PER_MINUTE": str(PER_MINUTE),
    "PUNCTUAL_LIMITS__TENANT_JOBS": str(JOBS),
    "PUNCTUAL_TENANTS__free__limits": '{"executions_per_minute": 0}',
}


class Callers:
    """The target of a service, and callers: its admin, that of a limited tenant, that of a free one."""

    def __init__(self, target: Target, admin: httpx.AsyncClient, *tenants: httpx.AsyncClient) -> None:
        self.target = target
        self.admin = admin
        self.small, self.free = tenants
        self._called = asyncio.Event()
        target.always("/free", self._answer)

    def _answer(self, _: Seen) -> Reply:
        self._called.set()
        return Reply()

    async def seen(self, more: int) -> Counter[str]:
        """How often each tenant's jobs have called, once those of the free one have done so `more` times."""
        last = len(self.target.at("/free")) + more
        while len(self.target.at("/free")) < last:
            self._called.clear()
            await self._called.wait()
        return Counter(one.path for one in self.target.seen)

    async def kill_worker(self) -> None:
        """Kills the worker process that serves no callers."""
        (node,) = data_of(await self.admin.get("/nodes"))["items"]
        os.kill(node["processes"][1]["pid"], signal.SIGKILL)


@asynccontextmanager
async def called(folder: Path) -> AsyncIterator[Callers]:
    """A service of two processes with both tenants."""
    async with Target(lambda: round(time.time() * 1_000)) as target, AsyncExitStack() as stack:
        process = stack.enter_context(serve(folder / "data", "--workers", "2", **ENVIRON))
        url = await asyncio.to_thread(process.wait_for_url)

        async def enter(key: str) -> httpx.AsyncClient:
            own = {"Authorization": f"Bearer {key}"}
            caller = httpx.AsyncClient(base_url=url, headers=own, trust_env=False, timeout=60)
            return await stack.enter_async_context(caller)

        callers = [await enter(KEY)]
        for name in ("small", "free"):
            wanted = {"name": name, "role": "admin", "tenant": name}
            callers.append(await enter(data_of(await callers[0].post("/keys", json=wanted), 201)["key"]))
        yield Callers(target, *callers)
        assert await asyncio.to_thread(process.stop) == 0


async def test_executions_of_all_processes_are_within_one_limit(tmp_path: Path) -> None:
    """Of jobs that fire more often, to the full; another tenant's go on. A killed process frees nothing."""
    async with called(tmp_path) as on:
        began = time.monotonic()
        timer = {"period": "1s", "misfire": {"graceSeconds": 600}}
        for caller, path in ((on.small, "small"), (on.free, "free")):
            members = {"timer": timer, "request": [{"url": f"{on.target.url}/{path}"}]}
            array = [definition(jobId=f"job-{number}", **members) for number in range(JOBS)]
            items = data_of(await caller.post("/jobs", json=array))["items"]
            assert {one["status"] for one in items} == {"created"}
        seen = await on.seen(PER_MINUTE + 4 * BORROWED)
        assert PER_MINUTE // 2 <= seen["/small"] <= PER_MINUTE + BORROWED * 2, seen
        await on.kill_worker()
        seen = await on.seen(PER_MINUTE)
        assert time.monotonic() - began < 60, "too busy a machine: the first minute is over"
        assert seen["/small"] <= PER_MINUTE + BORROWED * 3, seen
        refused = await on.small.post("/jobs/job-0/trigger")
        assert refused.status_code == 429, refused.text


async def test_an_idle_tenant_triggers_as_many_as_its_limit(tmp_path: Path) -> None:
    """In whichever process; then it is told when the first of them is over, and `/stats` counts them."""
    async with called(tmp_path) as on:
        array = [definition(jobId=f"job-{number}", overlapPolicy="allow") for number in range(JOBS)]
        data_of(await on.small.post("/jobs", json=array))
        began = time.time()
        for number in range(PER_MINUTE):
            data_of(await on.small.post(f"/jobs/job-{number % JOBS}/trigger"))
        for number in range(JOBS):
            refused = await on.small.post(f"/jobs/job-{number}/trigger")
            assert refused.status_code == 429, refused.text
            free_at = time.time() + int(refused.headers["retry-after"])
            assert began + 59 < free_at < began + 65
        limits = {one["name"]: one["used"] for one in data_of(await on.small.get("/stats"))["limits"]}
        assert limits["tenant_executions_per_minute"] == PER_MINUTE


async def test_creations_of_all_processes_are_within_one_limit(tmp_path: Path) -> None:
    """Alone and in arrays."""
    async with called(tmp_path) as on:
        data_of(await on.small.post("/jobs/job-0", json=definition()), 201)
        arrays = [[definition(jobId=f"in-{row}-{number}") for number in range(8)] for row in range(20)]
        await asyncio.gather(
            *(on.small.post(f"/jobs/job-{number}", json=definition()) for number in range(60)),
            *(on.small.post("/jobs", json=array) for array in arrays),
        )
        assert len(data_of(await on.small.get("/jobs?limit=500"))["items"]) == JOBS
        refused = await on.small.post("/jobs/another", json=definition())
        assert (refused.status_code, refused.json()["limit"]) == (429, {"name": "tenant_jobs", "value": JOBS})
