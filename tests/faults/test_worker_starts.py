"""A worker process that is killed while the service starts, costs nothing but time (SPEC section 16)."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from scheduler_service.app.local_service import LocalService, open_service
from scheduler_service.app.store_opening import shard_of
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.settings import load_settings
from tests.fault_points import EachPoint
from tests.faults.processes import PATIENCE, is_running, until
from tests.unit.engine.rig import definition

pytestmark = pytest.mark.timeout(180)
BASE = "http://127.0.0.1:1"
SHARDS = 2
JOB = "job-0"


def worker_processes() -> list[int]:
    """Those of the service in this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    found = sorted(int(child) for child in children)
    return [pid for pid in found if b"worker_start" in _command_of(pid)]


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended since


def worker_process() -> int:
    """The only one."""
    (found,) = worker_processes()
    return found


def kill(pid: int) -> None:
    """Returns when it is dead; its exit code is left to who waits for it."""
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while is_running(pid):
        assert time.monotonic() < end, f"process {pid} is still there {PATIENCE} s after its SIGKILL"
        time.sleep(0.001)


class Death(EachPoint):
    """Kills the worker process at passage number `at` of the service's own durable writes."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._gate = threading.Lock()
        self._passed = 0

    def at(self, place: str) -> None:
        with self._gate:
            self._passed += 1
            if self._passed == self._at:
                kill(worker_process())


class Look:
    """Asks `service` whether it is ready before each of its durable writes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.said: list[int] = []
        self.service: LocalService | None = None
        self._loop = loop

    def before(self, point: str) -> None:
        if self.service is not None:
            answer = asyncio.run_coroutine_threadsafe(is_ready(self.service), self._loop)
            self.said.append(answer.result(PATIENCE))

    def after(self, point: str) -> None:
        """Nothing."""


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    workers: int = SHARDS,
    faults: FaultPoints | None = None,
    when_opening: Callable[[], None] = lambda: None,
) -> AsyncIterator[LocalService]:
    """A service that is not started; `when_opening` is called when its worker process waits for orders."""
    loaded = load_settings({"store.data": str(folder), "server.workers": workers}, {})

    def keep_time(*, skew: int, on_step: Callable[[int], Awaitable[None]]) -> SystemClock:
        when_opening()
        return SystemClock(skew=skew, on_step=on_step)

    service = await open_service(
        loaded, served=BASE, log=lambda event, /, **keys: None, faults=faults, keep_time=keep_time
    )
    try:
        yield service
    finally:
        await service.stop(0)


def client_of(service: LocalService) -> httpx.AsyncClient:
    """Asks it without a socket between."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=service.api), base_url=BASE)


async def is_ready(service: LocalService) -> int:
    """The status of `/health/ready`."""
    async with client_of(service) as client:
        return (await client.get("/health/ready")).status_code


async def works(service: LocalService) -> None:
    """Returns when it is ready and the worker process takes its job."""

    async def look() -> bool:
        return await is_ready(service) == 200

    await until(look)
    async with client_of(service) as client:
        answer = await client.post(f"/jobs/{JOB}", json=definition(jobId=JOB))
        assert answer.status_code == 201, answer.text
        answer = await client.post(f"/jobs/{JOB}/trigger")
        assert answer.status_code == 200, answer.text


def test_the_worker_process_has_the_job() -> None:
    """Otherwise the tests here would show little."""
    assert shard_of(SHARDS)(JOB) == 1


async def test_killed_at_each_stage_of_its_own_start(tmp_path: Path) -> None:
    """Before it is opened, between its opening and its start, and the next one as soon as it is there."""
    async with opened(tmp_path, when_opening=lambda: kill(worker_process())) as service:
        kill(worker_process())
        starting = asyncio.create_task(service.start())

        async def look() -> bool:
            return len(worker_processes()) == 1

        await until(look)
        kill(worker_process())
        await starting
        await works(service)


@pytest.mark.long
async def test_killed_while_the_service_goes_on(tmp_path: Path) -> None:
    """It takes calls already: the service recovers its own shard, and extends leases."""
    async with opened(tmp_path, faults=Death(1)) as service:
        await service.start()
        await works(service)


async def test_ready_is_said_last(tmp_path: Path) -> None:
    """Not before the queues and the system jobs are there."""
    look = Look(asyncio.get_running_loop())
    async with opened(tmp_path, workers=1, faults=look) as service:
        look.service = service
        await service.start()
        look.service = None
        assert set(look.said) == {503}
        assert await is_ready(service) == 200
