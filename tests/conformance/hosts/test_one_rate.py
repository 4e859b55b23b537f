"""The rate limit of a service over two nodes of a cluster, for calls and claims (SPEC section 13)."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.domain.wire import Answer, OutboundRequest, Outcome
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.persistence.cluster.shared_registry import SqlRates
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import MayGo, NotSent, Sender, always
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.services.router import MemoryRouter, Terms
from tests.conformance.hosts.houses import DaprNode
from tests.conformance.hosts.process import Process, ProcessDatabase
from tests.conformance.hosts.queue_house import QUEUE, TENANT, QueueHouse
from tests.conformance.hosts.stillness import ProcessClock

pytestmark = pytest.mark.anyio
LIMIT = RateLimit(8, SECOND)
JOBS = 40


class Counted(Sender):
    """Answers every call, and knows when it came."""

    def __init__(self, house: QueueHouse) -> None:
        self._house = house
        self.moments: list[int] = []

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        if not may_go():
            raise NotSent
        self.moments.append(self._house.clock.now().steady)
        return Answer(200, body=b"{}")

    async def close(self) -> None:
        """Nothing is held open."""


class LimitedHouse(QueueHouse):
    """A cluster over the stand-in in which one service, and the queue of its name, have a rate limit."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: dict[str, RateSharing] = {}
        self.routers: dict[str, MemoryRouter] = {}

    def route(self, clock: ProcessClock, heartbeat: NodeHeartbeat) -> MemoryRouter:
        """The router of a node, with its part of the limit."""
        holder = heartbeat.holder
        database = ProcessDatabase(self.database, Process("rates", self.points))
        rates = RateSharing(
            shared=SqlRates(database=database),
            clock=clock,
            holder=f"{holder.node} {holder.boot}",
            log=self._write_log,
        )
        router = MemoryRouter(
            instances=self.instances,
            terms=lambda *_: Terms(fixed=("http://shop.test",), rate=LIMIT),
            clock=clock,
            windows=rates.window,
        )

        def go_on(key: tuple[str, str]) -> None:
            router.retry(*key)
            if holder.node in self.at:
                self.at[holder.node].queues.wake([key])

        rates.bind(go_on)
        self.rates[holder.node], self.routers[holder.node] = rates, router
        return router

    def limit_claims(self, name: str) -> MemoryRouter:
        """Claims and calls share one limit."""
        return self.routers[name]

    async def add(self, name: str) -> DaprNode:
        """Starts another node."""
        node = await super().add(name)
        self.sender = self.counted  # type: ignore[assignment]
        return node

    async def start(self) -> "LimitedHouse":
        """Opens the shared database and starts two nodes."""
        self.counted = Counted(self)
        await super().start()
        await self.add("two")
        return self

    async def close(self) -> None:
        """Ends everything."""
        for name in self.nodes:
            await self.rates[name].stop()
        await super().close()


@pytest.fixture
async def house() -> AsyncIterator[LimitedHouse]:
    opened = LimitedHouse()
    await opened.start()
    yield opened
    await opened.close()


def most_in_a_second(moments: list[int]) -> int:
    """The most of them in any second."""
    return max(sum(at <= other < at + SECOND for other in moments) for at in moments)


async def begin_jobs(house: LimitedHouse, url: str) -> None:
    """More jobs than a second allows, at both nodes."""
    for number in range(JOBS):
        await house.create(str(number), qos=1, timeoutSeconds=300, request=[{"url": url}])
        await house.trigger(str(number))
    assert {house.world.place(str(number)) for number in range(JOBS)} == {"one", "two"}


async def test_calls_of_both_nodes_share_one_limit(house: LimitedHouse) -> None:
    """Never more in a second, and hardly less while calls wait."""
    await begin_jobs(house, "service://shop/run")
    await house.advance(JOBS // LIMIT.count * SECOND + 2 * SECOND)
    moments = house.counted.moments
    assert len(moments) == JOBS
    assert most_in_a_second(moments) <= LIMIT.count
    assert all(house.executions(str(number)) == {1: State.SUCCEEDED} for number in range(JOBS))


async def test_a_node_that_dies_takes_nothing_with_it(house: LimitedHouse) -> None:
    """Its part is back after the end of its loan; its calls are made by the other node, within the limit."""
    await begin_jobs(house, "service://shop/run")
    await house.advance(SECOND)
    await house.crash("one")
    await house.advance(40 * SECOND)
    assert most_in_a_second(house.counted.moments) <= LIMIT.count
    assert all(house.executions(str(number)) == {1: State.SUCCEEDED} for number in range(JOBS))


async def test_claims_at_both_nodes_share_the_limit_with_calls(house: LimitedHouse) -> None:
    """A claim gets as many parts as are left, wherever it asks."""
    await begin_jobs(house, f"queue://{QUEUE}")
    moments: list[int] = []
    for step in range(60):
        name = ("one", "two")[step % 2]
        try:
            found = await house.at[name].queues.claim(TENANT, QUEUE, f"w{name}", most=10, wait=0)
        except StoreError:
            found = ()
        moments += [house.clock.now().steady] * len(found)
        await house.advance(200)
    assert most_in_a_second(moments) <= LIMIT.count
    assert len(moments) == JOBS
