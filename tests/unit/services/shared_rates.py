"""One rate limit in a dictionary, and nodes that call under it, each with a clock that may differ."""

import asyncio
from collections.abc import Callable

import msgspec

from scheduler_service.domain.moments import Now
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.ports.clock import Alarm
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.shared_registry import RatePage
from scheduler_service.services.rate_sharing import RateSharing, SharedWindow
from tests.manual_clock import ManualClock

TENANT, SHOP = "default", "shop"


class MemoryRates:
    """`ports.SharedRates`; `calls` counts reads and writes.

    `fault` is asked at each writing: "lost", "unsure" (written or not) or "" for none.
    """

    def __init__(self) -> None:
        self.pages: dict[tuple[str, str], RatePage] = {}
        self.reads = self.writes = 0
        self.is_down = False
        self.fault: Callable[[], str] = str

    async def read(self, tenant: str, service: str) -> RatePage:
        self.reads += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise StoreUnavailable("the rates are down")
        return self.pages.get((tenant, service), RatePage())

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        self.writes += 1
        await asyncio.sleep(0)
        fault = self.fault()
        if self.is_down or fault == "lost":
            raise StoreUnavailable("the rates are down")
        if self.pages.get((tenant, service), RatePage()).number != page.number:
            return False
        if fault != "unsure, unwritten":
            self.pages[tenant, service] = msgspec.structs.replace(page, number=page.number + 1)
        if fault.startswith("unsure"):
            raise StoreUncertain("nobody knows")
        return True


class OtherClock:
    """A clock that differs from another one by `skew` ms."""

    def __init__(self, clock: ManualClock, skew: int) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> Now:
        now = self._clock.now()
        return Now(now.wall + self._skew, now.steady + self._skew)

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        return self._clock.call_after(pause, call)

    async def sleep(self, pause: int) -> None:
        await self._clock.sleep(pause)

    async def follow(self) -> bool:
        return False


class LimitedNode:
    """A node, the moments of its calls by the true clock, and how many more wait."""

    def __init__(self, rates: MemoryRates, clock: ManualClock, name: str, skew: int = 0) -> None:
        self._true = clock
        self._clock = OtherClock(clock, skew)
        self.lines: list[str] = []
        self.calls: list[int] = []
        self.waiting = 0
        self.limit = RateLimit(1)
        self.sharing = RateSharing(shared=rates, clock=self._clock, holder=name, log=self._write_log)
        self.sharing.bind(lambda key: self.go_on())

    @property
    def window(self) -> SharedWindow:
        return self.sharing.window(TENANT, SHOP)

    def go_on(self) -> None:
        """Makes the calls that are allowed."""
        now = self._clock.now().steady
        while self.waiting:
            if self.window.wait(self.limit, now) > 0:
                self.window.want(self.waiting, now)
                return
            self.window.take(now)
            self.calls.append(self._true.now().steady)
            self.waiting -= 1

    def _write_log(self, event: str, /, **keys: object) -> None:
        self.lines.append(event)


class LimitedCluster:
    """Nodes under one limit. Who is killed leaves what it holds behind."""

    def __init__(self, limit: RateLimit) -> None:
        self.clock = ManualClock(wall=1_000_000)
        self.rates = MemoryRates()
        self.limit = limit
        self.nodes: dict[str, LimitedNode] = {}
        self.gone: list[LimitedNode] = []

    def start(self, name: str, skew: int = 0) -> LimitedNode:
        """One more."""
        node = self.nodes[name] = LimitedNode(self.rates, self.clock, f"{name} {len(self.gone)}", skew)
        node.limit = self.limit
        return node

    def kill(self, name: str) -> None:
        """It makes no more calls, and writes nothing more."""
        node = self.nodes.pop(name)
        node.waiting = 0
        self.gone.append(node)

    async def stop(self, name: str) -> None:
        """It ends as it should."""
        node = self.nodes[name]
        self.kill(name)
        await node.sharing.stop()

    async def go_on(self, pause: int, step: int = 10) -> None:
        """Time goes by; who waits looks again."""
        end = self.clock.now().steady + pause
        while self.clock.now().steady < end:
            self.clock.advance(min(step, end - self.clock.now().steady))
            for node in list(self.nodes.values()):
                node.go_on()
            await self.settle()

    async def settle(self) -> None:
        """Returns when nothing goes on any more without the clock."""
        for _ in range(12):
            await asyncio.sleep(0)

    @property
    def calls(self) -> list[int]:
        """Of all nodes, by the true clock."""
        return sorted(at for node in (*self.nodes.values(), *self.gone) for at in node.calls)

    def most_within(self, per: int) -> int:
        """The most calls in any stretch of `per` ms."""
        calls, first, most = self.calls, 0, 0
        for last, at in enumerate(calls):
            while calls[first] <= at - per:
                first += 1
            most = max(most, last - first + 1)
        return most
