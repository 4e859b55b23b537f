"""What readers see of the queues of every store: depth, age, and who holds what (SPEC section 13)."""

from typing import Any

import pytest

from scheduler_service.domain.effects import PublishParts, WithdrawParts
from scheduler_service.domain.leases import QueueFigures, QueueQuery
from scheduler_service.domain.parts import PartName, QueuedPart, QueueOptions
from tests.unit.persistence.queue_bench import DONE, REQUEST, Bench

pytestmark = pytest.mark.anyio
ALL = QueueQuery("default", None, "", 50)
WORK = QueueQuery("default", "work", "", 50)


async def publish_to(bench: Bench, queue: str, tenant: str = "default", **options: Any) -> None:
    """One part, as old as it is the newest."""
    bench.executions += 1
    name = PartName("uid", bench.executions, 1, 0, 0)
    part = QueuedPart(name, queue, 1, REQUEST, QueueOptions(**options), 0, bench.executions, "j", tenant)
    await bench.write(PublishParts((part,)))


async def test_a_queue_without_parts_is_not_listed(bench: Bench) -> None:
    """It is made by its first part, and it is over with its last."""
    assert await bench.queues.figures(ALL) == []
    await bench.publish()
    (leased,) = await bench.claim()
    assert await bench.queues.figures(ALL) == [QueueFigures("work", 0, None, 1)]
    assert await bench.queues.complete(leased.lease, DONE, 1)
    assert await bench.queues.figures(ALL) == []
    await bench.write(WithdrawParts("uid", 1))
    assert await bench.queues.figures(WORK) == []


async def test_depth_age_and_what_is_held(bench: Bench) -> None:
    """The oldest that waits counts, whatever its priority; what its job withdrew is not held."""
    for priority in (0, 5, 0, 0):
        await bench.publish(priority=priority)
    assert await bench.queues.figures(WORK) == [QueueFigures("work", 4, 1, 0)]
    await bench.claim("a", most=2)
    assert await bench.queues.figures(WORK) == [QueueFigures("work", 2, 3, 2)]
    await bench.write(WithdrawParts("uid", 2))
    assert await bench.queues.figures(WORK) == [QueueFigures("work", 2, 3, 1)]
    await bench.queues.sweep(60_000)
    assert await bench.queues.figures(WORK) == [QueueFigures("work", 3, 1, 0)]


async def test_queues_are_listed_by_name_in_pages(bench: Bench) -> None:
    """Those of the tenant alone."""
    for queue in ("b", "a", "c", "a"):
        await publish_to(bench, queue)
    await publish_to(bench, "d", tenant="other")
    await publish_to(bench, "a", tenant="default2")
    first = await bench.queues.figures(QueueQuery("default", None, "", 2))
    assert [(one.name, one.depth) for one in first] == [("a", 2), ("b", 1)]
    second = await bench.queues.figures(QueueQuery("default", None, "b", 2))
    assert [(one.name, one.depth) for one in second] == [("c", 1)]
    assert await bench.queues.figures(QueueQuery("default", "d", "", 1)) == []


async def test_who_holds_what_until_when(bench: Bench) -> None:
    """In order of the parts' ids, in pages; other queues are left out."""
    await publish_to(bench, "else")
    await bench.publish(2, lease=5_000)
    await bench.publish()
    for instance in ("a", "b", "c"):
        await bench.claim(instance, now=7)
    found = await bench.queues.held(WORK)
    assert [(one.instance, one.name.index, one.total, one.until, one.job_id) for one in found] == [
        ("a", 0, 2, 5_007, "job-2"),
        ("b", 1, 2, 5_007, "job-2"),
        ("c", 0, 1, 60_007, "job-3"),
    ]
    after = await bench.queues.held(QueueQuery("default", "work", found[0].part_id, 1))
    assert after == found[1:2]
    assert await bench.queues.held(QueueQuery("default", "nothing", "", 9)) == []
