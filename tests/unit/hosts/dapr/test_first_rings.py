"""Jobs of arrays ring for their first turn, though no reminder guards them."""

from collections.abc import Sequence

import pytest

from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.first_rings import (
    LOOKS_AHEAD_MS,
    PAGE,
    PAGES,
    WAITS_AT_CREATOR_MS,
    FirstRings,
)
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.ports.cluster import Unbegun
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
        real = cluster.node.cluster
        node = NodeContext(
            cluster=type(real)(self, real.nodes, real.heartbeat, real.epoch),  # type: ignore[arg-type]
            sidecar=Sidecar(client=cluster.node.client),
            clock=cluster.clock,
            log=lambda event, /, **keys: None,
        )
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
