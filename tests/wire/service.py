"""The whole service in this process, in memory, with a clock in the test's hand and a target on loopback."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from scheduler_service.app.local_service import LocalService, open_service
from scheduler_service.settings import LoadedSettings, Settings
from tests.manual_clock import ManualClock, WatchedClock
from tests.wire.target import Target

START = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
SERVED = "http://127.0.0.1:8000"
QUIET_ROUNDS = 8
BUSY_ROUNDS = 24
"""After so many rounds of the loop another thread is awaited: it is left the processor for `REST`."""
REST = 0.001
PATIENCE = 60.0


class World:
    """A service that runs, its target, its clock, and a caller."""

    def __init__(self, *, service: LocalService, target: Target, clock: WatchedClock, log: list[Any]) -> None:
        self.service = service
        self.target = target
        self.instances: dict[str, Target] = {}
        self.clock = clock
        self.log = log
        self.waiting = 0
        """How many steps wait for the end of a pause."""
        self.client = self.caller()
        self._is_stopped = False

    def caller(self, address: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
        """A caller from `address`."""
        transport = httpx.ASGITransport(self.service.api, client=(address, 4321))
        return httpx.AsyncClient(transport=transport, **{"base_url": SERVED, **options})

    def seconds(self) -> float:
        """The time since 1970 of the service's clock, for a service of the SDK beside it."""
        return self.clock.now().wall / 1_000

    async def advance(self, seconds: float) -> None:
        """The clock runs on from one planned call to the next; all that follows from each has its time."""
        await self.settle()
        await self.clock.run_on(round(seconds * 1_000), self.settle)

    async def settle(self) -> None:
        """Returns when everything that can go on without the clock has, held answers left out."""
        async with asyncio.timeout(PATIENCE):
            quiet = busy = 0
            while quiet < QUIET_ROUNDS:
                await asyncio.sleep(REST if busy >= BUSY_ROUNDS else 0)
                quiet, busy = (quiet + 1, 0) if self._is_quiet else (0, busy + 1)

    async def until(self, condition: Callable[[], Awaitable[Any]]) -> Any:
        """What `condition` gives once it is true; real time passes meanwhile, the clock stands."""
        async with asyncio.timeout(PATIENCE):
            rounds = 0
            while not (found := await condition()):
                await asyncio.sleep(REST if rounds >= BUSY_ROUNDS else 0)
                rounds += 1
            return found

    async def stop(self, grace: int = 0) -> None:
        """Stops the service, once; the clock runs while it drains."""
        if self._is_stopped:
            return
        self._is_stopped = True
        with _moving(self.clock):
            await self.service.stop(grace)

    async def ended(self, execution_id: str) -> dict[str, Any]:
        """The execution in full, once the history has it as ended."""

        async def read() -> dict[str, Any] | None:
            found = await self.client.get(f"/executions/{execution_id}")
            data: dict[str, Any] = found.json()["data"]
            return data if data["endedAt"] is not None else None

        result: dict[str, Any] = await self.until(read)
        return result

    @property
    def _is_quiet(self) -> bool:
        is_reading = self.clock.sleepers == 0
        return not is_reading and self.service.is_settled(open_calls=self._held)

    @property
    def _held(self) -> int:
        return self.waiting + sum(target.held for target in (self.target, *self.instances.values()))


@asynccontextmanager
async def running(*, wall: int = START, **settings: Any) -> AsyncIterator[World]:
    """A started service in memory; `settings` are groups, as in `limits={"body_bytes": 100}`.

    The services `jobswork` and `jobsclient` are the target. `wall`: where its clock begins.
    """
    clock = WatchedClock(wall=wall)
    log: list[Any] = []
    async with Target(lambda: clock.now().wall) as target:
        static = {"jobswork": (target.url,), "jobsclient": (target.url,)}
        given = {"store": {"data": ":memory:"}} | settings
        given["services"] = {"static": static, **settings.get("services", {})}
        service = await open_service(
            LoadedSettings(Settings.model_validate(given), {}),
            served=SERVED,
            log=lambda event, /, **keys: log.append((event, keys)),
            keep_time=lambda *, skew, on_step: clock,
        )
        await service.start()
        world = World(service=service, target=target, clock=clock, log=log)
        try:
            async with world.client:
                yield world
        finally:
            await world.stop()


@contextmanager
def _moving(clock: ManualClock) -> Iterator[None]:
    """Whoever waits for the clock while the service stops, need not; threads that end have the processor."""

    async def move() -> None:
        for rounds in itertools.count():
            clock.advance(20)
            await asyncio.sleep(REST if rounds >= BUSY_ROUNDS else 0)

    task = asyncio.get_running_loop().create_task(move())
    try:
        yield
    finally:
        task.cancel()


def definition(**members: Any) -> dict[str, Any]:
    """A small definition that fires from outside only; `members` win."""
    base: dict[str, Any] = {
        "jobName": "a job",
        "creator": "1",
        "creatorName": "one",
        "timer": {"period": "external"},
        "request": [{"url": "service://jobswork/run"}],
    }
    return base | members


def pointers(response: httpx.Response) -> list[tuple[str, str]]:
    """Where and what of a problem's errors, its form checked."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == body["resp_code"] == response.status_code
    assert body["resp_msg"] == body["detail"]
    assert {"type", "title", "detail", "errors"} <= body.keys()
    return [(error["pointer"], error["code"]) for error in body["errors"]]


def data_of(response: httpx.Response, status: int = 200) -> Any:
    """`data` of a success, its envelope checked."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body.keys() == {"resp_code", "resp_msg", "data", "warnings"}
    assert (body["resp_code"], body["resp_msg"]) == (200, None)
    return body["data"]
