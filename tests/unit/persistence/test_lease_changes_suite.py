"""What the queues of every store keep of claims and lost leases, and of queue timeouts (SPEC section 13)."""

from typing import Any

import pytest

from scheduler_service.domain.effects import AcceptChanges, PublishParts, ReconfigureParts, WithdrawParts
from scheduler_service.domain.leases import ChangedPart, QueueFigures, QueueQuery
from scheduler_service.domain.step_parts import (
    LeaseChange,
    PartName,
    QueuedPart,
    QueueOptions,
    end_of_unclaimed,
    write_part_id,
)
from tests.unit.persistence.queue_bench import DONE, REQUEST, Bench

pytestmark = pytest.mark.anyio
CLAIM = LeaseChange(1, "a", 5)
LOSS = LeaseChange(2, "a", 60_005, is_lost=True)
AGAIN = LeaseChange(3, "b", 70_005)


async def publish(bench: Bench, at: int = 0, **options: Any) -> PartName:
    """One part, published at the steady moment `at`."""
    bench.executions += 1
    name = PartName("uid", bench.executions, 1, 0, 0)
    part = QueuedPart(
        name, "work", 1, REQUEST, QueueOptions(**options), 0, bench.executions, "job", "default", at
    )
    await bench.write(PublishParts((part,)))
    return name


async def test_changes_are_kept_until_their_job_has_them(bench: Bench) -> None:
    """All of them, in order, with each claim and each lost lease, until one turn accepts the newest."""
    (name,) = await bench.publish()
    (leased,) = await bench.claim("a", now=5)
    assert leased.changes == (CLAIM,)
    changed = ChangedPart(write_part_id(name), "job-1", name, (CLAIM, LOSS))
    assert (await bench.queues.sweep(60_005)).freed == (changed,)
    assert await bench.queues.changed("", 9) == [changed]
    (again,) = await bench.claim("b", now=70_005)
    assert again.changes == (CLAIM, LOSS, AGAIN)
    await bench.write(AcceptChanges(name, 2))
    assert (await bench.queues.changed("", 9))[0].changes == again.changes
    await bench.write(AcceptChanges(name, 3))
    assert await bench.queues.changed("", 9) == []
    ended = await bench.queues.complete(again.lease, DONE, 70_006)
    assert ended
    assert (await bench.queues.ended("", 9))[0].changes == ()


async def test_the_first_claim_of_a_step_is_known(bench: Bench) -> None:
    """Of any of its parts, also after its lease was lost."""
    await bench.publish(2, lease=1_000, delay=0)
    (first,) = await bench.claim("a", now=5)
    (second,) = await bench.claim("b", now=900)
    await bench.queues.sweep(1_005)
    (third,) = await bench.claim("c", now=1_500)
    assert [one.first_claim for one in (first, second, third)] == [5, 5, 5]
    await bench.publish()
    assert [one.first_claim for one in await bench.claim("a", now=2_000)] == [2_000]


async def test_an_end_has_the_changes_that_its_job_has_not(bench: Bench) -> None:
    """Of a completion, and of a part that was lost too often."""
    await bench.publish(retries=0)
    (leased,) = await bench.claim("a", now=5)
    assert await bench.queues.complete(leased.lease, DONE, 6)
    await bench.publish(retries=0)
    await bench.claim("a", now=5)
    (lost,) = (await bench.queues.sweep(60_005)).ended
    assert lost.changes == (CLAIM, LOSS)
    assert [one.changes for one in await bench.queues.ended("", 9)] == [(CLAIM,), (CLAIM, LOSS)]
    assert await bench.queues.changed("", 9) == []


async def test_changes_are_read_in_pages(bench: Bench) -> None:
    """In order of the parts' ids."""
    for _ in range(5):
        await bench.publish()
    await bench.claim(most=5)
    first = await bench.queues.changed("", 3)
    second = await bench.queues.changed(first[-1].part_id, 3)
    assert [one.name.execute_number for one in [*first, *second]] == [1, 2, 3, 4, 5]


async def test_what_nobody_claims_ends_after_its_queue_timeout(bench: Bench) -> None:
    """At that moment nobody can claim it any more, whether or not it was swept."""
    name = await publish(bench, 1_000, queue_timeout=500)
    assert (await bench.queues.sweep(1_499)).next_look == 1_500
    assert await bench.claim(now=1_500) == ()
    (ended,) = (await bench.queues.sweep(1_500)).ended
    assert (ended.name, ended.job_id, ended.end) == (name, "job", end_of_unclaimed(500))
    assert (await bench.queues.ended("", 9))[0].end == ended.end
    assert await bench.queues.sweep(9_000) == type(await bench.queues.sweep(9_000))((), None)


