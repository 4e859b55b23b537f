"""Jobs of arrays ring for their first turn, though no reminder guards them."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.dapr.first_turns import (
    LEAST_EARLY_MS,
    LOADS_AT_ONCE,
    LOOKS_AHEAD_MS,
    MOST_WAITING,
    PAGE,
    PAGES,
    WAITS_AT_CREATOR_MS,
    FirstLoads,
    FirstRings,
)
from scheduler_service.hosts.dapr.reminders import NEAR_MS, ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.ports.cluster import Unbegun
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
ONE, TWO = Holder("one", "1"), Holder("two", "2")


class Jobs:
    """What a database would find among some jobs that it has."""

    def __init__(self, cluster: DaprHouse, jobs: Sequence[Unbegun]) -> None:
        self.cluster = cluster
        self.jobs = sorted(jobs, key=lambda one: (one.due, one.job_id))
        self.rung: list[tuple[str, int]] = []
        self.asked = 0
        parts = cluster.node.parts
        found = msgspec.structs.replace(parts.cluster, store=self)  # type: ignore[arg-type]
        node = msgspec.structs.replace(parts, cluster=found)
        self.expected: list[tuple[str, int]] = []
        self.rings = FirstRings(
            node=node,
            ring_at=lambda job_id, moment: self.rung.append((job_id, moment)),
            expect=lambda job_id, moment: self.expected.append((job_id, moment)),
        )

    async def unbegun(self, after: tuple[int, str], until: int, limit: int) -> list[Unbegun]:
        """`ClusterStore.unbegun`."""
        self.asked += 1
        return [one for one in self.jobs if after < (one.due, one.job_id) and one.due <= until][:limit]

    async def look(self, *alive: Holder) -> list[str]:
        """The jobs that ring by one look."""
        self.rung.clear()
        await self.rings.look(alive, self.cluster.clock.now())
        return [job_id for job_id, _ in self.rung]


async def test_each_is_found_once_before_its_moment(cluster: DaprHouse) -> None:
    """However often is looked; what was due before is overdue, and not found here."""
    now = cluster.clock.now().wall
    pauses = {"old": -60_000, "now": 0, "soon": LOOKS_AHEAD_MS, "later": LOOKS_AHEAD_MS + 500, "far": 10**9}
    jobs = Jobs(cluster, [Unbegun(name, now + pause, 0, ONE) for name, pause in pauses.items()])
    assert await jobs.look(ONE) == ["now", "soon"]
    assert jobs.rung[-1] == ("soon", now + LOOKS_AHEAD_MS)
    assert await jobs.look(ONE) == []
    cluster.clock.advance(1_000)
    assert await jobs.look(ONE) == ["later"]
    cluster.clock.advance(1_000)
    assert await jobs.look(ONE) == []


async def test_what_its_creator_waits_for_is_left_to_it(cluster: DaprHouse) -> None:
    """As long as that is alive."""
    now = cluster.clock.now().wall
    near = Unbegun("near", now + 10_000, now + 10_000 - WAITS_AT_CREATOR_MS, TWO)
    far = Unbegun("far", now + 10_000, now + 10_000 - WAITS_AT_CREATOR_MS - 1, TWO)
    jobs = Jobs(cluster, [near, far])
    assert await jobs.look(ONE, TWO) == ["far"]
    assert jobs.expected == [("far", far.due)], "whoever waits for it has it loaded"
    assert await Jobs(cluster, [near, far]).look(ONE) == ["far", "near"]


async def test_a_herd_is_read_in_pages(cluster: DaprHouse) -> None:
    """All of one moment; a look reads a few, the next one goes on."""
    now = cluster.clock.now().wall
    count = PAGE * PAGES + 7
    jobs = Jobs(cluster, [Unbegun(f"{number:05}", now + 20_000, 0, ONE) for number in range(count)])
    found = await jobs.look(ONE)
    assert len(found) == PAGE * PAGES
    assert jobs.asked == PAGES
    found += await jobs.look(ONE)
    assert found == [one.job_id for one in jobs.jobs]


@pytest.mark.parametrize("dies", ["one", "two"])
async def test_the_sweep_moves_with_its_work(cluster: DaprHouse, dies: str) -> None:
    """Whoever of two nodes dies, creator and sweeper or neither: far jobs fire at their moment."""
    await cluster.add("two")
    names = [f"job{number}" for number in range(12)]
    timer = {"period": "0s", "dueTime": "120s"}
    await cluster.host.create_all([describe(jobId=name, timer=timer) for name in names], "")
    await cluster.advance(60_000)
    await cluster.crash(dies)
    await cluster.advance(70_000)
    for name in names:
        (ended,) = cluster.finished(name)
        assert ended.started_at is not None
        assert ended.started_at - ended.planned_at < 100, name


async def test_a_sweeper_that_dies_over_its_rings_makes_them_late_by_seconds(cluster: DaprHouse) -> None:
    """Its lease has to end, and what is overdue by 2 s is rung then."""
    await cluster.add("two")
    names = [f"job{number}" for number in range(12)]
    timer = {"period": "0s", "dueTime": "120s"}
    await cluster.host.create_all([describe(jobId=name, timer=timer) for name in names], "")
    await cluster.advance(119_000)
    await cluster.crash("one")
    await cluster.advance(30_000)
    late = []
    for name in names:
        (ended,) = cluster.finished(name)
        assert ended.started_at is not None
        late.append(ended.started_at - ended.planned_at)
    assert 1_000 < max(late) < 9_000, late


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
    return FirstLoads(node=cluster.node.parts, client=client, alarms=alarms, tasks=tasks)  # type: ignore[arg-type]


async def create(cluster: DaprHouse, delay: str) -> None:
    """Jobs of an array that fire once, `delay` from now."""
    timer = {"period": "0s", "dueTime": delay}
    await cluster.host.create_all([describe(jobId=name, timer=timer) for name in NAMES], "")


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
