"""Limits of a tenant where many come at one moment, at all processes of a service (SPEC section 14)."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.wire.processes.placements import PLACEMENTS, Placed, Starting, siblings
from tests.wire.service import data_of, definition
from tests.wire.target import Target

KEY = "the-key-of-the-settings"
PER_MINUTE, JOBS = 48, 10
BORROWED = PER_MINUTE // 16
"""What a process may begin before it has heard of the others."""
SECONDS = 8.0
ENVIRON = {
    "PUNCTUAL_SERVER__KEY": KEY,
    "PUNCTUAL_SERVER__DRAIN_SECONDS": "0",
    "PUNCTUAL_EGRESS__ALLOW": '["127.0.0.0/8"]',
    "PUNCTUAL_LIMITS__TENANT_EXECUTIONS_PER_MINUTE": str(PER_MINUTE),
    "PUNCTUAL_LIMITS__TENANT_JOBS": str(JOBS),
    "PUNCTUAL_TENANTS__free__limits": '{"executions_per_minute": 0}',
}


class Callers:
    """A service in processes, its target, and the callers of a tenant at each of its addresses."""

    def __init__(
        self,
        placed: Placed,
        target: Target,
        admin: httpx.AsyncClient,
        tenants: dict[str, list[httpx.AsyncClient]],
    ) -> None:
        self.placed = placed
        self.target = target
        self.admin = admin
        self.small, self.free = tenants["small"], tenants["free"]

    def seen(self) -> Counter[str]:
        """How often each tenant's jobs have called."""
        return Counter(one.path for one in self.target.seen)

    async def kill_worker(self) -> None:
        """Kills the worker process that serves no callers."""
        (node,) = data_of(await self.admin.get("/nodes"))["items"]
        os.kill(node["processes"][1]["pid"], signal.SIGKILL)


@asynccontextmanager
async def called(starting: Starting, folder: Path) -> AsyncIterator[Callers]:
    """A limited tenant and a free one."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(Target(lambda: round(time.time() * 1_000)))
        placed = await stack.enter_async_context(starting(folder, ENVIRON))

        async def enter(url: str, key: str) -> httpx.AsyncClient:
            own = {"Authorization": f"Bearer {key}"}
            caller = httpx.AsyncClient(base_url=url, headers=own, trust_env=False, timeout=60)
            return await stack.enter_async_context(caller)

        admin, tenants = await enter(placed.urls[0], KEY), {}
        for name in ("small", "free"):
            wanted = {"name": name, "role": "admin", "tenant": name}
            key = data_of(await admin.post("/keys", json=wanted), 201)["key"]
            tenants[name] = [await enter(url, key) for url in placed.urls]
        end = time.monotonic() + 30
        for caller in tenants["small"] + tenants["free"]:
            while (await caller.get("/jobs")).status_code == 401:
                assert time.monotonic() < end
                await asyncio.sleep(0.02)
        yield Callers(placed, target, admin, tenants)


def ticking(target: Target, path: str, name: str) -> dict[str, Any]:
    """A job of each second."""
    return definition(
        jobId=name,
        timer={"period": "1s", "misfire": {"graceSeconds": 600}},
        request=[{"url": f"{target.url}/{path}"}],
    )


@pytest.mark.parametrize("starting", PLACEMENTS)
async def test_executions_of_all_processes_are_within_one_limit(starting: Starting, tmp_path: Path) -> None:
    """Of jobs that fire more often, to the full; another tenant's go on. A killed process frees nothing."""
    async with called(starting, tmp_path) as on:
        for caller, path in ((on.small[0], "small"), (on.free[0], "free")):
            array = [ticking(on.target, path, f"job-{number}") for number in range(JOBS)]
            items = data_of(await caller.post("/jobs", json=array))["items"]
            assert {one["status"] for one in items} == {"created"}
        await asyncio.sleep(SECONDS)
        seen = on.seen()
        assert PER_MINUTE // 2 <= seen["/small"] <= PER_MINUTE + BORROWED * 2, seen
        assert seen["/free"] >= JOBS * SECONDS / 2, seen
        if starting is siblings:
            await on.kill_worker()
            await asyncio.sleep(SECONDS)
            assert on.seen()["/small"] <= PER_MINUTE + BORROWED * 3, on.seen()
            assert on.seen()["/free"] > seen["/free"]
        refused = await on.small[-1].post("/jobs/job-0/trigger")
        assert refused.status_code == 429, refused.text
        await on.placed.stop()


@pytest.mark.parametrize("starting", PLACEMENTS)
async def test_creations_at_all_addresses_are_within_one_limit(starting: Starting, tmp_path: Path) -> None:
    """Exactly with one address; each further node may add what it lets in before it has counted."""
    async with called(starting, tmp_path) as on:

        async def create(number: int) -> int:
            caller = on.small[number % len(on.small)]
            return (await caller.post(f"/jobs/job-{number}", json=definition())).status_code

        async def create_some(number: int) -> None:
            caller = on.small[number % len(on.small)]
            array = [definition(jobId=f"in-{number}-{one}") for one in range(8)]
            data_of(await caller.post("/jobs", json=array))

        data_of(await on.small[0].post("/jobs/job-0", json=definition()), 201)
        await asyncio.gather(
            *(create(number) for number in range(60)), *(create_some(one) for one in range(20))
        )
        living = len(data_of(await on.small[0].get("/jobs?limit=500"))["items"])
        assert JOBS <= living <= JOBS * len(on.small)
        await asyncio.sleep(0.3)
        refused = await on.small[-1].post("/jobs/another", json=definition())
        assert (refused.status_code, refused.json()["limit"]) == (429, {"name": "tenant_jobs", "value": JOBS})
        await on.placed.stop()