async def test_a_pause_does_not_count_against_the_queue_timeout(bench: Bench) -> None:
    """What waited before it has what was left, what came meanwhile has all of it; leases go on."""
    await publish(bench, 1_000, queue_timeout=900)
    (leased,) = await bench.claim(now=1_100)
    early = await publish(bench, 1_000, queue_timeout=500)
    late = await publish(bench, 4_000, queue_timeout=500)
    for now in (1_500, 4_500, 50_000):
        await bench.queues.hold("default", "work", now)
        assert (await bench.queues.sweep(now)).ended == ()
    await bench.queues.go_on("default", "work", 1_300, 60_000)
    assert (await bench.queues.sweep(60_199)).next_look == 60_200
    assert [one.name for one in (await bench.queues.sweep(60_200)).ended] == [early]
    assert [one.name for one in (await bench.queues.sweep(60_500)).ended] == [late]
    assert await bench.queues.complete(leased.lease, DONE, 60_600)


async def test_the_end_of_a_pause_may_come_twice(bench: Bench) -> None:
    """As after a crash before it was noted: the wait is no shorter, and no longer than from the start."""
    await publish(bench, 1_000, queue_timeout=500)
    await bench.queues.go_on("default", "work", 1_300, 60_000)
    await bench.queues.go_on("default", "work", 1_300, 61_000)
    assert (await bench.queues.sweep(61_199)).ended == ()
    assert len((await bench.queues.sweep(61_500)).ended) == 1


async def test_a_pause_of_another_queue_changes_nothing(bench: Bench) -> None:
    """Nor does one of another tenant's."""
    await publish(bench, 1_000, queue_timeout=500)
    await bench.queues.hold("default", "other", 2_000)
    await bench.queues.hold("other", "work", 2_000)
    await bench.queues.go_on("default", "other", 1_000, 2_000)
    assert len((await bench.queues.sweep(2_000)).ended) == 1


async def test_a_claim_ends_the_queue_timeout(bench: Bench) -> None:
    """Also where its lease is lost: from then on the limit of the attempt counts."""
    await publish(bench, queue_timeout=500, lease=1_000, delay=0)
    assert len(await bench.claim(now=499)) == 1
    assert (await bench.queues.sweep(1_499)).ended == ()
    assert len(await bench.claim("b", now=5_000)) == 1


async def test_a_new_queue_timeout_counts_from_the_publication(bench: Bench) -> None:
    """For what waits for its first claim, not for what had one."""
    name = await publish(bench, 100, queue_timeout=500)
    await bench.write(ReconfigureParts(name, QueueOptions(queue_timeout=300)))
    assert (await bench.queues.sweep(0)).next_look == 400
    await bench.claim(now=0)
    await bench.write(ReconfigureParts(name, QueueOptions(queue_timeout=50)))
    assert (await bench.queues.sweep(200)).ended == ()


async def test_downtime_is_not_held_against_what_waits(bench: Bench) -> None:
    """After a start it waits for a minute at least, or for its queue timeout where that is less."""
    await publish(bench, queue_timeout=500)
    await publish(bench, queue_timeout=90_000)
    await publish(bench, queue_timeout=900_000)
    await bench.queues.extend(100_000)
    looks = [(await bench.queues.sweep(moment)).next_look for moment in (0, 100_500, 160_000)]
    assert looks == [100_500, 160_000, 900_000]


async def test_parts_without_a_publication_have_no_queue_timeout(bench: Bench) -> None:
    """Those that an earlier version has published."""
    await bench.publish()
    assert (await bench.queues.sweep(10**12)).next_look is None


async def test_a_clock_that_was_set_back_lengthens_no_lease(bench: Bench) -> None:
    """After a start a lease has its whole length from now, however late it would have ended before."""
    await publish(bench, 900_000, lease=1_000)
    (leased,) = await bench.claim(now=900_000)
    await bench.queues.extend(5_000)
    assert (await bench.queues.sweep(5_999)).next_look == 6_000
    assert (await bench.queues.renew(leased.lease, 5_999)) is not None


async def test_a_clock_that_was_set_back_lengthens_no_delay(bench: Bench) -> None:
    """A part whose lease was lost is free again when the pause is over, counted from now."""
    await publish(bench, 900_000, lease=1_000, delay=300)
    await bench.claim(now=900_000)
    await bench.queues.sweep(901_000)
    await bench.queues.extend(5_000)
    assert await bench.claim(now=5_299) == ()
    (leased,) = await bench.claim(now=5_300)
    assert leased.first_claim == 5_000  # it is no moment that is still to come


async def test_a_clock_that_was_set_back_lengthens_no_queue_timeout(bench: Bench) -> None:
    """What nobody claims ends when its queue timeout is over, counted from now, also after an update."""
    name = await publish(bench, 900_000, queue_timeout=70_000)
    await bench.queues.extend(5_000)
    assert (await bench.queues.sweep(74_999)).ended == ()
    await bench.write(ReconfigureParts(name, QueueOptions(queue_timeout=60_000)))
    assert len((await bench.queues.sweep(65_000)).ended) == 1


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
