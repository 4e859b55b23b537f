"""The alarms of jobs that were created together are set after the answer, the soonest first."""

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.hosts.dapr.first_alarms import MOST_WAITING, REGISTRATIONS_AT_ONCE, FirstAlarms
from scheduler_service.hosts.dapr.node import NodeContext
from scheduler_service.hosts.dapr.reminders import NEAR_MS, ReminderAlarms
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.tasks import Tasks
from tests.conformance.hosts.houses import TIMEOUT_FACTOR, DaprHouse

pytestmark = pytest.mark.anyio


class Rings:
    """A node's alarms whose rings are noted."""

    def __init__(self, cluster: DaprHouse) -> None:
        self.cluster = cluster
        self.rung: list[str] = []
        self.tasks = Tasks()
        sidecar = Sidecar(client=cluster.node.client, timeout_factor=TIMEOUT_FACTOR)
        node = NodeContext(cluster=cluster.node.cluster, sidecar=sidecar, clock=cluster.clock, log=self.log)
        alarms = ReminderAlarms(sidecar=sidecar, clock=cluster.clock, ring=self.ring, log=self.log)
        self.alarms = FirstAlarms(node=node, alarms=alarms, tasks=self.tasks)

    def log(self, event: str, /, **keys: object) -> None:
        """Nobody reads it."""

    async def ring(self, job_id: str) -> None:
        """Notes it."""
        self.rung.append(job_id)

    def arm(self, job_id: str, pause: int) -> None:
        """The job is due in `pause` ms."""
        self.alarms.arm(job_id, Due(wall=self.cluster.clock.now().wall + pause))


async def test_what_is_near_waits_in_the_process(cluster: DaprHouse) -> None:
    """It rings at its moment, without a reminder; what is never due does not."""
    rings = Rings(cluster)
    rings.arm("late", 2_000)
    rings.arm("now", 0)
    rings.arm("past", -5_000)
    rings.alarms.arm("never", Due())
    await cluster.advance(1)
    assert rings.rung == ["now", "past"]
    await cluster.advance(2_000)
    assert rings.rung == ["now", "past", "late"]
    assert cluster.world.registrations == 0


async def test_what_is_far_gets_a_reminder_the_soonest_first(cluster: DaprHouse) -> None:
    """A few at once; who asks is not kept waiting."""
    order: list[str] = []
    remind = cluster.world.remind
    cluster.world.remind = lambda job, name, pause: (order.append(job), remind(job, name, pause))  # type: ignore[method-assign,assignment]
    rings = Rings(cluster)
    count = REGISTRATIONS_AT_ONCE * 3
    for number in reversed(range(count)):
        rings.arm(str(number), NEAR_MS + 1_000 + number)
    assert order == []
    await rings.tasks.wait_for_all()
    assert sorted(order, key=int) == [str(number) for number in range(count)]
    first = order[: count // 3]
    assert max(map(int, first)) < count // 2
    assert rings.alarms.registered == count


async def test_a_reminder_that_is_not_taken_is_set_again(cluster: DaprHouse) -> None:
    """In a second; where the moment is near by then, the process waits for it itself."""
    cluster.world.is_down = True
    rings = Rings(cluster)
    rings.arm("far", 10 * NEAR_MS)
    rings.arm("soon", NEAR_MS + 500)
    await cluster.advance(NEAR_MS + 1_000)
    assert rings.rung == ["soon"]
    cluster.world.is_down = False
    await cluster.advance(1_001)
    assert list(cluster.world.reminders) == [("far", "first")]
    assert rings.alarms.registered == 1


async def test_no_more_wait_than_the_sweep_finds_after_a_death(cluster: DaprHouse) -> None:
    """Who has no room for another alarm creates the job in another way; a node that stops has none."""
    cluster.world.is_down = True
    rings = Rings(cluster)
    for number in range(MOST_WAITING):
        assert rings.alarms.has_room
        rings.arm(str(number), 10 * NEAR_MS)
    assert not rings.alarms.has_room
    await rings.tasks.cancel()


async def test_a_node_that_stops_sets_none(cluster: DaprHouse) -> None:
    """Nothing is begun any more."""
    rings = Rings(cluster)
    rings.alarms.close()
    assert not rings.alarms.has_room
    rings.arm("a", 10 * NEAR_MS)
    rings.arm("b", 0)
    await cluster.advance(1_000)
    assert rings.rung == []
    assert cluster.world.registrations == 0
