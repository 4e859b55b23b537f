"""Jobs of arrays are in memory where they live before they are due first."""

import asyncio

import pytest

from scheduler_service.hosts.dapr.first_loads import (
    LEAST_EARLY_MS,
    LOADS_AT_ONCE,
    MOST_WAITING,
    FirstLoads,
)
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.reminders import NEAR_MS, ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio

NAMES = [f"job{number}" for number in range(12)]


class Client:
    """Loads jobs but those that are ill, while its gate is open."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self, job_id: str) -> None:
        """Raises StoreUnavailable for one that is ill."""
        self.asked.append(job_id)
        await self.gate.wait()
        if job_id == "ill":
            raise StoreUnavailable("the sidecar cannot be reached")


def make_loads(cluster: DaprHouse, client: Client, alarms: ReminderAlarms, tasks: Tasks) -> FirstLoads:
    node = NodeContext(
        cluster=cluster.node.cluster,
        sidecar=Sidecar(client=cluster.node.client),
        clock=cluster.clock,
        log=lambda _, /, **k: None,
    )
    return FirstLoads(node=node, client=client, alarms=alarms, tasks=tasks)  # type: ignore[arg-type]


async def create(cluster: DaprHouse, delay: str) -> None:
    """Jobs of an array that fire once, `delay` from now."""
    timer = {"period": "0s", "dueTime": delay}
    await cluster.host.create_all([describe(jobId=name, timer=timer) for name in NAMES], "")


async def test_what_is_due_is_in_memory_already(cluster: DaprHouse) -> None:
    """So at its moment no job needs daprd or reads anything, and none fires before."""
    await create(cluster, "120s")
    await cluster.advance(80_000)
    assert cluster.host.jobs_held == 0
    await cluster.advance(39_000)
    assert cluster.host.jobs_held == len(NAMES)
    assert cluster.sender.urls() == []
    turns = cluster.world.turns
    await cluster.advance(2_000)
    assert len(cluster.sender.urls()) == len(NAMES)
    assert cluster.world.turns == turns


async def test_what_cannot_be_loaded_keeps_no_other_back(cluster: DaprHouse) -> None:
    """Its ring loads it later. What is due within a second is left to its ring at once."""
    client, tasks = Client(), Tasks()
    loads = make_loads(cluster, client, cluster.host.alarms, tasks)
    now = cluster.clock.now().wall
    for name, pause in {"ill": 10_000, "soon": LEAST_EARLY_MS - 1, "well": 20_000}.items():
        loads.expect(name, now + pause)
    await tasks.wait_for_all()
    assert client.asked == ["ill", "well"]


@pytest.mark.parametrize("delay", [20, 40, 120])
async def test_a_job_waits_where_it_lives(cluster: DaprHouse, delay: int) -> None:
    """Whoever has created it, and whoever sweeps: at its moment no sidecar is asked, and none rings twice."""
    await cluster.add("two")
    await create(cluster, f"{delay}s")
    await cluster.advance(delay * 1_000 - 1_000)
    assert {cluster.world.place(name) for name in NAMES} == {"one", "two"}
    assert cluster.sender.urls() == []
    turns = cluster.world.turns
    assert turns == len(NAMES)
    await cluster.advance(2_000)
    assert len(cluster.sender.urls()) == len(NAMES)
    await cluster.advance(60_000)
    assert cluster.world.turns == turns
    assert cluster.world.registrations == 0


async def test_what_cannot_be_loaded_rings_from_here(cluster: DaprHouse) -> None:
    """At its moment, as if nobody had tried."""
    client, tasks = Client(), Tasks()
    rung: list[str] = []

    async def ring(job_id: str) -> None:
        rung.append(job_id)

    sidecar = Sidecar(client=cluster.node.client)
    alarms = ReminderAlarms(sidecar=sidecar, clock=cluster.clock, ring=ring, log=lambda _, /, **k: None)
    loads = make_loads(cluster, client, alarms, tasks)
    due = cluster.clock.now().wall + 10_000
    for name in ("ill", "well"):
        alarms.ring_at(name, due)
        loads.expect(name, due)
    await tasks.wait_for_all()
    await cluster.advance(9_000)
    assert rung == []
    await cluster.advance(1_000)
    assert rung == ["ill"]


async def test_few_are_loaded_at_once(cluster: DaprHouse) -> None:
    """The next ones when those are loaded; beyond what a node keeps in memory none waits."""
    client, tasks = Client(), Tasks()
    loads = make_loads(cluster, client, cluster.host.alarms, tasks)
    due = cluster.clock.now().wall + 10 * LEAST_EARLY_MS
    client.gate.clear()
    for _ in range(LOADS_AT_ONCE):
        loads.expect("first", due)
    await cluster.settle()
    for _ in range(MOST_WAITING + 1):
        loads.expect("waits", due)
    await cluster.settle()
    assert client.asked == ["first"] * LOADS_AT_ONCE
    client.gate.set()
    await tasks.wait_for_all()
    assert client.asked.count("waits") == MOST_WAITING
    loads.expect("later", due)
    await tasks.wait_for_all()
    assert client.asked[-1] == "later"


async def test_what_is_too_early_waits_within_the_same_bound(cluster: DaprHouse) -> None:
    """It is as many jobs in memory; once the first of them are loaded, others find room."""
    client, tasks = Client(), Tasks()
    loads = make_loads(cluster, client, cluster.host.alarms, tasks)
    due = cluster.clock.now().wall + NEAR_MS + LEAST_EARLY_MS
    for _ in range(MOST_WAITING + 1):
        loads.expect("early", due)
    loads.expect("near", due - LEAST_EARLY_MS)
    await tasks.wait_for_all()
    assert client.asked == []
    await cluster.advance(LEAST_EARLY_MS)
    await tasks.wait_for_all()
    assert client.asked == ["early"] * MOST_WAITING
    loads.expect("near", due)
    await tasks.wait_for_all()
    assert client.asked[-1] == "near"


async def test_a_node_that_stops_loads_no_more(cluster: DaprHouse) -> None:
    """What waits is dropped, and nothing is taken."""
    client, tasks = Client(), Tasks()
    loads = make_loads(cluster, client, cluster.host.alarms, tasks)
    due = cluster.clock.now().wall + 10 * LEAST_EARLY_MS
    loads.expect("waits", due)
    loads.close()
    loads.expect("comes", due)
    await tasks.wait_for_all()
    assert client.asked == []
