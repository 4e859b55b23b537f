"""The sweep finds what a dead node or a missing sidecar left."""

from typing import Any

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.turn_events import Activated, Paused
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.first_turns import FirstRings
from scheduler_service.hosts.dapr.sidecar import ALARM
from scheduler_service.hosts.dapr.sweep import Sweep
from scheduler_service.ports.errors import StoreError
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.persistence.cluster_store import unheard
from tests.unit.persistence.samples import claim, delivery

pytestmark = pytest.mark.anyio
HERD = 20


async def test_a_sidecar_that_is_away_costs_no_firing(cluster: DaprHouse) -> None:
    """What lives here goes on without it; what a caller asks goes through it."""
    await cluster.create(timer={"dueTime": "1s", "period": "1s"}, qos=1)
    cluster.world.is_down = True
    with pytest.raises(StoreError):
        await cluster.trigger()
    await cluster.advance(5_000)
    cluster.world.is_down = False
    await cluster.advance(5_000)
    planned = [record.planned_at for record in cluster.finished("job")]
    assert len(planned) == len(set(planned)) >= 9


async def test_what_comes_late_but_comes_is_not_rung_a_second_time(cluster: DaprHouse) -> None:
    """A herd's reminders come two a second: each job fires by its own; one without, when the herd is over."""
    jobs = [f"job{number}" for number in range(HERD)]
    for job in (*jobs, "lost"):
        await cluster.create(job, timer={"dueTime": "60s", "period": "1h"})
        for event in (Paused(), Activated()):  # by its actor, so that a reminder guards it
            await cluster.deliver(event, job)
    due = min(moment for moment, _ in cluster.world.reminders.values())
    for number, job in enumerate(jobs):
        pause = due - cluster.clock.now().steady + (number + 1) * 500
        cluster.world.remind(job, ALARM, pause)
    cluster.world.forget("lost")
    await cluster.advance(60_000 + HERD * 500 + 4_000)
    late = [record.started_at - record.planned_at for job in jobs for record in cluster.finished(job)]
    assert len(late) == HERD
    assert [one // 500 for one in late] == [number + 1 for number in range(HERD)]
    (lost,) = cluster.finished("lost")
    assert HERD * 500 < lost.started_at - lost.planned_at <= HERD * 500 + 4_000


async def test_all_that_dead_nodes_left_is_rung_and_none_twice_in_a_minute(cluster: DaprHouse) -> None:
    """200 in each round, those that run first: a ring that changes nothing leaves its job in the list."""
    now = cluster.clock.now().steady
    left = [claim(f"job{n}", live=n % 3 == 0, holder=Holder(f"gone{n % 2}", "1"), at=now) for n in range(450)]
    await cluster.node.shared.claim_all(left)
    rung: list[str] = []
    sweep = make_sweep(cluster, rung)
    counts = []
    for _ in range(4):
        await sweep.sweep()
        counts.append(len(rung))
    assert counts == [200, 400, 450, 450]
    assert len(set(rung)) == 450
    of_one_node = [one for one in rung if int(one[3:]) % 2 == 0]
    assert {int(one[3:]) % 3 for one in of_one_node[:75]} == {0}
    cluster.clock.advance(60_000)
    await sweep.sweep()
    assert len(rung) == 650


async def test_a_job_is_rung_again_for_another_claim(cluster: DaprHouse) -> None:
    """One whose node was not known yet when it was rung, and stopped within the minute."""
    now = cluster.clock.now().steady
    new = Holder("new", "1")
    await cluster.node.shared.claim_all([claim(live=1, holder=new, at=now)])
    rung: list[str] = []
    sweep = make_sweep(cluster, rung)
    await sweep.sweep()
    await sweep.sweep()
    assert rung == ["job"]
    await cluster.node.shared.claim_all([claim(live=1, expected=1, holder=new, at=now + 1_000)])
    await sweep.sweep()
    assert rung == ["job", "job"]


@pytest.mark.parametrize("has_lease", [True, False])
async def test_a_delivery_that_was_adopted_without_an_answer_is_sent(
    cluster: DaprHouse, has_lease: bool
) -> None:
    """Nobody else adopts it while this node lives, which looks it up whoever sweeps by now."""
    shared, adopt = cluster.node.shared, cluster.node.shared.adopt

    async def refuse(*given: object) -> bool:
        return False

    async def lose(*given: Any) -> list[Delivery]:
        shared.adopt = adopt  # type: ignore[method-assign]
        if not has_lease:
            cluster.node.nodes.lease = refuse  # type: ignore[assignment, method-assign]
        with unheard(shared.database, is_written=True):
            return await adopt(*given)

    shared.adopt = lose  # type: ignore[assignment, method-assign]
    await shared.keep([delivery(1, durable=True)], [], Holder("gone", "1"))
    await cluster.advance(5_000)
    assert cluster.sender.urls() == [delivery(1).request.url]
    assert await shared.deliveries("", 10) == []


async def test_a_node_that_stops_leaves_the_sweep_to_another_one_at_once(cluster: DaprHouse) -> None:
    """Its lease has not to end first."""
    two = await cluster.add("two")
    await cluster.advance(2_000)
    now = cluster.clock.now().steady
    other = two.host.heartbeat.holder
    assert not await two.nodes.lease("sweep", other, now, now + 1)
    await cluster.node.host.stop(0)
    assert await two.nodes.lease("sweep", other, now + 1, now + 2)


def make_sweep(cluster: DaprHouse, rung: list[str]) -> Sweep:
    """A sweep of the first node that only notes what it rings."""

    async def ring(job_id: str) -> None:
        rung.append(job_id)

    node = cluster.node.parts
    first_rings = FirstRings(node=node, ring_at=lambda *_: None, expect=lambda *_: None)
    return Sweep(node=node, ring=ring, lag=lambda: 0, first_rings=first_rings, take_over=lambda *_: None)
